"""Reconciliation of the ledger with Civo's charges, which are hours without amounts: matches nodes, explains gaps."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from receiver.core.model.charges import (
    Charge,
    Charged,
    Comparison,
    Difference,
    DifferenceCause,
    RunsElsewhere,
    Seed,
    SizeCompared,
    cost,
    node_price,
    price_then,
)
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.money.cost import units_since

LAG = timedelta(hours=2)  # charges may lack a new node for this long (assumed: up to an hour, and rounding)
FOREVER = datetime.max.replace(tzinfo=UTC)  # the end of a record that still runs


class _Frame:
    """The hours of a comparison from *start* (the month's) to *at* (Civo's answer)."""

    def __init__(
        self, records: Sequence[Charge], lives: Sequence[NodeLife], start: datetime, at: datetime, policy: Policy
    ) -> None:
        self.at, self.policy, billing = at, policy, policy.billing
        self._charged = {id(r): r.hours_in(start, at) for r in records}  # records need not have ids
        unit = Decimal(billing.granularity.total_seconds())
        self._kept = {x.instance: units_since(x, start, at, billing) * unit / 3600 for x in lives if x.created_at < at}

    def charged(self, *records: Charge) -> Decimal:
        """Hours of *records*."""
        return sum((self._charged[id(r)] for r in records), Decimal(0))

    def kept(self, *lives: NodeLife) -> Decimal:
        """Hours of *lives* in the ledger; nodes younger than the answer have none."""
        return sum((self._kept.get(x.instance, Decimal(0)) for x in lives), Decimal(0))

    def difference(
        self, size: str, name: str, lives: Sequence[NodeLife], records: Sequence[Charge], cause: DifferenceCause
    ) -> Difference:
        ledger_hours, charged = self.kept(*lives), self.charged(*records)
        price = node_price(size, self.policy)
        usd = None if price is None else (charged - ledger_hours) * price
        return Difference(size=size, name=name, ledger_hours=ledger_hours, charged_hours=charged, cause=cause, usd=usd)


def compare(
    charged: Charged, lives: Sequence[NodeLife], policy: Policy, start: datetime, began: datetime | None
) -> Comparison:
    """Return how *charged* differs from *lives* over the month that began at *start*. *began* is when the ledger began
    (None: just now). A record belongs to the life whose instance id is its product or whose name is its label; where no
    record of a size matches, only the sums are compared."""
    if charged.answered_at is None:
        return Comparison(charged=charged)
    frame = _Frame(charged.records, lives, start, charged.answered_at, policy)
    ours = {p.size for p in policy.pools} | {life.size for life in lives}
    sizes: list[SizeCompared] = []
    differences: list[Difference] = []
    for size in sorted(ours):
        size_lives = [x for x in lives if x.size == size and frame.kept(x)]
        records = [r for r in charged.records if r.size == size and frame.charged(r)]
        if size_lives or records:
            size_compared, lines = _compare_size(size, size_lives, records, frame, began)
            sizes.append(size_compared)
            differences += lines
    unpriced: dict[str, Decimal] = {}
    for record in charged.records:
        hours = frame.charged(record)
        if hours and cost(record, hours, policy) is None:
            unpriced[record.code] = unpriced.get(record.code, Decimal(0)) + hours
    return Comparison(
        charged=charged,
        sizes=tuple(sizes),
        differences=tuple(differences),
        unpriced=tuple(sorted(unpriced.items(), key=lambda item: (-item[1], item[0]))),  # the most hours first
    )


def account(
    compared: Comparison, ledger_usd: Decimal, start: datetime, policy: Policy, seed: Seed | None = None
) -> Decimal | None:
    """USD of the whole account: nodes by the ledger, the rest by Civo's charges, at the prices of *seed* where it has
    them; None before Civo's first answer. Codes without a price (`Comparison.unpriced`) add nothing."""
    at = compared.charged.answered_at
    if at is None:
        return None
    ours = {size.size for size in compared.sizes}
    usd = ledger_usd + sum(size.spare_hours * (price_then(size.size, seed, policy) or 0) for size in compared.sizes)
    for record in compared.charged.records:
        if record.size not in ours:
            usd += cost(record, record.hours_in(start, at), policy) or 0
    return usd


def _compare_size(
    size: str, lives: Sequence[NodeLife], records: Sequence[Charge], frame: _Frame, began: datetime | None
) -> tuple[SizeCompared, list[Difference]]:
    mine = _matched(lives, records)
    taken = {id(r) for group in mine.values() for r in group}
    spare = [r for r in records if id(r) not in taken]
    alone = [x for x in lives if x.instance not in mine]
    lines: list[Difference] = []
    equal = 0
    for life in lives:
        group = mine.get(life.instance)
        if not group:
            continue
        if abs(frame.charged(*group) - frame.kept(life)) <= len(group):
            equal += 1
        else:
            lines.append(frame.difference(size, life.name, [life], group, _why(life, group, frame)))
    spare_hours = frame.charged(*spare)
    settled = [x for x in alone if frame.at - x.created_at >= LAG]  # charges may lag for younger ones
    elsewhere: tuple[RunsElsewhere, ...] = ()
    if spare and settled and not mine:  # labels are not names here
        spare_hours = max(Decimal(0), spare_hours - frame.kept(*settled))
        if abs(frame.charged(*spare) - frame.kept(*alone)) <= max(len(spare), len(alone)):
            equal = min(len(spare), len(alone))
        else:
            lines.append(frame.difference(size, f"all of {size}", alone, spare, DifferenceCause.NOT_TOLD_APART))
    else:
        for life in alone:
            cause = DifferenceCause.NOT_CHARGED_YET if frame.at - life.created_at < LAG else DifferenceCause.NOT_CHARGED
            lines.append(frame.difference(size, life.name, [life], [], cause))
        lines += [frame.difference(size, r.label or r.code, [], [r], _why_spare(r, began or frame.at)) for r in spare]
        elsewhere = tuple(
            RunsElsewhere(size=size, label=r.label, product=r.product or "", hours=frame.charged(r))
            for r in spare
            if r.to is None or r.to >= frame.at - LAG
        )
    size_compared = SizeCompared(
        size=size,
        ledger_hours=frame.kept(*lives),
        charged_hours=frame.charged(*records),
        lives=len(lives),
        records=len(records),
        equal=equal,
        spare_hours=spare_hours,
        elsewhere=elsewhere,
    )
    return size_compared, lines


def _matched(lives: Sequence[NodeLife], records: Sequence[Charge]) -> Mapping[str, list[Charge]]:
    by_id = {x.instance: x.instance for x in lives}
    by_name = {x.name: x.instance for x in lives if x.name}
    records_by_instance: dict[str, list[Charge]] = {}
    for record in records:
        instance = by_id.get(record.product or "") or by_name.get(record.label)
        if instance is not None:
            records_by_instance.setdefault(instance, []).append(record)
    return records_by_instance


def _why(life: NodeLife, records: Sequence[Charge], frame: _Frame) -> DifferenceCause:
    last = max(r.to or FOREVER for r in records)
    if frame.charged(*records) > frame.kept(life):
        beyond = life.gone_at is not None and last > life.gone_at
        return DifferenceCause.STILL_CHARGED if beyond else DifferenceCause.HOURS_DIFFER
    if last == FOREVER:
        return DifferenceCause.NOT_CHARGED_YET
    seen_late = min(life.gone_at or frame.at, frame.at) > last
    return DifferenceCause.SEEN_LATE if seen_late else DifferenceCause.HOURS_DIFFER


def _why_spare(record: Charge, began: datetime) -> DifferenceCause:
    if record.to is not None and record.to <= began:
        return DifferenceCause.BEFORE_LEDGER
    return DifferenceCause.ELSEWHERE if record.to is None else DifferenceCause.CAME_AND_WENT
