"""nodes_may_be_removed: nothing is bought that could not be removed again."""

from datetime import timedelta

from receiver.core.model.model import never_asked
from tests.core.builders import NOW, growing, outcome, remedies, shrinking

UNKNOWN = never_asked(NOW)
LACKING = UNKNOWN.answered(("patch nodes",), NOW)
ALL = UNKNOWN.answered((), NOW)


def test_a_pool_grows_with_every_right_that_a_removal_needs() -> None:
    assert outcome(growing(rights=ALL)) == ("demand", 1)


def test_without_a_cluster_there_are_no_rights_to_wait_for() -> None:
    assert outcome(growing(rights=None)) == ("demand", 1)


def test_a_right_that_is_lacking_holds_growth() -> None:
    held = growing(rights=LACKING)
    assert outcome(held) == ("nodes_may_be_removed", 0)
    assert "patch nodes" in held.deciding.detail


def test_rights_that_were_never_read_hold_growth_for_a_while() -> None:
    held = growing(rights=UNKNOWN)
    assert outcome(held) == ("nodes_may_be_removed", 0)
    assert held.deciding.until == UNKNOWN.holds_until
    assert UNKNOWN.holds_until is not None
    long_ago = never_asked(NOW - (UNKNOWN.holds_until - NOW) - timedelta(seconds=1))
    assert outcome(growing(rights=long_ago)) == ("demand", 1)


def test_removal_is_none_of_its_business() -> None:
    assert outcome(shrinking(rights=LACKING)) == ("idle_nodes", -1)


def test_the_remedy_names_the_role_to_bind() -> None:
    [(text, _)] = remedies(growing(rights=LACKING), "nodes_may_be_removed")
    assert "the ClusterRole gpu-autoscaler-act, bound to our service account" in text
