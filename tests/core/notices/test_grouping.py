"""What goes out as one message and when: laws over any course of notices, and the words of a bundle.

How a notice becomes a message: its sentences first, then the answers, then where to read on. What is longest is still
taken whole on the wire: Telegram refuses a text of more than 4,096 characters (sendMessage), which counts after its
HTML is read; Slack refuses blocks beyond their limits.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.notices.grouping import (
    LONGEST_BODY,
    LONGEST_TITLE,
    Bundle,
    PageLinks,
    Waiting,
    compose,
    goes_out,
    group_of,
    is_over,
)
from receiver.core.notices.notice import Cause, Notice, Severity
from tests.adapters.messages.destinations import SLACK, SLACK_API, TELEGRAM, TELEGRAM_API
from tests.core.builders import MINUTE, NOW, SECOND
from tests.core.notices.cases import PAGES
from tests.core.notices.sent import sent

EVERY = timedelta(minutes=5)


def a_notice(cause: str = Cause.GREW, **changes: Any) -> Notice:
    """News about one pool."""
    given: dict[str, Any] = {"topic": "action:l40s-id", "key": "k", "title": "t", "body": "b", "pool": "l40s-id"}
    return Notice(cause=cause, **{**given, **changes})


def no_pool(cause: Cause, topic: str, **changes: Any) -> Notice:
    """News about no pool."""
    return a_notice(cause, pool=None, topic=topic, **changes)


def waiting(*titles: str, at: datetime = NOW, step: timedelta = MINUTE, **changes: Any) -> list[Waiting]:
    """Notices with these titles, put into the outbox one *step* after the other from *at* on."""
    return [
        Waiting(number=n, notice=a_notice(title=title, **changes), at=at + n * step) for n, title in enumerate(titles)
    ]


# --- which notices are of one group


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (a_notice(), a_notice(Cause.SHRANK)),
        (a_notice(), a_notice(pool="a100-id")),
        (a_notice(Cause.GROWTH_FAILED), a_notice(Cause.GROWTH_FAILED, severity=Severity.FAILURE)),
        (a_notice(question="q1"), a_notice()),
        (a_notice(question="q1"), a_notice(question="q2")),
        (a_notice(Cause.EVICTS, key="a"), a_notice(Cause.EVICTS, key="b")),
        (
            a_notice(Cause.IDLE_WARNED, pool=None, topic="idle:a"),
            a_notice(Cause.IDLE_WARNED, pool=None, topic="idle:b"),
        ),
        (
            a_notice(Cause.REPORT, pool=None, topic="report:team:a"),
            a_notice(Cause.REPORT, pool=None, topic="report:team:b"),
        ),
        (
            a_notice(Cause.SOURCE_SILENT, pool=None, topic="source:civo"),
            a_notice(Cause.SOURCE_SILENT, pool=None, topic="source:kubernetes"),
        ),
    ],
)
def test_these_never_stand_in_one_message_or_wait_for_each_other(one: Notice, other: Notice) -> None:
    assert group_of(one) != group_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (a_notice(key="a", title="a"), a_notice(key="b", title="b", severity=Severity.SUCCESS)),
        (a_notice(Cause.STUCK, topic="stuck:1"), a_notice(Cause.STUCK, topic="stuck:2")),
        (
            a_notice(Cause.GROWTH_FAILED, key="a", severity=Severity.FAILURE),
            a_notice(Cause.GROWTH_FAILED, key="b", severity=Severity.FAILURE),
        ),
        (no_pool(Cause.MISFIT, "misfit:a"), no_pool(Cause.MISFIT, "misfit:b")),
        (no_pool(Cause.SOURCE_SILENT, "source:civo", key="a"), no_pool(Cause.SOURCE_SILENT, "source:civo", key="b")),
    ],
)
def test_these_come_as_one(one: Notice, other: Notice) -> None:
    assert group_of(one) == group_of(other)


# --- when they go out


def test_the_first_goes_out_at_once() -> None:
    (bundle,) = goes_out(waiting("a"), None, NOW, EVERY)
    assert [part.notice.title for part in bundle.parts] == ["a"]


def test_what_comes_within_the_interval_waits_for_its_end_and_goes_out_as_one() -> None:
    found = waiting("a", "b", "c", at=NOW + SECOND)
    assert list(goes_out(found, NOW, NOW + EVERY - SECOND, EVERY)) == []
    (bundle,) = goes_out(found, NOW, NOW + EVERY, EVERY)
    assert [part.notice.title for part in bundle.parts] == ["a", "b", "c"]


def test_another_kind_of_news_waits_for_nothing() -> None:
    failed = a_notice(Cause.GROWTH_FAILED, severity=Severity.FAILURE)
    assert group_of(failed) != group_of(a_notice())


@pytest.mark.parametrize("ahead", [SECOND, timedelta(days=400)])
def test_what_was_told_under_a_clock_ahead_of_this_one_holds_nothing_back(ahead: timedelta) -> None:
    assert len(list(goes_out(waiting("a"), NOW + ahead, NOW, EVERY))) == 1


CAUSES = st.sampled_from([Cause.GREW, Cause.SHRANK, Cause.STUCK, Cause.MISFIT, Cause.EVICTS])
NEWS = st.tuples(
    st.integers(0, 3600),  # seconds after the last one
    CAUSES,
    st.sampled_from(["a", "b", None]),
    st.sampled_from([Severity.INFO, Severity.FAILURE]),
    st.sampled_from([None, None, None, "q"]),
)
COURSES = st.lists(NEWS, max_size=60)
QUICK = st.lists(NEWS.map(lambda n: (n[0] % 20, *n[1:])), max_size=60)


def the_course(course: Sequence[tuple[int, Cause, str | None, Severity, str | None]]) -> list[Waiting]:
    """Notices one after the other; each question and each grace is asked and told once."""
    found, at = [], NOW
    for number, (later, cause, pool, severity, question) in enumerate(course):
        at += later * SECOND
        said = {"severity": severity, "question": f"{question}{number}" if question else None, "key": str(number)}
        found.append(
            Waiting(
                number=number,
                notice=a_notice(cause, pool=pool, topic=f"t:{pool}", **said),
                at=at,
            )
        )
    return found


@settings(max_examples=200, deadline=None)
@given(st.one_of(COURSES, QUICK), st.integers(1, 90), st.integers(1, 600))
def test_nothing_is_lost_or_told_twice_or_too_often_or_out_of_order_or_late(
    course: Any, round_seconds: int, every_seconds: int
) -> None:
    """A destination that takes everything, asked every few seconds until long after the last notice."""
    coming, every = the_course(course), every_seconds * SECOND
    pending: list[Waiting] = []
    told: dict[str, list[Any]] = {}
    out: list[tuple[datetime, Bundle]] = []
    now, end = NOW, (coming[-1].at if coming else NOW) + every + 2 * round_seconds * SECOND
    while now <= end:
        while coming and coming[0].at <= now:
            pending.append(coming.pop(0))
        for group in {group_of(part.notice) for part in pending}:
            of_group = [part for part in pending if group_of(part.notice) == group]
            for bundle in goes_out(of_group, told.get(group, [None])[-1], now, every):
                assert bundle.parts == tuple(of_group)
                out.append((now, bundle))
                told.setdefault(group, []).append(now)
                pending = [part for part in pending if part not in of_group]
        # A round that finds nothing to do is left out.
        held = [told[group_of(part.notice)][-1] + every for part in pending]
        events = [*held, *(part.at for part in coming[:1])]
        now = max(now + round_seconds * SECOND, min(events, default=end))
    numbers = [part.number for _, bundle in out for part in bundle.parts]
    assert sorted(numbers) == list(range(len(course)))  # none lost, none twice
    for times in told.values():
        assert all(later - earlier >= every for earlier, later in pairwise(times))
    by_group: dict[str, list[int]] = {}
    for at, bundle in out:
        assert len({group_of(part.notice) for part in bundle.parts}) == 1
        by_group.setdefault(group_of(bundle.parts[0].notice), []).extend(part.number for part in bundle.parts)
        for part in bundle.parts:
            at_once = part.notice.question is not None or part.notice.cause is Cause.EVICTS
            assert at - part.at < round_seconds * SECOND + (timedelta(0) if at_once else every)
    assert all(numbers == sorted(numbers) for numbers in by_group.values())


# --- what is over


@pytest.mark.parametrize(
    ("waits", "followed_by", "over"),
    [
        (Cause.BUDGET_HOLD, Cause.BUDGET_CLEAR, True),
        (Cause.BUDGET_WARN, Cause.BUDGET_HOLD, True),
        (Cause.EVICTS, Cause.EVICTS_NO_MORE, True),
        (Cause.OUT_OF_STOCK, Cause.GREW, True),
        (Cause.BUDGET_HOLD, Cause.BUDGET_HOLD, False),
        (Cause.BUDGET_HOLD, None, False),
        (Cause.GREW, Cause.SHRANK, False),
        (Cause.REPORT, Cause.BUDGET_CLEAR, False),
    ],
)
def test_a_state_is_over_when_its_topic_says_something_else_and_what_happened_never_is(
    waits: Cause, followed_by: Cause | None, over: bool
) -> None:
    assert is_over(a_notice(waits), followed_by) is over


def test_a_cause_of_a_newer_version_is_never_over() -> None:
    assert not is_over(a_notice("something_new"), Cause.GREW)


# --- what a bundle says


def said(parts: list[Waiting], now: datetime) -> str:
    return Bundle(parts=tuple(parts)).as_one(now).body


def test_a_message_of_one_notice_is_that_notice() -> None:
    (one,) = waiting("a")
    assert Bundle(parts=(one,)).as_one(NOW) == one.notice


def test_a_bundle_is_the_newest_in_full_and_a_line_on_the_others() -> None:
    parts = waiting(*(f"GPU pool l40s: {c} nodes" for c in ("3 -> 4", "4 -> 3", "3 -> 5")), step=SECOND)
    one = Bundle(parts=tuple(parts)).as_one(NOW + 2 * SECOND)
    assert one.title == "GPU pool l40s: 3 -> 5 nodes"
    assert one.body == "b\nAnd 2 more like it since 12:00 UTC: 3 -> 4 nodes, 4 -> 3 nodes."


def test_what_came_again_and_again_is_counted() -> None:
    parts = waiting(*["P: 3 -> 4", "P: 4 -> 3"] * 6, step=SECOND)
    assert said(parts, NOW + MINUTE / 2).endswith(
        "And 11 more like it since 12:00 UTC: 3 -> 4 (6 times), 4 -> 3 (5 times)."
    )


def test_the_line_ends_where_many_kinds_came() -> None:
    parts = waiting(*(f"P: {n}" for n in range(1, 40)), step=SECOND)
    assert said(parts, NOW + MINUTE / 2).endswith("And 38 more like it since 12:00 UTC: 1, 2, 3, 4, 5, ...")


def test_the_same_news_again_is_only_counted() -> None:
    assert said(waiting("a", "a", "a", step=SECOND), NOW + SECOND) == "b\nAnd 2 more like it since 12:00 UTC."


def test_a_message_that_comes_later_than_its_news_says_of_when_it_is() -> None:
    assert said(waiting("a"), NOW + MINUTE) == "b\nThis message was created at 12:00 UTC."


def test_news_of_another_day_say_the_day() -> None:
    assert said(waiting("a", "a"), NOW + timedelta(days=1)) == (
        "b\nAnd 1 more like it since 2026-11-20 12:00 UTC.\nThis message was created at 2026-11-20 12:01 UTC."
    )


def test_a_notice_without_a_body_gets_the_line_alone() -> None:
    assert said(waiting("a", "a", step=SECOND, body=""), NOW) == "And 1 more like it since 12:00 UTC."


def test_the_line_on_the_others_is_kept_where_the_newest_has_to_be_cut() -> None:
    body = said(waiting("a", "a", step=SECOND, body="word " * 1000), NOW + MINUTE + SECOND)
    assert len(body) <= LONGEST_BODY
    assert body.endswith(" ...\nAnd 1 more like it since 12:00 UTC.\nThis message was created at 12:00 UTC.")


UNSEALED = PageLinks(public_url="https://gpu.example.com", docs_url="https://git.example.com/docs")


class Asking(PageLinks):
    """Links of a server that can sign."""

    def answers(self, question: str) -> Sequence[tuple[str, str]]:
        return (("Approve", f"https://gpu.example.com/answers/{question}"),)


def notice(**changes: Any) -> Notice:
    values: dict[str, Any] = {"topic": "t", "key": "k", "cause": "test", "title": "A title", "body": "A sentence."}
    return Notice(**{**values, **changes})


def test_a_notice_without_anything_to_read_on_is_sent_as_it_is() -> None:
    message = compose(notice(), UNSEALED)
    assert (message.title, message.body) == ("A title", "A sentence.")


def test_a_title_begins_with_the_clusters_name() -> None:
    assert compose(notice(), PageLinks(cluster_name="prod-lon1")).title == "[prod-lon1] A title"
    assert len(compose(notice(title="x" * 999), PageLinks(cluster_name="prod-lon1")).title) <= LONGEST_TITLE


def test_a_message_ends_with_the_decision_and_the_page_that_says_what_to_do() -> None:
    body = compose(notice(decision=42, guide="runbooks/GpuBudgetStop.md"), UNSEALED).body
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
    message = compose(notice(title="x" * 500, body="y" * 5000, decision=42), UNSEALED)
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
