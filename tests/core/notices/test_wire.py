"""What goes over the wire, and that what is longest is still taken whole.

Telegram refuses a text of more than 4,096 characters (sendMessage), which counts after its HTML is read; Slack refuses
blocks beyond their limits.
"""

import pytest

from receiver.core.notices.grouping import LONGEST_BODY, LONGEST_TITLE
from receiver.core.notices.notice import Notice
from tests.adapters.messages.destinations import SLACK, SLACK_API, TELEGRAM, TELEGRAM_API
from tests.core.notices.cases import PAGES
from tests.core.notices.sent import sent

APPRISE = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
TELEGRAM_TAKES = 4_096
LONGEST = Notice(
    cause="out_of_stock",
    topic="t",
    key="k",
    title="<" * 500,
    body="&" * 9000,
    decision=123456,
    question="l40s-growth-1",
)


@APPRISE
def test_the_longest_message_is_taken_whole_and_in_one_piece() -> None:
    found = sent(LONGEST, TELEGRAM, TELEGRAM_API)
    as_read = found["text"].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    assert LONGEST_TITLE + LONGEST_BODY < len(as_read) <= TELEGRAM_TAKES
    assert f"{PAGES.public_url}/decisions/123456" in as_read


@APPRISE
def test_the_longest_message_stays_below_the_limits_of_blocks() -> None:
    header, section, _, actions = sent(LONGEST, SLACK, SLACK_API)["blocks"]
    assert len(header["text"]["text"]) <= 150
    assert len(section["text"]["text"]) <= 3000
    assert section["text"]["text"].endswith("&amp; ...")  # cut between two signs, not within one
    assert [button["text"]["text"] for button in actions["elements"]][1:] == ["Decision 123456", "What to do"]
