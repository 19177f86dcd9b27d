"""gunicorn's log without what a client sent: a token in the wrong place of a request stands in the middle of it."""

from typing import Any

from gunicorn.glogging import Logger

REFUSED = "Invalid request from ip="
BROKEN = "Error handling request"


class CarefulLogger(Logger):  # type: ignore[misc]  # gunicorn leaves it untyped
    """Names the kind of what is wrong with a request and who sent it, and quotes nothing of it."""

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log *msg*; of a request that was refused without what follows the kind of mistake."""
        if isinstance(msg, str) and msg.startswith(REFUSED):
            who, _, wrong = msg.partition(": ")
            msg, args = "%s: %s", (who, _kind(wrong))
        super().warning(msg, *args, **kwargs)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log *msg* with its trace; of a request that broke without its address, which may let its reader act."""
        if isinstance(msg, str) and msg.startswith(BROKEN):
            msg, args = BROKEN, ()
        super().exception(msg, *args, **kwargs)


def _kind(wrong: str) -> str:
    """``Invalid HTTP Header`` of ``Invalid HTTP Header: 'Bearer ...'``."""
    for mark in (":", "'", '"', "("):
        wrong = wrong.partition(mark)[0]
    return wrong.strip()[:60] or "not understood"
