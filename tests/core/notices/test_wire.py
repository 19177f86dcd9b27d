"""What goes over the wire to Slack and Telegram, and that what is longest is still taken whole.

Slack cuts a text of more than 40,000 characters (chat.postMessage) and Telegram refuses one of more than 4,096
(sendMessage), which counts after its HTML is read.
"""

import pytest

from receiver.core.notices.grouping import LONGEST_BODY, LONGEST_TITLE
from receiver.core.notices.notice import Notice
from tests.core.notices.cases import PAGES
from tests.core.notices.sent import WIRE, every_request, sent

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
SLACK_TAKES, TELEGRAM_TAKES = 40_000, 4_096
LONGEST = Notice(
    cause="out_of_stock",
    topic="t",
    key="k",
    title="<" * 500,
    body="&" * 9000,
    decision=123456,
    question="l40s-growth-1",
)


def test_what_goes_over_the_wire_is_what_its_files_show() -> None:
    assert every_request() == {file.name: file.read_text(encoding="utf-8") for file in WIRE.iterdir()}


def test_the_longest_message_is_taken_whole_and_in_one_piece() -> None:
    found = sent(LONGEST)
    (attachment,) = found["slack.json"]["attachments"]
    assert len(attachment["title"]) + len(attachment["text"]) < SLACK_TAKES
    as_read = found["telegram.json"]["text"].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    assert LONGEST_TITLE + LONGEST_BODY < len(as_read) <= TELEGRAM_TAKES
    assert f"{PAGES.public_url}/decisions/123456" in as_read
