"""The summary counts what the books say, and the demo only worked when everything did."""

from decimal import Decimal
from typing import Any

from demo.plan import PoolPlan
from demo.scenario import DemoJob, Expects, Submitted
from demo.summary import NOTICES, Summary, always_on, lines, summarize
from demo.timeline import Timeline
from tests.core.notices.cases import CASES
from tests.demo.seen import BEGAN, POOL, at, decision, delivery, grown, notice, pool, put, seen, state

POOLS = (PoolPlan(name="l40s", id=POOL, price="1.20"), PoolPlan(name="h200", id="5f3c-a4", price="3.60"))
CODE = "kube-node-an.g1.l40s.kube.x1"
SYSTEM_NODE = {"num_hours": 3 / 60, "code": "kube-node-g4s.kube.medium"}  # the cluster's own: no part of the demo
TRAIN = DemoJob(id="train", at=0, runs=10, expects=Expects.GROWTH, pool="l40s")
LATE = DemoJob(id="late", at=30, runs=10, expects=Expects.HOLD, pool="h200")
TOLD = (
    notice("GPU pool l40s: 0 -> 1 nodes"),
    notice("GPU pool l40s: 1 -> 0 nodes"),
    notice("No GPU pool can hold demo/quantum-0", "warning"),
    notice("GPU budget 2026-09 has reached its hold line (80%)", "warning"),
    notice("GPU pool h200 does not grow: the budget does not cover it", "failure"),
)
FINISHED = {"id": "train", "wait_seconds": 9.5, "finished_at": at(20).isoformat()}


def judge(
    *,
    told: tuple[dict[str, Any], ...] = TOLD,
    woken_by: tuple[int, ...] = (2,),
    during: dict[str, Any] | None = None,
    **end: Any,
) -> Summary:
    """Return the summary of a demo that went well but for what is given."""
    timeline = Timeline(pools={p.id: p.name for p in POOLS})
    round_ = {
        "calls": [put(1.5)],
        "log": [delivery(2, 1.2), *told],
        "decisions": [decision(3, 0, 1, woken_by=woken_by)],
        "pools": [pool(required=1)],
        **(during or {}),
    }
    timeline.observe(seen(9, **round_))
    last = {
        "finished": [FINISHED],
        "charges": [{"num_hours": 1 / 60, "code": CODE}, {"num_hours": 2 / 60, "code": CODE}, SYSTEM_NODE],
        "paid": {"usd": "0.06"},
        **end,
    }
    submitted = [Submitted(job=TRAIN, at=BEGAN), Submitted(job=LATE, at=at(30))]
    return summarize(POOLS, submitted, timeline, [grown(1.4, 3)], state(70, **last), BEGAN)


def failed(summary: Summary) -> list[str]:
    return [check.what for check in summary.checks if not check.holds]


def test_a_demo_in_which_everything_holds_worked() -> None:
    assert (failed(judge()), judge().worked) == ([], True)


def test_the_reaction_is_counted_from_the_handing_in_to_the_call() -> None:
    (growth,) = judge().growths

    assert (growth.seconds, growth.decision, growth.deliveries) == (1.5, 3, (2,))
    assert growth.about == ("GpuPodsPending of l40s",)


def test_a_call_before_the_handing_in_is_of_no_matter() -> None:
    summary = judge(during={"calls": [put(-1, seq=1), put(2.5, seq=2)]})

    assert summary.growths[0].seconds == 2.5


def test_a_growth_that_nothing_called_for_fails() -> None:
    assert failed(judge(during={"calls": []})) == ["most timed growths name the delivery that woke them (0 of 1)"]


def test_a_growth_without_a_delivery_fails() -> None:
    assert failed(judge(woken_by=())) == ["most timed growths name the delivery that woke them (0 of 1)"]


def test_a_job_that_did_not_run_fails() -> None:
    assert failed(judge(finished=[])) == ["every placeable job ran (1)"]


def test_a_killed_pod_fails() -> None:
    kill = {"pod": "demo/train-0", "node": "n"}

    assert failed(judge(kills=[kill])) == ["no busy node was deleted"]


def test_a_pool_above_its_minimum_fails() -> None:
    assert failed(judge(pools=[pool(required=0, instances=1)])) == ["every pool is back at its minimum"]


def test_a_pool_that_is_still_asked_for_fails() -> None:
    assert failed(judge(pools=[pool(required=1, instances=0)])) == ["every pool is back at its minimum"]


def test_a_node_bought_for_the_held_job_fails() -> None:
    both = [pool(required=1), {"id": "5f3c-a4", "required": 1, "instances": []}]

    assert len(failed(judge(during={"pools": both}))) == 1


def test_each_notice_is_missed() -> None:
    for missing in TOLD:
        told = tuple(n for n in TOLD if n is not missing)

        assert len(failed(judge(told=told))) == 1, missing["title"]


def test_money_and_units_are_those_of_the_books() -> None:
    summary = judge()

    assert (summary.nodes, summary.units, summary.paid_usd) == (2, 3, Decimal("0.06"))


def test_pools_that_are_always_on_pay_started_units_of_the_peak() -> None:
    assert always_on(POOLS, {"l40s": 2, "h200": 1}, 61) == (2 * Decimal("1.20") + Decimal("3.60")) * 2 / 60


def test_the_lines_say_the_figures() -> None:
    said = "\n".join(lines(judge()))

    assert "1 ran; from hand-in to start: p50 9.5 s, longest 9.5 s" in said
    assert "1.5 s  train    woken by delivery 2 (GpuPodsPending of l40s)" in said
    assert "3 paid units of 60 s for 2 nodes: $0.06" in said
    assert "(1 l40s) for these 70 s: $0.04" in said


def test_every_message_that_the_demo_waits_for_is_one_that_is_sent_so() -> None:
    sent = [case() for case in CASES.values()]
    for _, words, severity, _ in NOTICES:
        assert any(m.severity == severity and all(word in m.title for word in words) for m in sent), (words, severity)
