"""Nodes that fall sick one after the other: their pool slows down."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Backoff
from receiver.core.scaling.waits import FIRST_BACKOFF_BESIDE_WORKING_NODES, IN_A_DAY, LONGEST_BACKOFF

SICK_FOR = timedelta(minutes=10)  # until then a sickness may pass by itself
WELL_FOR = timedelta(minutes=30)  # a new node that works as long shows that the next one may work too


def falling_sick(lives: Iterable[NodeLife], pool: str, now: datetime) -> Backoff | None:
    """The pool's back-off when its newest nodes fell sick in a row, two or more within a day: a replacement would too.

    Each one more doubles it, from 5 minutes up to a day. After that one node at a time is tried until one stays well.
    """
    usable = [(life.usable_at, life) for life in lives if life.pool == pool and life.usable_at is not None]
    row: list[tuple[datetime, NodeLife]] = []
    for since, life in sorted(usable, key=lambda pair: pair[0], reverse=True):
        if life.sick_since is not None:
            row.append((life.sick_since, life))
        elif life.gone_at is not None or now - since >= WELL_FOR:
            break
    row = [(since, life) for since, life in row if timedelta(0) <= now - since < IN_A_DAY]
    if len(row) < 2:
        return None
    wait = min(FIRST_BACKOFF_BESIDE_WORKING_NODES * 2 ** min(len(row) - 2, 10), LONGEST_BACKOFF)
    names = ", ".join(sorted(life.name for _, life in row))
    return Backoff(failures=len(row), until=max(since for since, _ in row) + wait, reason=f"{names} fell sick")
