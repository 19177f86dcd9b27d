"""Notices of one kind that came as one message."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from receiver.core.notices.grouping import Bundle, Waiting
from receiver.core.notices.notice import Notice
from tests.core.builders import NOW
from tests.core.notices import of_pools


def _as_one(notice: Notice, *earlier: str) -> Notice:
    """*notice* after others with these titles, one every 20 seconds."""
    apart = timedelta(seconds=20)
    notices: Sequence[Notice] = [*(replace(notice, title=title) for title in earlier), notice]
    parts = [Waiting(number=n, notice=said, at=NOW + n * apart) for n, said in enumerate(notices)]
    return Bundle(parts=tuple(parts)).as_one(NOW + len(notices) * apart)


CASES: Mapping[str, Callable[[], Notice]] = {
    "grew_again_and_again": lambda: _as_one(
        of_pools.CASES["grew"](), *[f"GPU pool l40s: {change} nodes" for change in ("0 -> 1", "0 -> 2", "0 -> 1")] * 4
    ),
    "stuck_one_after_another": lambda: _as_one(
        of_pools.CASES["stuck"](), *(f"GPU pool l40s: not usable after 20m: l40s-{n}" for n in range(5, 33))
    ),
}
