"""Notices of nodes that are closed to new work while a budget is at its stop; the stop's own message tells the rest."""

from collections.abc import Mapping
from datetime import datetime

from receiver.core.policy import Pool
from receiver.core.tell import Notice, Severity
from receiver.core.words import some

TOPIC = "closed:"
REOPENED = "reopened:"


def reopened(pool: Pool, nodes: int, now: datetime) -> Notice:
    """The notice that new work may begin again on *nodes* nodes of *pool*."""
    return Notice(
        topic=f"{TOPIC}{pool.id}",
        key=f"{REOPENED}{now:%Y-%m-%dT%H:%M}",
        title=f"GPU pool {pool.name} takes new work again",
        body=f"{some(nodes, 'node')} made schedulable: no budget is at its stop there any more.",
        severity=Severity.SUCCESS,
        pool=pool.id,
    )


def failed(pool: Pool, sentence: str, why: str) -> Notice:
    """The notice that nodes of *pool* could not be closed (or opened, where *why* is empty), which a person must see
    to."""
    return Notice(
        topic=f"{TOPIC}{pool.id}",
        key=f"failed:{why}:{sentence}",
        title=f"GPU pool {pool.name}: nodes could not be {'closed to' if why else 'opened to'} new work",
        body=f"{sentence[:1].upper()}{sentence[1:]}.\nBudgets at their stop: {why or 'none'}. It is tried again.",
        severity=Severity.WARNING,
        pool=pool.id,
    )


def observed(pool: Pool, nodes: int, why: str) -> Notice:
    """The notice of what would be closed or opened, in observe mode."""
    what = "closed to" if why else "opened to"
    return Notice(
        topic=f"{TOPIC}{pool.id}",
        key=f"observed:{why}",
        title=f"GPU pool {pool.name}: {some(nodes, 'node')} would be {what} new work (observing)",
        body=f"Budgets at their stop: {why or 'none'}. Nothing was changed.",
        pool=pool.id,
    )


def when_reopened(told: Mapping[str, tuple[str, datetime]]) -> Mapping[str, datetime]:
    """When nodes of a pool (by id) last were opened again, from what was *told* under TOPIC."""
    return {topic.removeprefix(TOPIC): at for topic, (key, at) in told.items() if key.startswith(REOPENED)}
