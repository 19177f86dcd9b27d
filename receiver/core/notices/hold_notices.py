"""Notices of new GPU work that is kept out while a budget holds, and of its being let in again."""

from receiver.core.money.budget import Intent
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity

TOPIC = "kept-out:"


def notice(place: str, did: str, sentence: str, wanted: Intent, *, over: bool = False) -> Notice:
    """The notice of what was done at *place*; *did* is a word of `receiver.ports.Did` or ``failed``."""
    title = {
        "done": f"New GPU work is {'let into' if over else 'kept out of'} {place}",
        "observed": f"New GPU work would be {'let into' if over else 'kept out of'} {place} (observing)",
    }.get(did, f"New GPU work is not {'let into' if over else 'kept out of'} {place}")
    why = "the budget hold is over" if over else wanted.why
    return Notice(
        cause=Cause.KEPT_OUT,
        topic=f"{TOPIC}{place}",
        key=f"{wanted.month}:{'over' if over else 'held'}:{did}",
        title=title,
        body=wording.worded(sentence, why=why, after=_next(did, over=over)),
        severity=Severity.INFO if did in ("done", "observed") else Severity.WARNING,
    )


def _next(did: str, *, over: bool) -> str:
    if did == "observed":
        return "nothing while mode is observe"
    if did != "done":
        return "what can be repeated is tried again; a person has to see to the rest"
    return "new GPU work may begin there" if over else "running work goes on; new work may begin when the hold is over"
