"""Notices of nodes that are closed to new work while a budget is at its stop; the stop's own message tells the rest."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from receiver.core.policy import Pool
from receiver.core.tell import Cause, Notice, Severity
from receiver.core.words import some

TOPIC = "closed:"
REFUSED = "not-closed:"
NAMED = 5  # nodes in a message
REOPENED = "reopened:"


def reopened(pool: Pool, nodes: int, now: datetime) -> Notice:
    """The notice that new work may begin again on *nodes* nodes of *pool*."""
    return Notice(
        cause=Cause.REOPENED,
        topic=f"{TOPIC}{pool.id}",
        key=f"{REOPENED}{now:%Y-%m-%dT%H:%M}",
        title=f"GPU pool {pool.name} takes new work again",
        body=f"{some(nodes, 'node')} made schedulable: no budget is at its stop there any more.",
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
        body=f"Budgets at their stop: {why}. Nodes are cordoned; running work goes on.",
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
        body=(
            f"Whether a budget is still at its stop cannot be told: {', '.join(unpriced)} has no price."
            "\nGive it one (`price_usd_per_hour` or `prices_file`)."
        ),
        severity=Severity.WARNING,
        pool=pool.id,
    )


def failed(pool: Pool, refused: Mapping[str, Exception], why: str) -> Notice:
    """The notice that nodes of *pool* could not be closed (or opened, where *why* is empty), which a person must see
    to; *refused* is what each of them (by name) was answered."""
    first = sorted(refused)[:NAMED]
    rest = f"\nAnd {some(len(refused) - NAMED, 'node')} more." if len(refused) > NAMED else ""
    said = "\n".join(f"{node}: {refused[node]}" for node in first)
    return Notice(
        cause=Cause.NOT_CLOSED,
        topic=f"{REFUSED}{pool.id}",
        key=f"{why}:{','.join(first)}",
        title=f"GPU pool {pool.name}: nodes could not be {'closed to' if why else 'opened to'} new work",
        body=f"{said}{rest}\nBudgets at their stop: {why or 'none'}. It is tried again.",
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
        body=f"Budgets at their stop: {why or 'none'}. Nothing was changed.",
        pool=pool.id,
    )


def when_reopened(told: Mapping[str, tuple[str, datetime]]) -> Mapping[str, datetime]:
    """When nodes of a pool (by id) last were opened again, from what was *told* under TOPIC."""
    return {topic.removeprefix(TOPIC): at for topic, (key, at) in told.items() if key.startswith(REOPENED)}
