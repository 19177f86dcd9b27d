"""What needs attention in one pool of the picture, and what a concern is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from receiver.core.explain.rules import RULES, guide, plainly
from receiver.core.model.policy import Policy
from receiver.core.model.text import some, span
from receiver.core.notices.sentences import GUIDES, Cause
from receiver.core.scaling.capacity import Shortage, shortage_of
from receiver.web.pages.show import ago, number, time_of

NAMED = 3


class Level(StrEnum):
    """How bad it is; also the name of its look."""

    BAD = "bad"  # something does not work, or work waits that nothing will serve
    WARN = "warn"  # it may become bad, or is somebody's mistake
    NOTE = "note"  # as somebody asked for

    @property
    def rank(self) -> int:
        """Its place: the worst first."""
        return list(Level).index(self)

    @property
    def word(self) -> str:
        """What is said in front of it, so that its colour is not its only sign."""
        return {"bad": "Wrong", "warn": "Look at", "note": "Note"}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """*what* is a sentence behind the names of *pools* (id and name), if there are any; *kind* names its cause.

    *doing* says what is done about it, *until* what is waited for, *todo* what a person can do, *guide* where that is
    explained (a path below ``docs/``), *page* which of our pages has more, *decision* the one that says so.
    """

    kind: str
    level: Level
    what: str
    doing: str = ""
    until: str = ""
    todo: str = ""
    guide: str = ""
    page: str = ""
    pools: tuple[tuple[str, str], ...] = ()
    decision: int | None = None
    question: str | None = None


def names_of(given: Sequence[str]) -> str:
    """Return the first few of *given*, and how many more there are."""
    more = f" and {len(given) - NAMED} more" if len(given) > NAMED else ""
    return f"{', '.join(given[:NAMED])}{more}"


STUCK = GUIDES[Cause.STUCK]
SCARCE = {
    Shortage.STOCK: ("out_of_stock", "cannot grow: Civo has no GPU of its kind free.", GUIDES[Cause.OUT_OF_STOCK]),
    Shortage.QUOTA: ("quota", "cannot grow: the account's quota at Civo is used up.", GUIDES[Cause.OUT_OF_STOCK]),
}
LONGEST_REASON = 160  # characters; the table of pools has all of it


def of_pool(entry: Mapping[str, Any], policy: Policy, now: datetime) -> Iterator[Concern]:
    """Yield what needs attention in the pool *entry* of a picture."""
    name = str(entry.get("name") or entry.get("pool") or "a pool")
    which = ((str(entry.get("pool") or name), name),)
    yield from _on_the_way(entry, which, policy, now)
    yield from _waits(entry, which, now)
    yield from _action(entry, which)
    yield from _asked(entry, which)
    yield from _held(entry, which)
    yield from _odd(entry, which)
    yield from _paused(entry, which, now)


def _on_the_way(
    entry: Mapping[str, Any], which: tuple[tuple[str, str], ...], policy: Policy, now: datetime
) -> Iterator[Concern]:
    since, pool = time_of(entry.get("awaited_since")), policy.pool(which[0][0])
    usual = number(entry.get("ready_in_seconds"))
    if since is not None and pool is not None and now - since > pool.provision_timeout:
        usually = f" (usually {span(float(usual))})" if usual is not None else ""
        yield Concern(
            kind="stuck",
            level=Level.BAD,
            what="is stuck: a node that was asked for is not usable.",
            doing=f"It has been on its way for {span((now - since).total_seconds())}{usually}. Nothing more is bought "
            "here meanwhile; other pools that fit are used.",
            until="its GPUs, or its removal",
            guide=STUCK,
            pools=which,
        )
    failed = entry.get("provisioning")
    if failed:
        count = int(number(failed.get("failures")) or 0)
        later = any(w.get("kind") == "provisioning" for w in entry.get("waits") or ())
        yield Concern(
            kind="never_usable",
            level=Level.BAD,
            what=f"had {some(count, 'node')} in a row that never became usable: {failed.get('reason')}.",
            doing="One at a time is tried until one works.",
            until=f"the next try {ago(failed.get('until'), now)}" if later else "the node on trial",
            guide=STUCK,
            pools=which,
        )


def _waits(entry: Mapping[str, Any], which: tuple[tuple[str, str], ...], now: datetime) -> Iterator[Concern]:
    for wait in entry.get("waits") or ():
        kind, reason, grows = wait.get("kind"), str(wait.get("reason") or ""), wait.get("direction") == "grow"
        again = f"the next try {ago(wait.get('until'), now)}"
        if kind == "backoff" and grows:
            failed = "growth_failed", f"cannot grow: {_short(reason)}.", GUIDES[Cause.GROWTH_FAILED]
            cause, what, guide = SCARCE.get(shortage_of(reason), failed)
            yield Concern(
                kind=cause,
                level=Level.BAD,
                what=what,
                doing="Other pools that fit are used meanwhile.",
                until=again,
                guide=guide,
                pools=which,
            )
        elif kind == "backoff":
            of = f" of {', '.join(wait['nodes'])}" if wait.get("nodes") else ""
            yield Concern(
                kind="removal_stopped",
                level=Level.WARN,
                what=f"stopped the removal{of}: {_short(reason)}.",
                doing="The node stays and costs money.",
                until=again,
                guide=GUIDES[Cause.REMOVAL_STOPPED],
                pools=which,
            )
        elif kind == "undone":
            yield Concern(
                kind="undone",
                level=Level.BAD,
                what=f"is left alone: {reason}.",
                until=f"the end of this {ago(wait.get('until'), now)}",
                todo=RULES["not_undone_by_others"].advice,
                guide="guardrails.md#not_undone_by_others",
                pools=which,
            )


def _short(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON].rstrip()}…"


def _action(entry: Mapping[str, Any], which: tuple[tuple[str, str], ...]) -> Iterator[Concern]:
    action = entry.get("open_action") or {}
    if action.get("last_error"):
        doing = "growth" if action.get("kind") == "grow" else "removal"
        yield Concern(
            kind=f"{doing}_fails",
            level=Level.WARN,
            what=f"has trouble with its {doing}: {_short(action['last_error'])}.",
            doing="It is tried again by itself.",
            pools=which,
        )


def _asked(entry: Mapping[str, Any], which: tuple[tuple[str, str], ...]) -> Iterator[Concern]:
    for question in entry.get("questions") or ():
        if question.get("state") == "open" and question.get("wanted") is not False:
            number = str(question.get("id"))
            yield Concern(
                kind="question",
                level=Level.WARN,
                what=f"waits for an answer: {question.get('said')}.",
                todo=f"answer where the message leads to, or with `gpu-autoscaler answer {number} approve`",
                guide=GUIDES[Cause.ASKS],
                pools=which,
                question=number,
            )


def _held(entry: Mapping[str, Any], which: tuple[tuple[str, str], ...]) -> Iterator[Concern]:
    gpus = number(entry.get("pending_gpus"))
    rules = [r for r in entry.get("held_by") or () if r not in RULES or not RULES[r].shown_elsewhere]
    if not gpus or not rules:
        return
    rule = rules[0]
    because = str(entry.get("because") or "")
    yield Concern(
        kind=f"held_{rule}",
        level=Level.BAD if rule == "within_budget" else Level.WARN,
        what=f"is held while GPUs are waited for: {plainly(rule)}.",
        doing=f"{because[:1].upper()}{because[1:]}.",
        todo=RULES[rule].advice if rule in RULES else "",
        guide=guide(rule),
        pools=which,
        decision=entry.get("decision") if isinstance(entry.get("decision"), int) else None,
    )


def _odd(entry: Mapping[str, Any], which: tuple[tuple[str, str], ...]) -> Iterator[Concern]:
    unknown, drifts = number(entry.get("unknown")), number(entry.get("drifts"))
    if unknown:
        nodes = [str(n.get("name")) for n in entry.get("nodes") or () if n.get("stage") in ("unknown", "broken")]
        yield Concern(
            kind="unknown_nodes",
            level=Level.WARN,
            what=f"has {some(int(unknown), 'node')} in an unknown state{f': {names_of(nodes)}' if nodes else ''}.",
            doing="It is kept, for somebody may use it." if unknown == 1 else "They are kept: somebody may use them.",
            guide=GUIDES[Cause.UNKNOWN],
            pools=which,
        )
    if "price_usd_per_hour" in entry and entry["price_usd_per_hour"] is None:
        yield Concern(
            kind="no_price",
            level=Level.WARN,
            what="cannot grow: no price is known.",
            todo=RULES["price_is_known"].advice,
            guide="guardrails.md#price_is_known",
            pools=which,
        )
    if drifts:
        yield Concern(
            kind="drift",
            level=Level.WARN,
            what=f"had the node count changed by somebody else, {some(int(drifts), 'time')} in the last day.",
            doing="What they set is kept.",
            todo=RULES["not_undone_by_others"].advice,
            guide=GUIDES[Cause.DRIFT],
            pools=which,
        )


def _paused(entry: Mapping[str, Any], which: tuple[tuple[str, str], ...], now: datetime) -> Iterator[Concern]:
    if entry.get("silenced_by"):
        yield Concern(
            kind="silenced",
            level=Level.NOTE,
            what=f"is paused: {entry['silenced_by']}.",
            doing="Nothing grows and nothing is removed.",
            todo=RULES["not_silenced"].advice,
            guide="guardrails.md#not_silenced",
            pools=which,
        )
    for override in entry.get("overrides") or ():
        nodes = override.get("nodes")
        size = f" of {some(nodes, 'node')}" if isinstance(nodes, int) else ""
        yield Concern(
            kind="override",
            level=Level.NOTE,
            what=f"has a {override.get('kind')}{size} by {override.get('who')}: {override.get('why')}.",
            until=f"its end {ago(override.get('until'), now)}",
            pools=which,
        )
