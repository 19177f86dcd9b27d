"""`make test` gives the same answer for the same commit: no law draws other examples the next time."""

import pytest
from hypothesis import settings


def test_no_law_of_this_run_draws_examples_by_chance(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-profile") or request.config.getoption("--hypothesis-seed"):
        pytest.skip("another profile was asked for")
    laws = {item.nodeid: item.obj for item in request.session.items if isinstance(item, pytest.Function)}
    given = {name: getattr(law, "_hypothesis_internal_use_settings", None) for name, law in laws.items()}
    by_chance = [name for name, used in given.items() if used is not None and not used.derandomize]
    assert (by_chance, settings().derandomize) == ([], True)
