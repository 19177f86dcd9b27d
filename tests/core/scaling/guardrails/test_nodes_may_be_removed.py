"""nodes_may_be_removed: nothing is bought that the cluster would not let us remove again."""

import pytest

from receiver.core.model.model import Rights, never_asked
from tests.core.builders import MINUTE, NOW, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import AN_INSTANT, held

UNKNOWN = never_asked(NOW)
REFUSED = UNKNOWN.answered(("patch nodes",), NOW)
GRANTED = UNKNOWN.answered((), NOW)
BIND = "bind the ClusterRole gpu-autoscaler-act (chart: mode=act; else k8s/install/act-rights.yaml)"


@pytest.mark.parametrize(
    ("rights", "detail"),
    [
        (REFUSED, f"missing RBAC permissions: patch nodes (needed to remove nodes): {BIND}"),
        (
            UNKNOWN,
            (
                "cannot check the RBAC permissions to remove nodes: not answered"
                " yet; growth waits until 12:05:00 UTC at most"
            ),
        ),
    ],
)
def test_growth_waits_for_the_rights_of_a_removal(rights: Rights, detail: str) -> None:
    decision = growing(rights=rights)
    assert held(decision, "nodes_may_be_removed").detail == detail
    bound = (
        "bind the ClusterRole gpu-autoscaler-act to the autoscaler's service account "
        "(chart: mode=act; else k8s/install/act-rights.yaml); no restart is needed"
    )
    assert remedies(decision, "nodes_may_be_removed") == {bound: None}


@pytest.mark.parametrize("rights", [GRANTED, None])
def test_with_these_rights_or_where_they_are_not_asked_for_the_pool_grows(rights: Rights | None) -> None:
    assert growing(rights=rights).target == 1


@pytest.mark.parametrize("rights", [REFUSED, UNKNOWN])
def test_a_removal_is_tried_all_the_same(rights: Rights) -> None:
    assert shrinking(rights=rights).target == 0


def test_without_an_answer_growth_waits_for_five_minutes() -> None:
    unknown = never_asked(NOW - 4 * MINUTE)
    decision = growing(rights=unknown)
    assert held(decision, "nodes_may_be_removed").until == decision.reconsider_at == NOW + MINUTE
    assert growing(rights=unknown, at=NOW + MINUTE - AN_INSTANT).target == 0
    assert growing(rights=unknown, at=NOW + MINUTE).target == 1


def test_a_refusal_ends_by_an_answer_alone() -> None:
    assert held(growing(rights=REFUSED, at=NOW + 60 * MINUTE), "nodes_may_be_removed").until is None
