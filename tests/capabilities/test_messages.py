"""Messages of the core and of capabilities together."""

from receiver.core.notices.notice import Cause
from tests.core.notices.cases import CASES


def test_every_kind_of_news_has_a_message_in_a_book() -> None:
    assert {case().cause for case in CASES.values()} == set(Cause)
