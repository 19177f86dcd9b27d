"""Notices of nodes that are closed to new work while a budget is at its stop; the stop's own message tells the rest."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from receiver.core.model.policy import Pool
from receiver.core.model.text import some
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity

TOPIC = "closed:"
REFUSED = "not-closed:"
TOLD_BY = 5  # nodes by which a refusal is known: one more at the end is no news
RAISE = "To raise the allowance: gpu-autoscaler budget set USD --why REASON"
REOPENED = "reopened:"


def reopened(pool: Pool, nodes: int, now: datetime) -> Notice:
    """The notice that new work may begin again on *nodes* nodes of *pool*."""
    return Notice(
        cause=Cause.REOPENED,
        topic=f"{TOPIC}{pool.id}",
        key=f"{REOPENED}{now:%Y-%m-%dT%H:%M}",
        title=f"GPU pool {pool.name} takes new work again",
        body=wording.worded(
            why="no budget is at its stop there any more",
            after=f"{some(nodes, 'node')} made schedulable; the pool grows again when GPU work waits",
        ),
        severity=Severity.SUCCESS,
        pool=pool.id,
    )


def again(pool: Pool, why: str) -> Notice:
    """The notice that no new work begins on nodes of *pool* any more, after people were told that it may."""
    return Notice(
        cause=Cause.CLOSED,
        topic=f"{TOPIC}{pool.id}",
        key=f"again:{why}",
        title=f"GPU pool {pool.name} is closed to new work again",
        body=wording.worded(
            why=why,
            after="its nodes are cordoned until the stop is over; running work goes on",
            do=RAISE,
        ),
        severity=Severity.WARNING,
        pool=pool.id,
    )


def stay_closed(pool: Pool, unpriced: Sequence[str]) -> Notice:
    """The notice that closed nodes of *pool* stay so: without the price of sizes nobody can tell if the stop is
    over."""
    return Notice(
        cause=Cause.CLOSED,
        topic=f"{TOPIC}{pool.id}",
        key=f"unpriced:{','.join(unpriced)}",
        title=f"GPU pool {pool.name}: nodes stay closed to new work",
        body=wording.worded(
            why=f"nobody can tell whether a budget is still at its stop: {', '.join(unpriced)} has no price",
            after="they open when the size has a price (price_usd_per_hour or prices_file) and the stop is over",
        ),
        severity=Severity.WARNING,
        pool=pool.id,
    )


def failed(pool: Pool, refused: Mapping[str, Exception], why: str) -> Notice:
    """The notice that nodes of *pool* could not be closed (or opened, where *why* is empty), which a person must see
    to; *refused* is what each of them (by name) was answered."""
    by_answer: dict[str, list[str]] = {}
    for node in sorted(refused):
        by_answer.setdefault(str(refused[node]), []).append(node)
    said = "; ".join(f"{wording.named(nodes)}: {answer}" for answer, nodes in by_answer.items())
    return Notice(
        cause=Cause.NOT_CLOSED,
        topic=f"{REFUSED}{pool.id}",
        key=f"{why}:{','.join(sorted(refused)[:TOLD_BY])}",
        title=f"GPU pool {pool.name}: nodes could not be {'closed to' if why else 'opened to'} new work",
        body=wording.worded(
            said,
            why=why or "no budget is at its stop there any more",
            after="it is tried again with every step" + ("; until then new work may begin on them" if why else ""),
        ),
        severity=Severity.WARNING,
        pool=pool.id,
    )


def observed(pool: Pool, nodes: int, why: str) -> Notice:
    """The notice of what would be closed or opened, in observe mode."""
    what = "closed to" if why else "opened to"
    return Notice(
        cause=Cause.CLOSED if why else Cause.REOPENED,
        topic=f"{TOPIC}{pool.id}",
        key=f"observed:{why}",
        title=f"GPU pool {pool.name}: {some(nodes, 'node')} would be {what} new work (observing)",
        body=wording.worded(
            why=why or "no budget is at its stop there any more", after="nothing while mode is observe"
        ),
        pool=pool.id,
    )


def when_reopened(told: Mapping[str, tuple[str, datetime]]) -> Mapping[str, datetime]:
    """When nodes of a pool (by id) last were opened again, from what was *told* under TOPIC."""
    return {topic.removeprefix(TOPIC): at for topic, (key, at) in told.items() if key.startswith(REOPENED)}
