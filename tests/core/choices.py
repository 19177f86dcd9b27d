"""Choices read off random bytes: a world of two hundred of them costs hypothesis one draw, and still shrinks."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices:
    """What *data* chooses, one or two bytes a choice. Where it ends, and as it shrinks, each is the first possible."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def number(self, least: int, most: int) -> int:
        """A whole number from *least* to *most*, at most 65536 of them."""
        drawn = next(self._data, 0)
        if most - least > 0xFF:
            drawn = drawn << 8 | next(self._data, 0)
        return least + drawn % (most - least + 1)

    def one(self, options: Sequence[T]) -> T:
        """One of *options*; one that is listed twice comes twice as often."""
        return options[self.number(0, len(options) - 1)]

    def yes(self) -> bool:
        """As often as not."""
        return self.one((False, True))


def built(build: Callable[[Choices], T], size: int) -> st.SearchStrategy[T]:
    """What *build* makes of the choices in *size* random bytes."""
    return st.binary(min_size=size, max_size=size).map(lambda data: build(Choices(data)))
