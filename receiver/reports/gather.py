"""Read from the ledger what a report is made from."""

from datetime import datetime

from receiver.core.budget import Month
from receiver.core.policy import Policy
from receiver.core.report.report import Found, Report, report
from receiver.costs import costs_of
from receiver.ports import Store


def found_in(store: Store, policy: Policy, month: Month, now: datetime) -> Found:
    """Return what *store* has of *month*. May raise TryLater."""
    return Found(
        lives=[life for life in store.node_lives(month.start) if life.created_at < month.end],
        usage=store.usage(month.name),
        workloads=store.workload_lives(month.start, month.end),
        attributed=costs_of(store, policy, month, now),
        counts={name: counted.count for name, counted in store.unit_counts(month.name).items()},
        allowances=store.allowances_set(month.name),
        watched=store.watched(),
        in_use=store.in_use(month.name),
    )


def report_of(store: Store, policy: Policy, month: Month, now: datetime, team: str | None = None) -> Report:
    """Return the report of *month* from what *store* holds: everybody's, or one *team*'s. May raise TryLater."""
    return report(found_in(store, policy, month, now), policy, month, now, team)
