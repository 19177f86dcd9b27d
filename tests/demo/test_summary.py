"""The summary counts what the books say, and the demo only worked when everything did."""

from decimal import Decimal

from demo.summary import NOTICES, Summary, always_on, lines
from tests.core.notices.cases import CASES
from tests.demo.seen import pool, put
from tests.demo.summaries import POOLS, TOLD, a_summary


def failed(summary: Summary) -> list[str]:
    return [check.what for check in summary.checks if not check.holds]


def test_a_demo_in_which_everything_holds_worked() -> None:
    assert (failed(a_summary()), a_summary().worked) == ([], True)


def test_the_reaction_is_counted_from_the_handing_in_to_the_call() -> None:
    (growth,) = a_summary().growths

    assert (growth.seconds, growth.decision, growth.deliveries) == (1.5, 3, (2,))
    assert growth.about == ("GpuPodsPending of l40s",)


def test_a_call_before_the_handing_in_is_of_no_matter() -> None:
    summary = a_summary(during={"calls": [put(-1, seq=1), put(2.5, seq=2)]})

    assert summary.growths[0].seconds == 2.5


def test_a_growth_that_nothing_called_for_fails() -> None:
    assert failed(a_summary(during={"calls": []})) == ["most timed growths name the delivery that woke them (0 of 1)"]


def test_a_growth_without_a_delivery_fails() -> None:
    assert failed(a_summary(woken_by=())) == ["most timed growths name the delivery that woke them (0 of 1)"]


def test_a_job_that_did_not_run_fails() -> None:
    assert failed(a_summary(finished=[])) == ["every placeable job ran (1)"]


def test_a_killed_pod_fails() -> None:
    kill = {"pod": "demo/train-0", "node": "n"}

    assert failed(a_summary(kills=[kill])) == ["no busy node was deleted"]


def test_a_pool_above_its_minimum_fails() -> None:
    assert failed(a_summary(pools=[pool(required=0, instances=1)])) == ["every pool is back at its minimum"]


def test_a_pool_that_is_still_asked_for_fails() -> None:
    assert failed(a_summary(pools=[pool(required=1, instances=0)])) == ["every pool is back at its minimum"]


def test_a_node_bought_for_the_held_job_fails() -> None:
    both = [pool(required=1), {"id": "5f3c-a4", "required": 1, "instances": []}]

    assert len(failed(a_summary(during={"pools": both}))) == 1


def test_each_notice_is_missed() -> None:
    for missing in TOLD:
        told = tuple(n for n in TOLD if n is not missing)

        assert len(failed(a_summary(told=told))) == 1, missing["title"]


def test_money_and_units_are_those_of_the_books() -> None:
    summary = a_summary()

    assert (summary.nodes, summary.units, summary.paid_usd) == (2, 3, Decimal("0.06"))


def test_pools_that_are_always_on_pay_started_units_of_the_peak() -> None:
    assert always_on(POOLS, {"l40s": 2, "h200": 1}, 61) == (2 * Decimal("1.20") + Decimal("3.60")) * 2 / 60


def test_the_lines_say_the_figures() -> None:
    said = "\n".join(lines(a_summary()))

    assert "1 ran; from hand-in to start: p50 9.5 s, longest 9.5 s" in said
    assert "1.5 s  train    woken by delivery 2 (GpuPodsPending of l40s)" in said
    assert "3 paid units of 60 s for 2 nodes: $0.06" in said
    assert "(1 l40s) for these 70 s: $0.04" in said


def test_every_message_that_the_demo_waits_for_is_one_that_is_sent_so() -> None:
    sent = [case() for case in CASES.values()]
    for _, words, severity, _ in NOTICES:
        assert any(m.severity == severity and all(word in m.title for word in words) for m in sent), (words, severity)
