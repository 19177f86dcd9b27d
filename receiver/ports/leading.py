"""Who leads: the one process of several on a store whose loop steps and writes outside."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that leads, which is *mine* where it is this one. *term* counts the leaders of the store so far, None
    where nobody counts them."""

    name: str
    term: int | None = None
    mine: bool = False
