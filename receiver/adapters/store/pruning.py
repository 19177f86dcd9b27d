"""What the store forgets, and when."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, Delete, delete, or_, select, union_all

from receiver.adapters.store.database import StorePart
from receiver.adapters.store.decisions import newest_numbers
from receiver.adapters.store.schema import (
    actions,
    charges,
    decisions,
    deliveries,
    drifts,
    grounds,
    in_use,
    node_lives,
    outbox,
    overrides,
    questions,
    samples,
    topics,
    turns,
    unit_counts,
    unwatched,
    usage,
    workload_lives,
)
from receiver.adapters.store.totals import mark
from receiver.adapters.store.usage import KEPT_FROM
from receiver.core.explain.samples import Doing

DELIVERIES_KEPT = timedelta(days=7)
NOTICES_KEPT = timedelta(days=7)
DRIFTS_KEPT = timedelta(days=7)
DECISIONS_KEPT = timedelta(days=90)
TOPICS_KEPT = timedelta(days=90)
ACTIONS_KEPT = timedelta(days=400)
OVERRIDES_KEPT = timedelta(days=400)
QUESTIONS_KEPT = timedelta(days=400)
LIVES_KEPT = timedelta(days=400)  # a year of spend and what a month's start still needs: 13 months
CHARGES_KEPT = timedelta(days=400)
SAMPLES_KEPT = timedelta(days=8)  # the pages draw seven


class SqlPruning(StorePart):
    """The end of what the store keeps."""

    def prune(self, now: datetime) -> int:
        """Delete what is too old to matter; return the number of rows. Totals stay as they are.

        Never deleted: a delivery that no step has considered, an open action, a notice to be delivered, a node
        that lives, each pool's last decision, what a living node does.
        """
        with self._write_memory() as connection:
            mark(connection, KEPT_FROM, now - LIVES_KEPT)
            return sum(connection.execute(statement).rowcount for statement in _deletions(connection, now))


def _deletions(connection: Connection, now: datetime) -> tuple[Delete, ...]:
    """What deletes what is too old at *now*, in this order."""
    kept_from = now - LIVES_KEPT
    oldest = f"{kept_from:%Y-%m}"  # months sort as text does
    # A month is forgotten whole, so that none looks cheaper than it was; in some zone it begins the day before.
    lived = kept_from.replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    later = turns.alias()
    goes_on = ~select(later.c.at).where(later.c.instance == turns.c.instance, later.c.at > turns.c.at).exists()
    settled = or_(outbox.c.sent_at < now - NOTICES_KEPT, outbox.c.given_up_at < now - NOTICES_KEPT)
    names = (select(column).where(column.is_not(None)) for column in (decisions.c.facts, decisions.c.policy))
    return (
        delete(deliveries).where(
            deliveries.c.considered_at < now - DELIVERIES_KEPT, deliveries.c.received_at < now - DELIVERIES_KEPT
        ),
        delete(decisions).where(
            decisions.c.at < now - DECISIONS_KEPT, decisions.c.id.not_in(newest_numbers(connection))
        ),
        delete(grounds).where(grounds.c.digest.not_in(union_all(*names))),
        delete(actions).where(actions.c.closed_at < now - ACTIONS_KEPT),
        delete(outbox).where(settled),
        delete(drifts).where(drifts.c.at < now - DRIFTS_KEPT),
        delete(overrides).where(overrides.c.ended_at < now - OVERRIDES_KEPT),
        delete(questions).where(questions.c.expires_at < now - QUESTIONS_KEPT),
        delete(topics).where(topics.c.told_at < now - TOPICS_KEPT),
        delete(charges).where(charges.c.asked_at < now - CHARGES_KEPT),
        delete(node_lives).where(node_lives.c.gone_at < lived),
        delete(workload_lives).where(workload_lives.c.ended_at < lived),
        delete(usage).where(usage.c.month < oldest),
        delete(unwatched).where(unwatched.c.month < oldest),
        delete(unit_counts).where(unit_counts.c.month < oldest),
        delete(in_use).where(in_use.c.month < oldest),
        delete(samples).where(samples.c.at < now - SAMPLES_KEPT),
        delete(turns).where(turns.c.at < now - SAMPLES_KEPT, or_(~goes_on, turns.c.doing == Doing.GONE.value)),
    )
