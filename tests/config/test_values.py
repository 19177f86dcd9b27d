"""Single values, as annotations have them."""

import gc
from contextlib import suppress

from receiver.config.values import LongerThanZero, Wrong, parse


def test_a_value_that_is_refused_leaves_nothing_in_memory() -> None:
    """Annotations are read of every pod, for as long as the server runs."""

    def refusals() -> int:
        gc.collect()
        return sum(type(found) is Wrong for found in gc.get_objects())

    before = refusals()
    for _ in range(3):
        with suppress(Wrong):
            parse(LongerThanZero, "soon")
    assert refusals() == before
