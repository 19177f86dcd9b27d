"""The costs and reports of a month from the store, and the chores that close and send them when it has ended.

The chores run after the step. Failures are logged and retried, and never affect scaling.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import structlog

from receiver.capabilities.costs.documents import EVERYBODY, ReportDocument, scope_of
from receiver.core.model.charges import Seed, beside, seeded_by_pool, seeded_usd
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy, Scope, Unallocated, UnitOfWork
from receiver.core.money.attribution import Attributed, MonthToDate, Part, attribute, is_settled
from receiver.core.money.budget import Forecast, Month, month_of
from receiver.core.money.reconciliation import account, compare
from receiver.core.money.shared_cost import shared_out
from receiver.core.notices.money_notices import REPORT_TOPIC, report_notice, report_topic
from receiver.core.report.lines import Counted, query_of
from receiver.core.report.report import Found, Report, report
from receiver.ports import ReadStore, Store, Telemetry, TryLater, WontWork, WriterLostError
from receiver.reports.picture import kept_picture


def as_paid(policy: Policy, store: ReadStore) -> Policy:
    """Return *policy* with the commitments that the ledger knows of, those that are over included. Raises TryLater."""
    control = store.control()
    if control is None:
        return policy
    return replace(policy, billing=replace(policy.billing, committed=control.committed))


def costs_of(store: ReadStore, policy: Policy, month: Month, now: datetime) -> Attributed:
    """Return the attributed cost of *month* until *now*. Raises TryLater when the store fails."""
    policy = as_paid(policy, store)
    lives, usage, unwatched = store.node_lives(month.start), store.usage(month.name), store.unwatched(month.name)
    seeded, unpriced = seeded_usd(_seed(store, lives, month), policy, month.name)
    attributed = attribute(lives, usage, unwatched, MonthToDate(month, now, policy.billing), seeded, store.watch())
    whole = replace(attributed, unpriced=tuple(sorted({*attributed.unpriced, *unpriced})))
    return shared_out(whole) if policy.attribution.unallocated is Unallocated.SHARE else whole


def _seed(store: ReadStore, lives: Sequence[NodeLife], month: Month) -> Seed | None:
    return beside(store.seed_of(month.name), ((life.instance, life.name) for life in lives))


def found_in(store: ReadStore, policy: Policy, month: Month, now: datetime) -> Found:
    """Return the input of the report of *month*. Raises TryLater when the store fails."""
    allowances = store.allowances_set(month.name)
    limited = policy.budget is not None and (
        policy.budget.account_usd is not None or any(c.scope is Scope.ACCOUNT for c in allowances)
    )
    return Found(
        lives=[life for life in store.node_lives(month.start) if life.created_at < month.end],
        usage=store.usage(month.name),
        workloads=store.workload_lives(month.start, month.end),
        attributed=costs_of(store, policy, month, now),
        counts={name: counted.count for name, counted in store.unit_counts(month.name).items()},
        allowances=allowances,
        watched=store.watched(),
        in_use=store.in_use(month.name),
        idle_spans=store.idle_spans(month.start),
        spoken=store.spoken(month.start, min(now, month.end)),
        overrides=[
            (stored.override, stored.ended_at) for stored in store.overrides_between(month.start, min(now, month.end))
        ],
        account_usd=_account(store, policy, month, now) if limited else None,
        seeded_pools=dict(seeded_by_pool(_seed(store, store.node_lives(month.start), month), policy, month.name)),
        forecasts={  # of the last step; none of a month that is over
            (Scope(budget.scope), budget.name): Forecast(
                usd=budget.forecast_usd, burn=budget.burn_usd_per_hour, since=budget.forecast_since
            )
            for budget in kept_picture(store)[0].budgets
            if budget.month == month.name
        },
    )


def _account(store: ReadStore, policy: Policy, month: Month, now: datetime) -> Decimal | None:
    """The charges of the whole account in *month* by Civo's last answer; None without one."""
    charged = store.charged_of(month.name)
    if charged is None or charged.answered_at is None:
        return None
    lives, seed = store.node_lives(month.start), store.seed_of(month.name)
    compared = compare(charged, lives, policy, month.start, seed.at if seed else None)
    shares = costs_of(store, policy, month, now).shares
    ledger = sum((share.usd for share in shares if share.part is not Part.SEEDED), Decimal(0))
    return account(compared, ledger, month.start, policy, seed)


def report_of(store: ReadStore, policy: Policy, month: Month, now: datetime, team: str | None = None) -> Report:
    """Return the report of *month*: of all teams, or one *team*. Raises TryLater when the store fails."""
    policy = as_paid(policy, store)
    return report(found_in(store, policy, month, now), policy, month, now, team)


log = structlog.get_logger("receiver")

LOOK_EVERY = timedelta(minutes=5)
COUNT_EVERY = timedelta(hours=1)
COUNTS_WAIT = timedelta(days=1)  # the longest that an unreachable Prometheus keeps a month open
CLOSED_AT_ONCE = 2  # reports: each may take a second of the loop
LATE_FOR = timedelta(days=7)  # after a downtime; older reports are not sent


class MonthEnd:
    """Counts, closes and sends what is due. Without a cluster (*watched* False) months do not wait for usage."""

    def __init__(self, store: Store, telemetry: Telemetry | None, policy: Policy, *, watched: bool = True) -> None:
        self._store, self._telemetry, self._policy, self._watched = store, telemetry, policy, watched
        self._looked_at: datetime | None = None
        self._asked: dict[tuple[str, str], datetime] = {}  # by month and unit: not repeated at once
        self._closed: set[str] = set()
        self._nothing: set[str] = set()  # months without anything to report

    def look(self, now: datetime, *, sure: bool = True) -> None:
        """Do what is due at *now*; raises only WriterLostError. Nothing is closed or sent unless the clock is *sure*
        (`receiver.core.model.memory`), because later reports do not replace earlier ones."""
        if self._looked_at is not None and abs(now - self._looked_at) < LOOK_EVERY:
            return
        if self._looked_at is not None and now < self._looked_at:  # the clock was ahead: nothing was closed
            self._closed, self._nothing = set(), set()
        self._looked_at = now
        try:
            self._count(now)
            if sure:
                self._close(now)
                self._send(now)
        except TryLater as error:
            log.warning("reports wait", error=str(error))
        except WriterLostError:
            raise
        except Exception:  # a bug in a report must not end the loop's step
            log.exception("reports failed")

    def _months(self, now: datetime) -> tuple[Month, Month]:
        current = month_of(now, self._policy.timezone)
        return month_of(current.start - timedelta(days=1), self._policy.timezone), current

    def _count(self, now: datetime) -> None:
        if self._telemetry is None or not self._policy.reports.units:
            return
        for month, unit, at in self._uncounted(now):
            self._asked[(month.name, unit.name)] = now
            try:
                count = self._telemetry.value(query_of(unit, month, at), at)
            except (TryLater, WontWork) as error:
                log.warning("unit of work not counted", unit=unit.name, month=month.name, error=str(error))
                if not error.code.startswith("http_4"):
                    return  # Prometheus does not answer: neither will it to the other queries
                continue
            if count is not None:
                self._store.keep_unit_count(Counted(month=month.name, name=unit.name, count=count, at=at))

    def _uncounted(self, now: datetime) -> Iterator[tuple[Month, UnitOfWork, datetime]]:
        """Yield what to count: a finished month once, at its end; the current one every hour."""
        for month in self._months(now):
            at = min(now, month.end)
            counts = self._store.unit_counts(month.name)
            for unit in self._policy.reports.units:
                last = counts[unit.name].at if unit.name in counts else None
                tried_at = self._asked.get((month.name, unit.name))
                over = month.end <= now
                if last is not None and (last >= month.end if over else abs(at - last) < COUNT_EVERY):
                    continue
                if now - month.end > LATE_FOR or (tried_at is not None and abs(now - tried_at) < COUNT_EVERY):
                    continue
                yield month, unit, at

    def _close(self, now: datetime) -> None:
        """Store the reports of the month that ended; that of all teams is stored last and marks the month as closed."""
        month, _ = self._months(now)
        if month.name in self._closed or month.name in self._nothing:
            return
        if not self._is_settled(month, now):
            return
        closed_scopes = self._store.closed_scopes(month.name, now)
        if EVERYBODY in closed_scopes:
            self._closed.add(month.name)
            return
        if self._telemetry is not None and now < month.end + COUNTS_WAIT:
            counted = self._store.unit_counts(month.name)
            if any(u.name not in counted or counted[u.name].at < month.end for u in self._policy.reports.units):
                return
        inputs = self._found(month, now)
        if inputs is None:
            return
        missing = [team for team in (*self._teams(inputs), None) if scope_of(team) not in closed_scopes]
        policy = as_paid(self._policy, self._store)
        for team in missing[:CLOSED_AT_ONCE]:
            document = ReportDocument.of(report(inputs, policy, month, now, team), finalised=now).document()
            self._store.close_report(month.name, scope_of(team), document, now)

    def _found(self, month: Month, now: datetime) -> Found | None:
        inputs = found_in(self._store, self._policy, month, now)
        if inputs.attributed.shares or inputs.workloads:
            return inputs
        self._nothing.add(month.name)
        return None

    def _is_settled(self, month: Month, now: datetime) -> bool:
        return is_settled(month, self._store.watch() if self._watched else None, now, self._policy.billing)

    def _teams(self, inputs: Found) -> Sequence[str]:
        """The teams with a report: those with work or an allowance in the month, or that are sent one."""
        named = {*self._policy.reports.monthly.teams, *(self._policy.budget.teams if self._policy.budget else ())}
        teams_with_work = {row.owner.team for row in inputs.usage} | {life.owner.team for life in inputs.workloads}
        return sorted({"", *named, *teams_with_work, *(c.name for c in inputs.allowances if c.scope is Scope.TEAM)})

    def _send(self, now: datetime) -> None:
        """Put the reports of the month that ended into the outbox, once per topic and month."""
        month, _ = self._months(now)
        recipients = self._policy.reports.monthly.wanted
        if not recipients or month.name in self._nothing or now >= month.end + LATE_FOR:
            return
        last_sent = self._store.told(REPORT_TOPIC)
        missing = [team for team in recipients if last_sent.get(report_topic(team), ("", now))[0] != month.name]
        # Without Civo or Kubernetes the account does not advance, and a report sent only once would show held GPUs as
        # unallocated.
        if not missing or not self._is_settled(month, now):
            return
        inputs = self._found(month, now)
        if inputs is None:
            return
        policy = as_paid(self._policy, self._store)
        for team in missing:
            self._store.say(report_notice(report(inputs, policy, month, now, team)), now)
