"""Pools in the configuration file: nodes, taints, windows, approval.

The text below a field is its row in docs/configuration.md (`make generate`). Windows have the
vocabulary of Alertmanager: https://prometheus.io/docs/alerting/latest/configuration/#time_interval.
"""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

from receiver.config import values
from receiver.config.devices import MOST_DEVICES, CounterName, DeviceSpec
from receiver.config.prices import far_from_list, insane
from receiver.config.values import Patterned, Section, Wrong, did_you_mean, text
from receiver.core.model.policy import Repair, Unanswered
from receiver.core.model.text import lasting

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
SHORTEST_WAIT = timedelta(minutes=1)  # time to read a message and answer it
SHORTEST_GRACE = timedelta(minutes=5)  # time to read a message and act on it
A_DAY = 24 * 60
Range = tuple[int, int]
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)|24:00")
MOST_WINDOWS = 100  # of a pool: each is compared with every other one
_MONTH_LENGTHS = (28, 29, 30, 31)
_CYCLE = 28  # years after which weekdays and dates meet again
_CALENDARS = (2000, 2000 + _CYCLE - 1)


def minute(value: object) -> int:
    """Return the minute of the day of a wall-clock time, 24:00 being 1440; raise Wrong."""
    entry = text(value)
    if not _CLOCK.fullmatch(entry):
        raise Wrong(f'"{entry}" is not a time of day', "write hours and minutes from 00:00 to 24:00, such as 20:00")
    hours, minutes = entry.split(":")
    return int(hours) * 60 + int(minutes)


def clock(at: int) -> str:
    return f"{at // 60:02}:{at % 60:02}"


def weekdays_range(value: object) -> Range:
    """Return a range of weekdays, Sunday being 0; raise Wrong."""
    first, last, entry = _ends(value)
    start, end = _index(first, WEEKDAYS, "weekday"), _index(last, WEEKDAYS, "weekday")
    if start > end:
        raise _over_the_end(f'"{entry}" crosses the end of the week (weeks begin on sunday)', start, end, WEEKDAYS)
    return start, end


def months_range(value: object) -> Range:
    """Return a range of months, January being 1; names and numbers may be mixed; raise Wrong."""
    first, last, entry = _ends(value)
    start, end = _month(first), _month(last)
    if start > end:
        raise _over_the_end(f'"{entry}" crosses the end of the year', start - 1, end - 1, MONTHS)
    return start, end


def days_of_month_range(value: object) -> Range:
    """Return a range of days; negative ones count from the month's end (-1 is the last day); raise Wrong."""
    first, last, entry = _ends(value)
    for day in (first, last):
        if not re.fullmatch(r"-?\d{1,2}", day) or not 1 <= abs(int(day)) <= 31:
            raise Wrong(f'"{day}" is not a day of the month', "write 1 to 31, or -1 to -31 from the month's end")
    start, end = int(first), int(last)
    if start < 0 < end:
        raise Wrong(f'"{entry}" starts from the end of the month and ends from its beginning', "write two entries")
    # Whether a range is inverted depends on the month's length; one that is even in the longest month is a mistake.
    if start % 32 > end % 32:
        remedy = "write the earlier day first, or two entries for a range over the month's end"
        raise Wrong(f'"{entry}" is inverted', remedy)
    return start, end


def years_range(value: object) -> Range:
    """Return a range of years; raise Wrong."""
    first, last, entry = _ends(value)
    for year in (first, last):
        if not re.fullmatch(r"[12]\d{3}", year):
            raise Wrong(f'"{year}" is not a year', "write four digits, such as 2026")
    if first > last:
        raise Wrong(f'"{entry}" is inverted', "write the earlier year first")
    return int(first), int(last)


def _ends(value: object) -> tuple[str, str, str]:
    entry = text(value).lower()
    first, colon, last = entry.partition(":")
    return first.strip(), (last if colon else first).strip(), entry


def _over_the_end(problem: str, start: int, end: int, names: Sequence[str]) -> Wrong:
    parts = [x[0] if len(x) == 1 else f"{x[0]}:{x[-1]}" for x in (names[start:], names[: end + 1])]
    return Wrong(problem, f"write two entries: {', '.join(parts)}")


def _index(word: str, names: Sequence[str], kind: str) -> int:
    if word not in names:
        raise Wrong(f'"{word}" is not a {kind}', did_you_mean(word, names))
    return names.index(word)


def _month(word: str) -> int:
    if re.fullmatch(r"\d+", word):
        if 1 <= int(word) <= 12:
            return int(word)
        raise Wrong(f'"{word}" is not a month', "write 1 to 12 or a name such as january")
    return _index(word, MONTHS, "month") + 1


def filled(value: object) -> object:
    """Return *value*; raise Wrong for an empty list, which looks like never and would mean always."""
    if value == []:
        raise Wrong("is empty", "list at least one range, or remove the key to match always")
    return value


def _one_or_two(pattern: str) -> str:
    """Return the pattern of a range whose ends match *pattern*, or of one alone."""
    return rf"({pattern})(\s*:\s*({pattern}))?"


Filled = BeforeValidator(filled)
Minute = Annotated[int, Patterned(minute, pattern=_CLOCK.pattern)]
Weekdays = Annotated[Range, Patterned(weekdays_range, pattern=_one_or_two(f"(?i:{'|'.join(WEEKDAYS)})"))]
DaysOfMonth = Annotated[Range, Patterned(days_of_month_range, pattern=_one_or_two("-?(0?[1-9]|[12][0-9]|3[01])"))]
Months = Annotated[Range, Patterned(months_range, pattern=_one_or_two(f"0*([1-9]|1[0-2])|(?i:{'|'.join(MONTHS)})"))]
Years = Annotated[Range, Patterned(years_range, pattern=_one_or_two("[12][0-9]{3}"))]


class TimeRange(Section):
    start_time: Minute = Field(examples=['start_time: "20:00"'])
    """start of a range, inclusive"""
    end_time: Minute = Field(examples=['end_time: "24:00"'])
    """its end, exclusive; write a range over midnight as two"""

    def contradictions(self) -> Iterator[Wrong]:
        if self.start_time < self.end_time:
            return
        start, end = clock(self.start_time), clock(self.end_time)
        problem = "is inverted or crosses midnight"
        remedy = f"write two entries: {start} to 24:00 and 00:00 to {end}"
        if self.start_time == self.end_time:
            problem, remedy = "has no length", "change its end, or remove times to match all day"
        elif self.end_time == 0:
            remedy = "write 24:00 as its end"
        yield Wrong(f"{start} to {end} {problem}", remedy)


class WindowSpec(Section):
    name: values.Text = Field(examples=["a short name, such as name: nights"])
    """its name in messages and pages"""
    location: values.Zone = "UTC"
    """the time zone of its wall clock"""
    times: Annotated[tuple[TimeRange, ...], Filled] = ()
    weekdays: Annotated[tuple[Weekdays, ...], Filled] = ()
    """`monday`, `monday:friday`; weeks begin on sunday"""
    days_of_month: Annotated[tuple[DaysOfMonth, ...], Filled] = ()
    """`1`, `1:5`; `-1` is the month's last day"""
    months: Annotated[tuple[Months, ...], Filled] = ()
    """`january`, `5:8`"""
    years: Annotated[tuple[Years, ...], Filled] = ()
    """`2026`, `2026:2027`"""
    min_nodes: values.Whole | None = None
    """the pool's minimum meanwhile"""
    max_nodes: values.Whole | None = None
    """the pool's maximum meanwhile"""
    standby_nodes: values.Whole | None = None
    """the pool's standby meanwhile"""
    evict_after: values.LongerThanZero | None = None
    """[evict](how-it-decides.md#windows-that-evict) work beyond `max_nodes` this long after announcing it; at least
    `5m`"""

    def contradictions(self) -> Iterator[Wrong]:
        if never_opens(self):
            yield Wrong(
                "never opens: no day has its date, weekday, month and year",
                "correct months, weekdays, years or days_of_month; -1 is the last day of any month",
                ("days_of_month",),
            )
        least, most, spare = self.min_nodes, self.max_nodes, self.standby_nodes
        if (least, most, spare) == (None, None, None):
            yield Wrong("changes nothing", "give it min_nodes, max_nodes or standby_nodes")
        for key, count in (("min_nodes", least), ("standby_nodes", spare)):
            if count is not None and most is not None and count > most:
                problem = f"{count} is above the window's max_nodes ({most})"
                yield Wrong(problem, f"lower {key} or raise max_nodes", (key,))
        yield from self._eviction()

    def _eviction(self) -> Iterator[Wrong]:
        grace, at = self.evict_after, ("evict_after",)
        if grace is None:
            return
        minutes = sum(t.end_time - t.start_time for t in self.times)
        longest = timedelta(minutes=minutes) if 0 < minutes < A_DAY else None  # None: only its days bound it
        if self.max_nodes is None:
            problem = "needs max_nodes: only work beyond a maximum is evicted"
            yield Wrong(problem, "give the window max_nodes, or remove evict_after", at)
        if grace < SHORTEST_GRACE:
            problem = f"{lasting(grace)} is too short to act on the notice"
            yield Wrong(problem, f"write at least {lasting(SHORTEST_GRACE)}", at)
        elif longest is not None and grace >= longest:
            problem = f"{lasting(grace)} ends after the window closes: it is open for at most {lasting(longest)}"
            yield Wrong(problem, "shorten evict_after, or keep the window open for longer", at)


def contradict(window: WindowSpec, other: WindowSpec) -> bool:
    return window.min_nodes is not None and other.max_nodes is not None and window.min_nodes > other.max_nodes


def may_overlap(first: WindowSpec, second: WindowSpec) -> bool:
    """Return whether some moment may lie in both windows; windows of two zones are not compared. Weekday and date can
    always meet in some year, so the fields are compared one by one."""
    times = ([(t.start_time, t.end_time - 1) for t in window.times] for window in (first, second))
    days = ([_placed(window.days_of_month, length) for window in (first, second)] for length in _MONTH_LENGTHS)
    pairs = (times, (first.weekdays, second.weekdays), (first.months, second.months), (first.years, second.years))
    return first.location == second.location and all(_meet(*pair) for pair in pairs) and any(_meet(*d) for d in days)


def never_opens(window: WindowSpec) -> bool:
    """Return whether no day has the window's weekday, date, month and year, such as a 30 February."""
    months = [m for a, b in window.months or ((1, 12),) for m in range(a, b + 1)]
    years = [y for a, b in window.years or (_CALENDARS,) for y in range(a, min(b, a + _CYCLE - 1) + 1)]
    return bool(window.days_of_month) and not any(_has_a_day(window, y, m) for y in years for m in months)


def _has_a_day(window: WindowSpec, year: int, month: int) -> bool:
    first, length = monthrange(year, month)  # its weekday, Monday being 0
    days = {d for a, b in _placed(window.days_of_month, length) for d in range(max(a, 1), min(b, length) + 1)}
    weekdays = {d for a, b in window.weekdays or ((0, 6),) for d in range(a, b + 1)}  # Sunday being 0
    return any((first + day) % 7 in weekdays for day in days)


def _meet(mine: Sequence[Range], theirs: Sequence[Range]) -> bool:
    return not mine or not theirs or any(a <= d and c <= b for a, b in mine for c, d in theirs)


def _placed(days: Iterable[Range], length: int) -> list[Range]:
    """Return *days* as dates of a month of *length* days; a day that it does not have is kept beyond its end."""
    return [(a if a > 0 else length + 1 + a, b if b > 0 else length + 1 + b) for a, b in days]


class TaintSpec(Section):
    key: values.LabelKey = Field(examples=["the taint's key, such as key: gpu"])
    """a taint of its nodes"""
    value: values.LabelValue = ""
    """the taint's value"""
    effect: values.TaintEffect = "NoSchedule"
    """the taint's effect"""


class Cooldown(Section):
    grow: values.Duration = timedelta(seconds=5)
    """pause after a growth"""
    shrink: values.Duration = timedelta(minutes=5)
    """pause after a shrink; not used with hourly billing"""


class Utilization(Section):
    high: values.Ratio = Decimal("0.70")
    """above it the pool counts as busy, and no node is emptied"""
    low: values.Ratio = Decimal("0.50")
    """below it the pool counts as underused"""
    underutilized: values.Ratio = Decimal("0.20")
    """a workload below it for four hours is reported"""
    idle: values.Ratio = Decimal("0.05")
    """a GPU that a pod held for an hour below it counts as idle"""

    def contradictions(self) -> Iterator[Wrong]:
        for lower, upper in (("low", "high"), ("idle", "underutilized")):
            bound = getattr(self, upper)
            if getattr(self, lower) >= bound:
                yield Wrong(f"must be below {upper} ({bound})", f"lower {lower} or raise {upper}", (lower,))


class ApprovalSpec(Section):
    removals: bool = False
    """ask before removing idle and emptying busy nodes"""
    growth_above_usd_per_hour: values.Money | None = None
    """ask before growth that costs more than this an hour"""
    wait: values.LongerThanZero = timedelta(minutes=15)
    """time to answer, at least `1m`"""
    unanswered: Unanswered = Unanswered.PROCEED
    """what happens [without an answer](guardrails.md#approved)"""

    def contradictions(self) -> Iterator[Wrong]:
        if not self.removals and self.growth_above_usd_per_hour is None:
            remedy = "give it removals: true or growth_above_usd_per_hour, or remove it"
            yield Wrong("requires no approval for anything", remedy)
        if self.wait < SHORTEST_WAIT:
            problem = f"{lasting(self.wait)} is too short to answer"
            yield Wrong(problem, f"write at least {lasting(SHORTEST_WAIT)}", ("wait",))


class CommittedSpec(Section):
    nodes: values.Units = Field(examples=["how many nodes are paid for, such as nodes: 2"])
    """how many nodes are [paid for, whether or not they exist](costs.md#committed-nodes)"""
    usd_per_hour: values.Money = Field(examples=["the price of one node-hour in USD"])
    """of each, all its GPUs together"""
    until: values.Day = Field(examples=["the day on which the commitment ends, such as until: '2027-06-01'"])
    """the first day (UTC) on which they are no longer paid for"""


class PoolSpec(Section):
    """A pool. What a file leaves out of `receiver.config.completion.FROM_CIVO` has been filled in before."""

    name: values.PoolName = Field(examples=["a short name, such as name: l40s"])
    """its name in messages and pages; left out, it is short for its size, such as `h100-x8`"""
    civo_pool_id: values.Identifier = Field(
        examples=["Civo's id of the pool, which `civo kubernetes node-pool list` shows, such as civo_pool_id: 5f3c"]
    )
    """Civo's id of the pool"""
    size: values.Identifier = Field(examples=["Civo's size of its nodes, such as size: an.g1.l40s.kube.x1"])
    """Civo's size of its nodes, which has the price; [only you change
    it](decisions/0083-pools-are-completed-from-civo.md)"""
    resources: dict[values.GpuResource, values.Units] = Field(
        examples=["the GPUs of one node, such as resources: {nvidia.com/gpu: 1}"]
    )
    """GPUs of one node: `nvidia.com/gpu`, `nvidia.com/gpu.shared` or `nvidia.com/mig-...`"""
    max_nodes: values.Whole = Field(
        examples=["the most nodes that the pool may have, such as max_nodes: 8", "999999999"]
    )
    """the most nodes; 0 keeps the pool empty"""
    price_usd_per_hour: values.Money | None = None
    """of a node, instead of the list price"""
    committed: CommittedSpec | None = None
    labels: dict[values.LabelKey, values.LabelValue] = Field(default_factory=dict)
    """labels of its nodes, until a new node [shows
    others](decisions/0071-the-template-is-what-a-node-was-when-new.md)"""
    taints: tuple[TaintSpec, ...] = ()
    min_nodes: values.Whole = 0
    """the fewest nodes, within maximum and budget"""
    standby_nodes: values.Whole = 0
    """idle nodes kept ready"""
    cooldown: Cooldown = Cooldown()
    utilization: Utilization = Utilization()
    temperature_celsius: values.Celsius = 85
    """a GPU hotter for five minutes is reported"""
    idle_for: values.LongerThanZero = timedelta(minutes=10)
    """how long a node is idle before removal; not used with hourly billing"""
    provision_timeout: values.LongerThanZero = timedelta(minutes=20)
    """time until a new node's GPUs are allocatable; then the node is replaced, [one at a
    time](guardrails.md#provisioning_works)"""
    apply_to_nodes: bool = False
    """put `labels` and `taints` on nodes that lack them"""
    repair: Repair = Repair.NONE
    """`replace` removes a node with [sick GPUs](how-it-decides.md#sick-nodes) when its work ends"""
    repair_share: values.Ratio = Decimal("0.2")
    """the largest share of its nodes under repair at a time, at least one node"""
    windows: Annotated[tuple[WindowSpec, ...], values.at_most(MOST_WINDOWS)] = ()
    budget_usd: values.Money | None = None
    """its monthly allowance, at most `budget.monthly_usd`"""
    approval: ApprovalSpec | None = None
    devices: tuple[DeviceSpec, ...] = ()
    """the devices that DRA drivers show of one node, for [claims](how-it-decides.md#gpus-served-by-dra) while the pool
    has no node"""
    device_counters: dict[CounterName, values.Units] = Field(default_factory=dict)
    """what devices of a node share, such as `gpu-0/slices: 7`"""

    @property
    def gpus_per_node(self) -> int:
        return sum(self.resources.values())

    def contradictions(self) -> Iterator[Wrong]:
        least, most, spare = self.min_nodes, self.max_nodes, self.standby_nodes
        if most < least:
            yield Wrong(f"must be at least min_nodes ({least})", "raise max_nodes or lower min_nodes", ("max_nodes",))
        if spare > most:
            problem, remedy = f"must be at most max_nodes ({most})", "lower standby_nodes or raise max_nodes"
            yield Wrong(problem, remedy, ("standby_nodes",))
        yield from self._taints()
        if sum(device.count for device in self.devices) > MOST_DEVICES:
            yield Wrong(f"are more than {MOST_DEVICES}", "list the devices of one node", ("devices",))
        for number, device in enumerate(self.devices):
            for counter in device.uses.keys() - self.device_counters.keys():
                problem, remedy = f"{counter} is not among device_counters", "add it there, or correct its name"
                yield Wrong(problem, remedy, ("devices", number, "uses"))
        if not self.resources:
            yield Wrong("offers no GPU", "write the GPUs of one node, such as {nvidia.com/gpu: 1}", ("resources",))
        elif (price := self.price_usd_per_hour) is not None:
            at = ("price_usd_per_hour",)
            yield from list(insane(price, self.gpus_per_node, at)) or far_from_list(price, self.size, at)
        if (committed := self.committed) is not None:
            yield from insane(committed.usd_per_hour, self.gpus_per_node or 1, ("committed", "usd_per_hour"))
        for number, window in enumerate(self.windows):
            yield from self._window(window, ("windows", number))

    def _taints(self) -> Iterator[Wrong]:
        identities: set[tuple[str, str]] = set()
        for number, taint in enumerate(self.taints):
            if (taint.key, taint.effect) in identities:
                problem = f"is a second taint {taint.key} with the effect {taint.effect}"
                yield Wrong(problem, "keep one: Kubernetes allows one value per key and effect", ("taints", number))
            identities.add((taint.key, taint.effect))
            if self.apply_to_nodes and taint.effect == "NoExecute":
                problem = "NoExecute would evict the pods that run on the node when the taint is added"
                remedy = "use NoSchedule, or remove apply_to_nodes"
                yield Wrong(problem, remedy, ("taints", number, "effect"))

    def _window(self, window: WindowSpec, at: tuple[str | int, ...]) -> Iterator[Wrong]:
        for key in ("min_nodes", "standby_nodes"):
            count = getattr(window, key)
            if count is not None and count > self.max_nodes >= self.min_nodes:
                problem = f"{count} is above the pool's max_nodes ({self.max_nodes})"
                yield Wrong(problem, f"lower {key} or raise the pool's max_nodes", (*at, key))
        most = window.max_nodes
        if most is not None and window.min_nodes is None and most < self.min_nodes <= self.max_nodes:
            problem = f"{most} is below the pool's min_nodes ({self.min_nodes})"
            yield Wrong(problem, f"give the window min_nodes: {most} too, or raise its max_nodes", (*at, "max_nodes"))
        if window.evict_after is not None and most is not None and most >= self.max_nodes:
            problem = f"would never evict: max_nodes ({most}) is not below the pool's ({self.max_nodes})"
            yield Wrong(problem, "lower the window's max_nodes, or remove evict_after", (*at, "evict_after"))
        for other in self.windows:
            if other is not window and contradict(window, other) and may_overlap(window, other):
                yield Wrong(
                    f"{window.min_nodes} is above max_nodes ({other.max_nodes}) of window {other.name}, "
                    "and both can be open at once",
                    "lower it, raise that max_nodes, or keep the windows apart",
                    (*at, "min_nodes"),
                )
