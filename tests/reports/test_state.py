"""A pool's state is one of three words, in observe mode what would happen; a blocked pool names its guardrail."""

from typing import Any

import pytest

from receiver.core.model.actions import Change, Reason, Verdict
from receiver.core.model.model import Node, Source, Stage
from receiver.reports.picture import NodeDocument, OpenAction, PoolDocument, ReasonDocument
from receiver.reports.state import scaling_state, unseen
from tests.core.builders import a_node, a_state, all_up, decision_on

WANTS, HELD, CUT, PASSED, NOTED = (
    Reason(rule=rule, verdict=verdict, target=1)
    for rule, verdict in [
        ("demand", Verdict.WANTS),
        ("within_budget", Verdict.HOLDS),
        ("within_limits", Verdict.LIMITS),
        ("not_frozen", Verdict.ALLOWS),
        ("nothing_wanted", Verdict.NOTES),
    ]
)
LATER = Reason(rule="approved", verdict=Verdict.HOLDS, target=1)
NOT_WHOLE = Reason(rule="gangs_whole", verdict=Verdict.NOTES, target=1)
SEEN: dict[str, Any] = {"mode": "act", "required": 1, "pending_gpus": 0}
APPROVED = ReasonDocument(rule="approved", verdict="holds")
TABLE = [
    # change, reasons, mode, an earlier decision is under way, state
    (Change.HOLD, (NOTED, PASSED), "act", False, "steady"),
    (Change.HOLD, (), "act", False, "steady"),
    (Change.HOLD, (NOTED,), None, False, "steady"),
    (Change.HOLD, (NOTED, PASSED), "act", True, "scaling"),
    (Change.GROW, (WANTS, PASSED), "act", False, "scaling"),
    (Change.SHRINK, (WANTS, PASSED), "act", False, "scaling"),
    (Change.GROW, (WANTS, CUT), "act", False, "scaling"),
    (Change.HOLD, (WANTS, HELD), "act", False, "blocked: the budget does not cover it"),
    (Change.HOLD, (WANTS, NOT_WHOLE), "act", False, "blocked: a gang does not fit as a whole"),
    (Change.HOLD, (WANTS, NOT_WHOLE, HELD), "act", False, "blocked: the budget does not cover it"),
    (Change.HOLD, (WANTS, HELD), None, False, "blocked: the budget does not cover it"),
    (Change.HOLD, (WANTS, HELD), "act", True, "blocked: the budget does not cover it"),
    (Change.HOLD, (WANTS, CUT, HELD, LATER), "act", False, "blocked: the budget does not cover it"),
]


@pytest.mark.parametrize(("change", "reasons", "mode", "under_way", "state"), TABLE)
def test_the_decision_gives_the_state(
    change: Change, reasons: tuple[Reason, ...], mode: str | None, under_way: bool, state: str
) -> None:
    assert str(scaling_state(change, reasons, mode, under_way=under_way)) == state


TO_THREE, TO_NONE = (Reason(rule="demand", verdict=Verdict.WANTS, target=nodes) for nodes in (3, 0))
COOLING = Reason(rule="cooled_down", verdict=Verdict.HOLDS, target=1)


@pytest.mark.parametrize(
    ("change", "reasons", "under_way", "state"),
    [
        (Change.HOLD, (NOTED,), False, "steady"),
        (Change.HOLD, (NOTED,), True, "steady"),  # others requested the nodes
        (Change.GROW, (TO_THREE,), False, "would scale 1 -> 3"),
        (Change.SHRINK, (TO_NONE,), False, "would remove 1"),
        (Change.HOLD, (TO_THREE, HELD), False, "would be blocked: the budget does not cover it"),
        (Change.HOLD, (TO_THREE, COOLING), False, "would scale 1 -> 3"),  # its observed change started the cooldown
    ],
)
def test_in_observe_mode_the_state_is_the_one_that_would_be(
    change: Change, reasons: tuple[Reason, ...], under_way: bool, state: str
) -> None:
    assert str(scaling_state(change, reasons, "observe", present=1, under_way=under_way)) == state


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (PoolDocument(verdict="hold", **SEEN), "steady"),
        (PoolDocument(verdict="hold", **SEEN, building=2), "scaling"),
        (PoolDocument(verdict="hold", **SEEN, open_action=OpenAction(kind="retire")), "scaling"),
        (PoolDocument(verdict="hold", **{**SEEN, "mode": "observe"}, building=2), "steady"),
        (PoolDocument(verdict="hold", reasons=(APPROVED,)), "blocked: it waits for an approval"),
    ],
)
def test_a_published_pool_is_scaling_until_its_nodes_have_come_or_gone(shown: PoolDocument, state: str) -> None:
    assert str(shown.state) == state


UNKNOWN = NodeDocument(name="n1", stage="unknown")


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (PoolDocument(verdict="hold", mode="act"), "blocked: a source does not answer"),
        (PoolDocument(verdict="hold", **SEEN, nodes=(UNKNOWN,)), "blocked: a source does not answer"),
        (PoolDocument(verdict="hold", mode="act", required=0), "blocked: a source does not answer"),
        (PoolDocument(verdict="hold", mode="act", reasons=(APPROVED,)), "blocked: it waits for an approval"),
        (PoolDocument(verdict="grow", **SEEN, nodes=(UNKNOWN,)), "scaling"),
        (PoolDocument(verdict="hold", mode="observe"), "would be blocked: a source does not answer"),
    ],
    ids=[
        "Civo is silent",
        "Kubernetes is silent",
        "nothing counts what waits",
        "a guardrail spoke",
        "demand is counted elsewhere",
        "observe mode",
    ],
)
def test_a_pool_that_is_not_seen_is_not_steady(shown: PoolDocument, state: str) -> None:
    assert str(shown.state) == state


@pytest.mark.parametrize(
    ("silent", "nodes", "state"),
    [
        ((), [a_node()], "steady"),
        ((Source.CIVO,), [a_node()], "blocked: a source does not answer"),
        ((Source.KUBERNETES,), [a_node(stage=Stage.UNKNOWN, idle_since=None)], "blocked: a source does not answer"),
        ((Source.KUBERNETES, Source.PROMETHEUS), [], "blocked: a source does not answer"),  # nothing counts what waits
        ((Source.KUBERNETES,), [], "steady"),  # kube-state-metrics counts the waiting pods, and no node can go
    ],
)
def test_a_decision_on_nodes_that_were_not_seen_is_blocked(
    silent: tuple[Source, ...], nodes: list[Node], state: str
) -> None:
    decided = decision_on(a_state(*nodes), sources=all_up(*silent))
    assert str(scaling_state(decided.change, decided.reasons, "act", unseen=unseen(decided.evidence))) == state


def test_the_state_is_no_field_of_the_api() -> None:
    assert "state" not in PoolDocument(verdict="hold").document()
