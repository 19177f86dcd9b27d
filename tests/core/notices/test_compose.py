"""How a notice becomes a message: its sentences first, then the answers, then where to read on."""

from collections.abc import Sequence
from typing import Any

from receiver.core.notices.grouping import LONGEST_BODY, LONGEST_TITLE, PageLinks, compose
from receiver.core.notices.notice import Cause, Notice

PAGES = PageLinks(public_url="https://gpu.example.com", docs_url="https://git.example.com/docs")


class Asking(PageLinks):
    """Links of a server that can sign."""

    def answers(self, question: str) -> Sequence[tuple[str, str]]:
        return (("Approve", f"https://gpu.example.com/answers/{question}"),)


def notice(**changes: Any) -> Notice:
    values: dict[str, Any] = {"topic": "t", "key": "k", "cause": "test", "title": "A title", "body": "A sentence."}
    return Notice(**{**values, **changes})


def test_a_notice_without_anything_to_read_on_is_sent_as_it_is() -> None:
    message = compose(notice(), PAGES)
    assert (message.title, message.body) == ("A title", "A sentence.")


def test_a_title_begins_with_the_clusters_name() -> None:
    assert compose(notice(), PageLinks(cluster_name="prod-lon1")).title == "[prod-lon1] A title"
    assert len(compose(notice(title="x" * 999), PageLinks(cluster_name="prod-lon1")).title) <= LONGEST_TITLE


def test_a_message_ends_with_the_decision_and_the_page_that_says_what_to_do() -> None:
    body = compose(notice(decision=42, guide="runbooks/GpuBudgetStop.md"), PAGES).body
    assert body.splitlines()[1:] == [
        "Decision 42: https://gpu.example.com/decisions/42",
        "What to do: https://git.example.com/docs/runbooks/GpuBudgetStop.md",
    ]


def test_without_addresses_it_names_the_command_and_the_file() -> None:
    body = compose(notice(decision=42, guide="runbooks/GpuBudgetStop.md"), PageLinks()).body
    assert body.splitlines()[1:] == [
        "Decision 42: gpu-autoscaler explain decision 42",
        "What to do: docs/runbooks/GpuBudgetStop.md",
    ]


def test_a_notice_that_names_no_page_leads_to_the_one_of_its_cause() -> None:
    body = compose(notice(cause=Cause.STUCK), PageLinks()).body
    assert body.splitlines()[1:] == ["What to do: docs/runbooks/GpuScaleUpStuck.md"]
    assert "GpuBudgetStop.md" in compose(notice(cause=Cause.STUCK, guide="runbooks/GpuBudgetStop.md"), PageLinks()).body


def test_names_and_errors_without_end_leave_room_for_where_to_read_on() -> None:
    message = compose(notice(title="x" * 500, body="y" * 5000, decision=42), PAGES)
    assert len(message.title) <= LONGEST_TITLE
    assert len(message.body) <= LONGEST_BODY + 100
    assert message.body.splitlines()[-1] == "Decision 42: https://gpu.example.com/decisions/42"


def test_answers_come_before_what_to_read() -> None:
    body = compose(notice(decision=42, question="q-1"), Asking(public_url="https://gpu.example.com")).body
    assert body.splitlines()[1:] == [
        "Approve: https://gpu.example.com/answers/q-1",
        "Decision 42: https://gpu.example.com/decisions/42",
    ]


def test_a_notice_that_asks_nothing_offers_no_answers() -> None:
    assert compose(notice(), Asking()).body == "A sentence."


def test_a_message_without_sentences_begins_with_what_to_read() -> None:
    assert compose(notice(body="", decision=3), PageLinks()).body == "Decision 3: gpu-autoscaler explain decision 3"
