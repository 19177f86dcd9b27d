"""A month's costs as the ledger has them, shared out: what the API, the metrics and reports tell."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from receiver.core.model.charges import Seed, beside, seeded_by_pool, seeded_usd
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.money.attribution import Attributed, By, Line, attribute, key_of, lines
from receiver.core.money.budget import Month
from receiver.ports import ReadStore


def costs_of(store: ReadStore, policy: Policy, month: Month, now: datetime) -> Attributed:
    """Return what *month* has cost until *now* and whose that was. Raises TryLater when the store fails."""
    lives, usage, unwatched = store.node_lives(month.start), store.usage(month.name), store.unwatched(month.name)
    seeded, unpriced = seeded_usd(_seed(store, lives, month), policy, month.name)
    found = attribute(lives, usage, unwatched, month, now, policy.billing, seeded, store.watch())
    return replace(found, unpriced=tuple(sorted({*found.unpriced, *unpriced})))


def seeded_pools(store: ReadStore, policy: Policy, month: Month) -> Mapping[str, Decimal]:
    """Return what each pool, by id, may have cost of *month* before the ledger began, in USD. Raises TryLater."""
    return dict(seeded_by_pool(_seed(store, store.node_lives(month.start), month), policy, month.name))


def _seed(store: ReadStore, lives: Sequence[NodeLife], month: Month) -> Seed | None:
    return beside(store.seed_of(month.name), ((life.instance, life.name) for life in lives))


def told_by(attributed: Attributed, by: By, policy: Policy) -> tuple[Line, ...]:
    """Return the lines of *attributed* by one of its dimensions, the dearest first."""
    return lines(attributed, lambda share: key_of(share, by, policy))
