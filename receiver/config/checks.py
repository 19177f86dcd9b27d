"""Contradictions between fields that are each right by themselves."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from receiver.config.approval_checks import approval_warnings, approvals
from receiver.config.leader import lease_contradictions
from receiver.config.mistakes import Contradiction, Path, spell
from receiver.config.model import Configuration, PoolSpec
from receiver.config.money import BudgetSpec
from receiver.config.prices import far_from_list, insane
from receiver.config.report_checks import report_contradictions
from receiver.config.schedule import WindowSpec
from receiver.core.model.text import lasting


def contradictions(configuration: Configuration) -> Iterator[Contradiction]:
    """Yield every contradiction in *configuration*, in the order of the file."""
    if configuration.budget is not None:
        yield from _thresholds(configuration.budget)
        yield from _budget(configuration.budget)
    yield from _billing(configuration)
    yield from lease_contradictions(configuration.leader)
    if not configuration.pools:
        yield Contradiction(path=("pools",), problem="is empty", remedy="list at least one pool")
    yield from _same_names(configuration)
    yield from report_contradictions(configuration.reports)
    for index, pool in enumerate(configuration.pools):
        here = ("pools", index)
        yield from _bounds(pool, here)
        yield from _pool(pool, here)
        yield from _budget_of(pool, configuration.budget, here)
        yield from _windows(pool, here)
        yield from approvals(pool, configuration.billing, here)


def warnings_of(configuration: Configuration) -> Iterator[str]:
    """Yield what is allowed and probably not meant."""
    if configuration.budget is None:
        yield "budget: none is set, so nothing bounds what nodes cost but max_nodes and limits"
    if configuration.prometheus.url is None:
        yield "prometheus.url: none is set, so there is no utilization and nobody notices when the rules stop"
    alarms = configuration.alertmanager
    if not alarms.urls and "repeat_interval" not in alarms.model_fields_set:
        yield (
            "alertmanager.repeat_interval: is not set, and without alertmanager.urls a delivered alert that is never "
            f"resolved counts for {lasting(alarms.payload_life)}; write the repeat_interval of the route to us"
        )
    if not configuration.kubernetes.enabled:
        yield "kubernetes.enabled: is false, so nobody knows which nodes are in use and none is ever removed"
    yield from approval_warnings(configuration)
    floor = sum(pool.min_nodes * pool.gpus_per_node for pool in configuration.pools)
    most = configuration.limits.max_gpus
    if most is not None and floor > most:
        yield f"limits.max_gpus: {most} is below the {floor} GPUs that min_nodes of all pools ask for; the limit holds"
    for index, pool in enumerate(configuration.pools):
        for number, window in enumerate(pool.windows):
            if window.max_nodes is not None and window.max_nodes > pool.max_nodes:
                yield (
                    f"pools[{index}].windows[{number}].max_nodes: {window.max_nodes} is above the pool's max_nodes "
                    f"({pool.max_nodes}), which holds"
                )
        yield from _zones_that_differ(pool, f"pools[{index}]")


def _thresholds(budget: BudgetSpec) -> Iterator[Contradiction]:
    warn, hold, stop = (("budget", name) for name in ("warn_at", "hold_at", "stop_at"))
    if budget.warn_at >= budget.hold_at:
        yield Contradiction(
            path=warn,
            problem=f"must be below hold_at ({budget.hold_at})",
            remedy="lower warn_at or raise hold_at",
            over=(hold,),
        )
    if budget.hold_at > budget.stop_at:
        yield Contradiction(
            path=hold,
            problem=f"must not be above stop_at ({budget.stop_at})",
            remedy="lower hold_at or raise stop_at",
            over=(stop,),
        )


def _budget(budget: BudgetSpec) -> Iterator[Contradiction]:
    """What a part of the cluster may not have more of than the cluster, and what would never speak."""
    for team, usd in budget.teams.items():
        here: Path = ("budget", "teams", team)
        if not team:
            yield Contradiction(
                path=here, problem="has no name", remedy="write the value that pods carry as their team label"
            )
        if usd > budget.monthly_usd:
            yield Contradiction(
                path=here,
                problem=f"must not be above monthly_usd ({budget.monthly_usd})",
                remedy="lower it or raise monthly_usd",
                over=(("budget", "monthly_usd"),),
            )
    if budget.account_usd is not None and budget.account_usd < budget.monthly_usd:
        yield Contradiction(
            path=("budget", "account_usd"),
            problem=f"must not be below monthly_usd ({budget.monthly_usd}): the account pays for the cluster too",
            remedy="raise account_usd or lower monthly_usd",
            over=(("budget", "monthly_usd"),),
        )
    if len(set(budget.passing_priority_classes)) < len(budget.passing_priority_classes):
        path = ("budget", "passing_priority_classes")
        yield Contradiction(path=path, problem="names a class twice", remedy="name each class once")


def _budget_of(pool: PoolSpec, budget: BudgetSpec | None, here: Path) -> Iterator[Contradiction]:
    path = (*here, "budget_usd")
    if pool.budget_usd is None:
        return
    if budget is None:
        yield Contradiction(
            path=path,
            problem="needs budget, which says when the month ends and where its lines are",
            remedy="add budget with monthly_usd",
        )
    elif pool.budget_usd > budget.monthly_usd:
        yield Contradiction(
            path=path,
            problem=f"must not be above budget.monthly_usd ({budget.monthly_usd})",
            remedy="lower it or raise monthly_usd",
            over=(("budget", "monthly_usd"),),
        )


def _billing(configuration: Configuration) -> Iterator[Contradiction]:
    billing = configuration.billing
    # By the second there is no paid hour to wait for, and the margin is not used.
    if billing.granularity > timedelta(seconds=1) and billing.removal_margin >= billing.granularity:
        yield Contradiction(
            path=("billing", "removal_margin"),
            problem="must be shorter than granularity",
            remedy="lower removal_margin or raise granularity",
            over=(("billing", "granularity"),),
        )


def _same_names(configuration: Configuration) -> Iterator[Contradiction]:
    """Names and ids share one space: alerts, people and overrides may use either."""
    seen: dict[str, Path] = {}
    for index, pool in enumerate(configuration.pools):
        for key, word in (("name", pool.name), ("civo_pool_id", pool.civo_pool_id)):
            here: Path = ("pools", index, key)
            first = seen.setdefault(word, here)
            if first[1] != index:
                remedy = "give each pool its own name" if key == "name" else "list each pool once"
                yield Contradiction(
                    path=here, problem=f'"{word}" is taken by {spell(first)}', remedy=remedy, over=(first,)
                )


def _bounds(pool: PoolSpec, here: Path) -> Iterator[Contradiction]:
    least, most, spare = ((*here, name) for name in ("min_nodes", "max_nodes", "standby_nodes"))
    if pool.max_nodes < pool.min_nodes:
        yield Contradiction(
            path=most,
            problem=f"must be at least min_nodes ({pool.min_nodes})",
            remedy="raise max_nodes or lower min_nodes",
            over=(least,),
        )
    if pool.standby_nodes > pool.max_nodes:
        yield Contradiction(
            path=spare,
            problem=f"must be at most max_nodes ({pool.max_nodes})",
            remedy="lower standby_nodes or raise max_nodes",
            over=(most,),
        )


def _pool(pool: PoolSpec, here: Path) -> Iterator[Contradiction]:
    for lower, upper in (("low", "high"), ("idle", "underutilized")):
        bound = getattr(pool.utilization, upper)
        if getattr(pool.utilization, lower) >= bound:
            yield Contradiction(
                path=(*here, "utilization", lower),
                problem=f"must be below {upper} ({bound})",
                remedy=f"lower {lower} or raise {upper}",
                over=((*here, "utilization", upper),),
            )
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(pool.taints):
        if (taint.key, taint.effect) in seen:
            yield Contradiction(
                path=(*here, "taints", number),
                problem=f"is a second taint {taint.key} with the effect {taint.effect}",
                remedy="keep one: Kubernetes allows one value per key and effect",
            )
        seen.add((taint.key, taint.effect))
        if pool.apply_to_nodes and taint.effect == "NoExecute":
            yield Contradiction(
                path=(*here, "taints", number, "effect"),
                problem="NoExecute put on a node would throw out the pods that run there",
                remedy="use NoSchedule, or leave apply_to_nodes out",
                over=((*here, "apply_to_nodes"),),
            )
    if not pool.resources:
        yield Contradiction(
            path=(*here, "resources"),
            problem="offers no GPU",
            remedy="say what one node offers, such as {nvidia.com/gpu: 1}",
        )
    elif pool.price_usd_per_hour is not None:
        path = (*here, "price_usd_per_hour")
        wrong = list(insane(pool.price_usd_per_hour, pool.gpus_per_node, ""))
        for found in wrong or far_from_list(pool.price_usd_per_hour, pool.size, ""):
            yield Contradiction(path=path, problem=found.problem, remedy=found.remedy, over=((*here, "resources"),))


def _windows(pool: PoolSpec, here: Path) -> Iterator[Contradiction]:
    for number, window in enumerate(pool.windows):
        path = (*here, "windows", number)
        yield from _times(window, path)
        if never_opens(window):
            yield Contradiction(
                path=(*path, "days_of_month"),
                problem="never opens: no month that it names has such a day",
                remedy="correct months or days_of_month; -1 is the last day of any month",
                over=((*path, "months"),),
            )
        yield from _window_bounds(pool, window, here, path)
        yield from evictions(pool, window, here, path)
        for other_number, other in enumerate(pool.windows):
            if other_number != number and _cross(window, other) and may_overlap(window, other):
                yield Contradiction(
                    path=(*path, "min_nodes"),
                    problem=f"{window.min_nodes} is above max_nodes ({other.max_nodes}) of window {other.name}, "
                    "and both can be open at once",
                    remedy="lower it, raise that max_nodes, or keep the windows apart",
                    over=(path, (*here, "windows", other_number)),
                )


def _times(window: WindowSpec, path: Path) -> Iterator[Contradiction]:
    for index, span in enumerate(window.times):
        if span.start_time >= span.end_time:
            start, end = _clock(span.start_time), _clock(span.end_time)
            problem = "is inverted or over midnight"
            remedy = f"write two entries: {start} to 24:00 and 00:00 to {end}"
            if span.start_time == span.end_time:
                problem, remedy = "has no length", "move its end, or remove times to match all day"
            elif span.end_time == 0:
                remedy = "write 24:00 as its end"
            yield Contradiction(path=(*path, "times", index), problem=f"{start} to {end} {problem}", remedy=remedy)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _window_bounds(pool: PoolSpec, window: WindowSpec, here: Path, path: Path) -> Iterator[Contradiction]:
    bounds = (window.min_nodes, window.max_nodes, window.standby_nodes)
    if bounds == (None, None, None):
        yield Contradiction(
            path=path,
            problem="changes nothing",
            remedy="give it min_nodes, max_nodes or standby_nodes",
            over=tuple((*path, name) for name in ("min_nodes", "max_nodes", "standby_nodes")),
        )
    if window.standby_nodes is not None and window.max_nodes is not None and window.standby_nodes > window.max_nodes:
        yield Contradiction(
            path=(*path, "standby_nodes"),
            problem=f"{window.standby_nodes} is above the window's max_nodes ({window.max_nodes})",
            remedy="lower standby_nodes or raise max_nodes",
            over=((*path, "max_nodes"),),
        )
    elif window.standby_nodes is not None and window.standby_nodes > pool.max_nodes:
        yield Contradiction(
            path=(*path, "standby_nodes"),
            problem=f"{window.standby_nodes} is above the pool's max_nodes ({pool.max_nodes})",
            remedy="lower standby_nodes or raise the pool's max_nodes",
            over=((*here, "max_nodes"),),
        )
    least = pool.min_nodes if window.min_nodes is None else window.min_nodes
    most = pool.max_nodes if window.max_nodes is None else min(window.max_nodes, pool.max_nodes)
    if least <= most or pool.min_nodes > pool.max_nodes:
        return
    if window.max_nodes is not None and window.min_nodes is None:
        yield Contradiction(
            path=(*path, "max_nodes"),
            problem=f"{window.max_nodes} is below the pool's min_nodes ({pool.min_nodes})",
            remedy=f"give the window min_nodes: {window.max_nodes} too, or raise its max_nodes",
            over=((*here, "min_nodes"),),
        )
        return
    whose = "the window's" if window.max_nodes is not None and window.max_nodes <= pool.max_nodes else "the pool's"
    yield Contradiction(
        path=(*path, "min_nodes"),
        problem=f"{window.min_nodes} is above {whose} max_nodes ({most})",
        remedy="lower min_nodes or raise max_nodes",
        over=((*path, "max_nodes"), (*here, "max_nodes")),
    )


def _cross(window: WindowSpec, other: WindowSpec) -> bool:
    return window.min_nodes is not None and other.max_nodes is not None and window.min_nodes > other.max_nodes


def _zones_that_differ(pool: PoolSpec, path: str) -> Iterator[str]:
    for number, window in enumerate(pool.windows):
        for other in pool.windows:
            if other is not window and _cross(window, other) and window.location != other.location:
                yield (
                    f"{path}.windows[{number}].min_nodes: {window.min_nodes} is above max_nodes ({other.max_nodes}) of "
                    f"window {other.name} in another zone; while both are open the maximum holds"
                )


SHORTEST_GRACE = timedelta(minutes=5)  # what people need to read a message and to act on it
A_DAY = 24 * 60


def evictions(pool: PoolSpec, window: WindowSpec, here: Path, path: Path) -> Iterator[Contradiction]:
    """Yield what makes *evict_after* of *window* meaningless or dangerous."""
    grace, mine = window.evict_after, (*path, "evict_after")
    if grace is None:
        return
    if window.max_nodes is None:
        yield Contradiction(
            path=mine,
            problem="needs max_nodes: only what runs beyond a maximum is evicted",
            remedy="give the window max_nodes, or remove evict_after",
            over=((*path, "max_nodes"),),
        )
    elif window.max_nodes >= pool.max_nodes:
        yield Contradiction(
            path=mine,
            problem=f"would never evict: max_nodes ({window.max_nodes}) is not below the pool's ({pool.max_nodes})",
            remedy="lower the window's max_nodes, or remove evict_after",
            over=((*path, "max_nodes"), (*here, "max_nodes")),
        )
    if grace < SHORTEST_GRACE:
        yield Contradiction(
            path=mine,
            problem=f"{lasting(grace)} is too short for anybody to act on the notice",
            remedy=f"write at least {lasting(SHORTEST_GRACE)}",
        )
    elif (longest := _longest(window)) is not None and grace >= longest:
        yield Contradiction(
            path=mine,
            problem=f"{lasting(grace)} is not over before the window closes: it is open for {lasting(longest)} at most",
            remedy="shorten evict_after, or the window is open too short to evict anything",
            over=((*path, "times"),),
        )


def _longest(window: WindowSpec) -> timedelta | None:
    """How long *window* is open at a stretch at most; None when nothing but its days bounds it."""
    minutes = sum(max(0, t.end_time - t.start_time) for t in window.times)
    return timedelta(minutes=minutes) if 0 < minutes < A_DAY else None


_MONTH_LENGTHS = (28, 29, 30, 31)
_LENGTHS_OF = {2: (28, 29), 4: (30,), 6: (30,), 9: (30,), 11: (30,)}  # the others have 31 days


def may_overlap(one: WindowSpec, other: WindowSpec) -> bool:
    """True when some moment lies in both windows, as far as their fields tell (same zone only).

    Weekday and date can always meet in some year, so the fields are compared one by one.
    """
    if one.location != other.location:
        return False
    times = ([(t.start_time, t.end_time - 1) for t in window.times] for window in (one, other))
    pairs = ((one.weekdays, other.weekdays), (one.months, other.months), (one.years, other.years))
    return (
        _meet(*times)
        and all(_meet(mine, theirs) for mine, theirs in pairs)
        and any(
            _meet(_placed(one.days_of_month, length), _placed(other.days_of_month, length)) for length in _MONTH_LENGTHS
        )
    )


def never_opens(window: WindowSpec) -> bool:
    """True when no month that *window* names has a day that it names, such as a 30 February."""
    months = [m for a, b in window.months or ((1, 12),) for m in range(a, b + 1)]
    lengths = {length for m in months for length in _LENGTHS_OF.get(m, (31,))}
    return bool(window.days_of_month) and not any(
        max(a, 1) <= min(b, length) for length in lengths for a, b in _placed(window.days_of_month, length)
    )


def _meet(mine: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> bool:
    if not mine or not theirs:
        return True
    return any(a <= d and c <= b for a, b in mine for c, d in theirs)


def _placed(days: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The ranges of *days* as dates of a month of *length* days; a day that it does not have is kept beyond it."""
    return [(a if a > 0 else length + 1 + a, b if b > 0 else length + 1 + b) for a, b in days]
