"""The text of `check-config`: a valid configuration in words."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

from receiver.config.model import BudgetSpec, ReportsSpec
from receiver.config.pools import MONTHS, WEEKDAYS, PoolSpec, TaintSpec, WindowSpec, clock
from receiver.config.settings import FileSettings
from receiver.config.values import Section, spell_duration
from receiver.core.model.policy import QUEUE_WAIT, Pool, Unanswered
from receiver.core.model.text import dollars, lasting, percent, some

# The keys that have lines of their own; every other key that is set stands on one line below its name.
DESCRIBED = frozenset(
    {"cluster_name", "mode", "tick", "objective", "budget", "queue_wait", "public_url", "docs_url", "reports", "pools"}
)
# Of the others, the sections with keys of the first table in docs/configuration.md.
FIRST = ("limits", "attribution", "notify", "idle_shutdown")
DESCRIBED_OF_A_POOL = frozenset(
    {
        "name", "civo_pool_id", "size", "price_usd_per_hour", "resources", "committed", "budget_usd", "min_nodes",
        "max_nodes", "standby_nodes", "approval", "windows",
    }
)  # fmt: skip


def describe(settings: FileSettings, odd: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines that describe *settings*: the keys that most clusters set, the pools, everything else, and
    warnings, *odd* ones too."""
    configuration = settings.configuration
    if configuration.cluster_name:
        yield f"cluster {configuration.cluster_name}"
    yield f"mode {configuration.mode}, a step at least every {spell_duration(configuration.tick)}"
    if configuration.public_url is not None:
        yield f"messages link to pages at {configuration.public_url}"
    yield from _budget(configuration.budget)
    others = dict(_others(configuration, DESCRIBED))
    yield from (f"{name} {others[name]}" for name in FIRST if name in others)
    for spec, pool in zip(configuration.pools, settings.policy.pools, strict=True):
        yield ""
        yield from _of_civo(pool, settings.left(pool.id))
        yield from _as_written(spec)
    for spec in settings.pending:
        civo_keys = settings.left(spec.civo_pool_id)
        yield ""
        yield f"pool {spec.civo_pool_id if 'name' in civo_keys else f'{spec.name} ({spec.civo_pool_id})'}"
        yield f"  Civo     will say {', '.join(civo_keys)}" if civo_keys else f"  size     {spec.size}"
        yield from _as_written(spec)
    yield ""
    yield f"objective {configuration.objective}"
    if configuration.queue_wait != QUEUE_WAIT:
        waits = ", ".join(f"{name} {spell_duration(wait)}" for name, wait in configuration.queue_wait.items())
        yield f"alerts when a GPU pod waits longer than {waits or 'the default of the rules'}"
    if configuration.documents_url is not None:
        yield f"messages link to documents at {configuration.documents_url}"
    yield from _reports(configuration.reports)
    yield "prices " + ", then ".join(settings.prices.origins)
    yield from (f"{name} {value}" for name, value in others.items() if name not in FIRST)
    warnings = (*settings.warnings, *odd)
    if warnings:
        yield ""
    for warning in warnings:
        yield f"warning: {warning}"


def _budget(budget: BudgetSpec | None) -> Iterator[str]:
    if budget is None:
        yield "budget none"
        return
    lines = (("warn", budget.warn_at), ("hold", budget.hold_at), ("stop", budget.stop_at))
    stages = ", ".join(f"{name} at {(ratio * 100).normalize():f}%" for name, ratio in lines)
    yield f"budget {dollars(budget.monthly_usd)} a month ({budget.timezone}): {stages}"
    if budget.account_usd is not None:
        yield f"  account  {dollars(budget.account_usd)} a month for all charges of Civo"
    for team, usd in sorted(budget.teams.items()):
        yield f"  team     {team}: {dollars(usd)} a month"
    if budget.passing_priority_classes:
        yield f"  passing  {', '.join(budget.passing_priority_classes)}: may cause growth up to the stop line"
    for where in (*budget.hold.namespaces, *(f"ClusterQueue {q}" for q in budget.hold.kueue_cluster_queues)):
        yield f"  hold     keeps new work out of {where}"
    if budget.spent_usd_stated is not None:
        yield f"  stated   {budget.spent_usd_stated.month} had cost {dollars(budget.spent_usd_stated.usd)}"


def _reports(reports: ReportsSpec) -> Iterator[str]:
    if "efficiency_target" in reports.model_fields_set:
        yield f"reports compare efficiency with {percent(reports.efficiency_target)}"
    counted = [f"{unit.per} {unit.name}" if unit.per != 1 else unit.name for unit in reports.units]
    offers = [f"{o.size} {o.term_months} months {dollars(o.usd_per_hour)}/h" for o in reports.commitments]
    sent = [*(["all teams"] if reports.monthly.everybody else []), *reports.monthly.teams]
    for words, entries in (("cost per", counted), ("commitments", offers), ("sent monthly to", sent)):
        if entries:
            yield f"reports {words} {', '.join(entries)}"
    for unit in reports.units:
        scope = f" of {_spelled(unit.only)}" if unit.only.model_fields_set else ""
        yield f"  unit     {unit.name}: {unit.query}{scope}"


def _of_civo(pool: Pool, civo_keys: Sequence[str]) -> Iterator[str]:
    """Yield what Civo has said of *pool* where the configuration leaves it out, and what follows from that."""
    yield f"pool {pool.name} ({pool.id})"
    if civo_keys:
        yield f"  Civo     says {', '.join(civo_keys)}"
    price = pool.price_usd_per_hour
    costs = f"{dollars(price)} per node-hour" if price is not None else "price unknown, so it cannot grow"
    yield f"  size     {pool.size}, {costs}"
    offers = ", ".join(f"{count} {name}" for name, count in pool.resources.items())
    yield f"  GPUs     {pool.gpus_per_node} per node ({offers})"


def _as_written(spec: PoolSpec) -> Iterator[str]:
    if (paid := spec.committed) is not None:
        price = f"{dollars(paid.usd_per_hour)} per node-hour"
        yield f"  paid for {some(paid.nodes, 'node')}, used or not, at {price} until {paid.until}"
    if spec.budget_usd is not None:
        yield f"  budget   {dollars(spec.budget_usd)} a month of its own"
    yield f"  nodes    {spec.min_nodes} to {spec.max_nodes}, standby {spec.standby_nodes}"
    yield from (f"  {name:8} {value}" for name, value in _others(spec, DESCRIBED_OF_A_POOL))
    if (approval := spec.approval) is not None:
        changes = ["removals"] if approval.removals else []
        if approval.growth_above_usd_per_hour is not None:
            changes.append(f"growth above {dollars(approval.growth_above_usd_per_hour)} an hour")
        then = "the change is made" if approval.unanswered is Unanswered.PROCEED else "it is not made"
        wait = spell_duration(approval.wait)
        yield f"  asks     before {' and '.join(changes)}; after {wait} without an answer {then}"
    for window in spec.windows:
        bounds = (("at least", window.min_nodes), ("at most", window.max_nodes), ("standby", window.standby_nodes))
        effects = [f"{words} {number}" for words, number in bounds if number is not None]
        effects += [f"evicts after {lasting(window.evict_after)}"] if window.evict_after is not None else []
        yield f"  window   {window.name}: {_when(window)}: {', '.join(effects)}"


def _others(section: Section, described: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each key that is set in *section* and not *described*, with its value in words."""
    for name in type(section).model_fields:
        if name in section.model_fields_set - described:
            yield name, _spelled(getattr(section, name)) or "none"


def _spelled(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return spell_duration(value)
        case TaintSpec():
            return f"{value.key}={value.value}:{value.effect}"
        case Section():
            return "; ".join(f"{name} {text}" for name, text in _others(value, frozenset()))
        case Mapping():
            return ", ".join(f"{key}{_within(inner)}" for key, inner in value.items())
        case tuple():
            return ", ".join(_within(inner).removeprefix("=").strip() for inner in value)
        case str() if value.startswith(("http://", "https://")):
            parts = urlsplit(value)  # it may hold a password
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return str(value)


def _within(value: object) -> str:
    """Return an entry of a list or mapping: a section in brackets."""
    text = _spelled(value)
    return f" ({text})" if isinstance(value, Section) and not isinstance(value, TaintSpec) else f"={text}"


def _when(window: WindowSpec) -> str:
    parts = [
        ", ".join(f"{clock(span.start_time)}-{clock(span.end_time)}" for span in window.times),
        ", ".join(_span(WEEKDAYS[a], WEEKDAYS[b]) for a, b in window.weekdays),
        ", ".join("day " + _span(str(a), str(b)) for a, b in window.days_of_month),
        ", ".join(_span(MONTHS[a - 1], MONTHS[b - 1]) for a, b in window.months),
        ", ".join(_span(str(a), str(b)) for a, b in window.years),
    ]
    return "; ".join(part for part in parts if part) + f" {window.location}" if any(parts) else "always"


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"
