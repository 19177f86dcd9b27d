"""Whose an exception is, by the loops that it came through, and what is left out because of it."""

import pytest

from receiver.core.scaling.failures import Failures, LeftOut, blame
from tests.core.builders import a_pod, a_state, facts


class Bug(Exception):
    """Raised by no code of the product."""


def learnt(error: Exception, left_out: LeftOut | None = None) -> tuple[LeftOut, Failures]:
    """What is left out because of *error*, beside what was *left_out* before."""
    left_out, failures = left_out or LeftOut(), Failures()
    left_out.learn(error, failures)
    return left_out, failures


def raised(*subjects: blame) -> Exception:
    """A bug that came through *subjects*, the innermost first."""
    error: Exception = Bug()
    for subject in subjects:
        with pytest.raises(Bug) as caught, subject:
            raise error
        error = caught.value
    return error


def test_the_innermost_pool_and_the_innermost_owner_are_blamed() -> None:
    error = raised(blame(pool="in"), blame(owner="ml/a"), blame(pool="out", owner="ml/b"))
    left_out, failures = learnt(error)
    assert left_out.pairs == {("ml/a", "in")}
    assert [(failure.pool, failure.workload) for failure in failures.all] == [("in", "ml/a")]


def test_in_a_loop_the_round_that_raises_is_blamed() -> None:
    def fails_at(last: str) -> None:
        with blame() as blamed:
            for pool in ("one", "two", "three"):
                blamed.pool = pool
                if pool == last:
                    raise Bug

    with pytest.raises(Bug) as caught:
        fails_at("two")
    assert list(learnt(caught.value)[1].set_aside) == ["two"]


def test_what_passes_without_an_exception_is_blamed_for_nothing() -> None:
    error = Bug()
    with blame(pool="one"), pytest.raises(Bug):
        raise error
    with pytest.raises(Bug):
        learnt(error)


def test_an_extra_is_left_out_before_a_pool_or_an_owner() -> None:
    left_out, failures = learnt(raised(blame(pool="one", owner="ml/a"), blame(part="buffers")))
    assert (left_out.parts, left_out.pairs, failures.set_aside) == ({"buffers"}, set(), {})


def test_an_extra_that_was_left_out_is_not_the_reason() -> None:
    left_out = LeftOut(parts={"buffers"})
    assert list(learnt(raised(blame(pool="one"), blame(part="buffers")), left_out)[1].set_aside) == ["one"]


def test_an_exception_that_is_raised_again_is_judged_anew() -> None:
    error = raised(blame(pool="one"))
    learnt(error)
    with pytest.raises(Bug) as caught, blame(pool="two"):
        raise error
    assert list(learnt(caught.value)[1].set_aside) == ["two"]


def test_an_owner_and_a_pool_that_fail_together_are_kept_apart_until_the_pool_fails_with_many() -> None:
    left_out, failures = LeftOut(), Failures()
    for number in range(6):
        assert failures.set_aside == {}
        left_out.learn(raised(blame(pool="one", owner=f"ml/{number}")), failures)
    assert list(failures.set_aside) == ["one"]
    assert left_out.owners == set()


def test_nothing_is_left_out_of_the_facts_unless_it_failed() -> None:
    found = facts(a_state(), waiting=[a_pod("a"), a_pod("b")])
    assert LeftOut().of(found) is found
    assert [pod.name for pod in LeftOut(owners={"ml/a"}).of(found).waiting] == ["b"]
