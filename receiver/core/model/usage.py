"""GPU activity by engine, memory and power, and usage of paid nodes by workloads as the ledger stores it.

Activity never makes a node idle: a node with a GPU pod is busy whatever its GPUs do, because a pod that loads its model
shows 0 % for minutes. `judge` and `was_idle` err towards keeping; nothing is removed because of `at_rest`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a workload is: the pod labels that `attribution` names, and the PriorityClass. Empty: not set."""

    team: str = ""
    project: str = ""
    workload_class: str = ""
    environment: str = ""
    cost_center: str = ""
    priority_class: str = ""


def workload_name(namespace: str, controller: str, pod: str) -> str:
    """``namespace/Kind/name`` of a pod's *controller* (``Kind/name``), or of the *pod* itself if it has none."""
    return f"{namespace}/{controller or f'Pod/{pod}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of one instance by one workload of one owner in one calendar month of the budget's zone.

    Seconds are GPU-seconds, in which slices and shares of a GPU count as fractions; ratios are 0-1.
    """

    month: str  # in which the paid unit began, so that usage and cost fall into the same month
    instance: str
    workload: str  # ``namespace/Kind/name`` of the controller of its pods, or of the pod
    namespace: str
    life: str = ""  # the uid of that, because names are reused
    owner: Owner = Owner()
    held: float = 0.0  # allocated to it
    node_seconds: float | None = None  # as a part of the node, by the GPUs it offered *then* (None: of its life)
    measured: float = 0.0  # of *held*, with DCGM samples
    idle: float = 0.0  # of *measured*, `at_rest`
    busy: float = 0.0  # engine utilization times seconds
    memory: float = 0.0  # used memory times seconds
    peak_engine: float | None = None  # the highest ratio of one GPU
    peak_memory: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadLife:
    """One observed workload: requested at *created_at*, its first pod bound at *bound_at*, gone at *ended_at*.

    *owner* is that of its newest pod, *gpus* the most devices that its pods asked for at once. *completed* is True when
    its pods succeeded, False when one of them failed last, None while it runs or when its end was not seen.
    """

    workload: str
    namespace: str
    created_at: datetime
    life: str = ""
    owner: Owner = Owner()
    gpus: int = 0
    bound_at: datetime | None = None
    ended_at: datetime | None = None
    completed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSpan:
    """The *gpus* that a workload held from *since* to *until* although it had been idle for longer than it may be, or,
    where it was *ended* at *since*, those that it did not hold until it started again (None: it has not).

    *workload* is ``namespace/Kind/name`` of what a person would scale. *usd_per_hour* is the list price of all *gpus*,
    None where a pool has none.
    """

    workload: str
    since: datetime
    team: str = ""
    gpus: float = 0.0
    usd_per_hour: Decimal | None = None
    ended: bool = False
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwatched:
    """Unobserved GPU-seconds of one instance in one month, less what is accounted to pods that still exist."""

    month: str
    instance: str
    seconds: float
    node_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHolding:
    """A pod that held *gpus* GPUs of *instance* when usage was last accounted for; that is in the ledger up to *until*,
    if Civo did not list the instance, else up to the accounting."""

    uid: str
    instance: str
    workload: str
    gpus: float
    life: str = ""
    owner: Owner = Owner()
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """The state of the account: everything before *at* is in the ledger; who held GPUs and which workloads ran then."""

    at: datetime | None = None
    holdings: tuple[GpuHolding, ...] = ()
    running: tuple[WorkloadLife, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """The result of one accounting: *usage* and *unwatched* are increments, *lives* are new or changed,
    *holdings* replace the ones before."""

    usage: tuple[Usage, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()
    lives: tuple[WorkloadLife, ...] = ()
    holdings: tuple[GpuHolding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPod:
    """A GPU pod that Kubernetes still shows after it *succeeded* or failed; *life* is as in `Usage`."""

    uid: str
    workload: str
    succeeded: bool
    at: datetime | None = None
    life: str = ""


# Share of time. On a node without pods, less than NVML's smallest step (1 %) is noise.
ENGINE_IN_USE = 0.01
# Over a window the peak counts, and DCGM averages the engine over the 30 s between two readings: 0.1 % of them is
# a single request of 30 ms. Serving pods stay below 5 % for an hour and work all the same.
ENGINE_QUIET = 0.001
# A stuck counter (seen on idle Blackwell GPUs) reads 100 %. So does work, so the other signals decide.
ENGINE_FULL = 0.99
# A mean below this counts as unused: occasional requests stay below it.
ENGINE_UNUSED = 0.05
# Used memory. The driver itself keeps about 570 MiB of an L40S (1.2 %, its `Reserved`), which exporters without
# DCGM_FI_DEV_FB_RESERVED may count as used; a CUDA context takes 0.3 to 1 GB. A model takes far more.
MEMORY_HELD = 0.02
# Change of used memory. Without a process at work it stays the same to the MiB; the least that a new CUDA context
# takes is 0.16 % of a B200 (300 of 183359 MiB).
MEMORY_STILL = 0.001
# Watts. With a model loaded and nothing to do an A100 draws 80, an L40S 102, an H100 122 to 145, a B200 192 to
# 196; without a process 54, 36, 72 for the first three (arXiv:2605.23918 and nvidia-smi outputs in public issues:
# wilicc/gpu-burn#114, NVIDIA/TensorRT-LLM#10278). More than this is work; less proves nothing by itself, since
# small GPUs work at 70.
POWER_AT_REST = 250.0
# Watts between the lowest and the highest reading. A CUDA context that comes or goes moves an A100 by 26, the
# least of the GPUs measured there; resident memory moves it by less than 0.02 per GB. An L40S that serves steadily
# stays between 150 and 160.
POWER_STEADY = 8.0
POWER_BOUND = 5000.0  # no GPU draws that much: DCGM's blank values (1.4e14, 9.2e18) and garbage lie above
# Share of the window that must have samples: a Prometheus that has just started knows of no work.
COVERAGE_ENOUGH = 0.8


class Use(StrEnum):
    """The combined result of the signals."""

    ACTIVE = "active"
    QUIET = "quiet"
    UNKNOWN = "unknown"  # contradictory or too few signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The present activity of a node's GPUs by DCGM, the highest among them, None where it is not reported."""

    engine: float | None = None  # share of time the engine worked (ratio)
    memory: float | None = None  # used of used, free and reserved (ratio)
    power: float | None = None  # watts


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The activity of one GPU of a pod over the last two minutes, as ratios, None where DCGM does not report it.

    *engine* is the mean share of time the engine worked, *memory* mean used memory, *nvml* the mean of NVML's
    utilization, which should agree with *engine*, *power* the lowest watts.
    """

    engine: float | None = None
    memory: float | None = None
    peak_memory: float | None = None
    least_memory: float | None = None
    nvml: float | None = None
    power: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The activity of a pod's GPUs over the last *window*, None where it was not observed."""

    window: timedelta
    engine: float | None = None  # highest share of time that one of them worked (ratio)
    memory: float | None = None  # by how much one's used memory changed (highest less lowest, ratio of that GPU's)
    power: float | None = None  # highest watts
    power_floor: float | None = None  # those less the widest swing of one GPU: with one GPU the lowest watts
    least_swing: float | None = None  # watts, in the last hour at most, of the GPU whose power changed least
    nvml: float | None = None  # highest NVML utilization of one of them (ratio), which should agree with `engine`
    coverage: float = 0.0  # share of the window that has samples (ratio)


def judge(activity: Activity) -> Use:
    """Return whether the GPUs of a node without a GPU pod are in use.

    =================  ==================  =====================================================
    engine             memory              verdict (power: `rest`, `work` above it, `-` unknown)
    =================  ==================  =====================================================
    any or unknown     held                active: a process holds it, whether or not it computes
    1 % to 99 %        empty or unknown    active
    full (99 %)        empty or unknown    active at `work`; unknown at `rest`: the counter is stuck
    full (99 %)        empty               unknown at `-`: nothing that works holds no memory
    full (99 %)        unknown             active at `-`: no signal contradicts
    below 1 %          empty               quiet at `rest` or `-`; unknown at `work`
    below 1 %          unknown             quiet at `rest`; unknown at `work` or `-`
    unknown            empty               quiet at `rest`; unknown at `work` or `-`
    unknown            unknown             unknown: watts alone prove nothing
    =================  ==================  =====================================================
    """
    engine, memory, power = _within(activity.engine), _within(activity.memory), _within(activity.power, POWER_BOUND)
    if memory is not None and memory >= MEMORY_HELD:
        return Use.ACTIVE
    works_hard = None if power is None else power > POWER_AT_REST
    if engine is not None and engine >= ENGINE_IN_USE:
        stuck = engine >= ENGINE_FULL and not works_hard and (memory is not None or works_hard is False)
        return Use.UNKNOWN if stuck else Use.ACTIVE
    quiet = [engine is not None, memory is not None, works_hard is False]
    return Use.QUIET if sum(quiet) >= 2 and not works_hard else Use.UNKNOWN


def _within(value: float | None, bound: float = 1.0) -> float | None:
    """Return *value* if it lies between 0 and *bound*: exporters deliver NaN, negative and huge values now and then."""
    return value if value is not None and 0 <= value <= bound else None


def was_idle(course: Course) -> Use:
    """Return QUIET only if a pod's GPUs did nothing for the whole window.

    ====================  ===================  ========================================================
    engine, its peak      memory               verdict (power: `steady`, `moved` or high, `-` unknown)
    ====================  ===================  ========================================================
    any or unknown        changed              active: memory is being loaded or released
    0.1 % to 99 %         still or unknown     active
    full (99 %)           still or unknown     active at `moved` or `-`; unknown at `steady`: stuck
    below 0.1 %           still                quiet at `steady` or `-`; unknown at `moved`
    below 0.1 %           unknown              quiet at `steady`; unknown at `moved` or `-`
    unknown               still or unknown     unknown: nothing else measures work
    ====================  ===================  ========================================================

    Quiet becomes unknown if less than 80 % of the window has samples, if NVML shows work, or if the power did not
    change at all (the exporter repeats itself); observed work still counts. A course is stored
    by pod name, so a pod younger than the window may have the course of its predecessor (StatefulSets): the caller
    compares ages.
    """
    engine, memory, power = _within(course.engine), _within(course.memory), _within(course.power, POWER_BOUND)
    if memory is not None and memory > MEMORY_STILL:
        return Use.ACTIVE
    if engine is None:
        return Use.UNKNOWN
    steady: bool | None = None  # whether the power stayed at an idle GPU's level, as far as known
    swing = None if power is None or course.power_floor is None else power - course.power_floor
    if power is not None and power > POWER_AT_REST:
        steady = False
    elif swing is not None:
        steady = swing <= POWER_STEADY
    if engine >= ENGINE_QUIET:
        return Use.UNKNOWN if engine >= ENGINE_FULL and steady else Use.ACTIVE
    agreed = steady is not False and (steady or memory is not None)
    contradicted = course.nvml is not None and not course.nvml < ENGINE_IN_USE
    frozen = 0 in (swing, course.least_swing)
    believed = agreed and not contradicted and not frozen
    return Use.QUIET if believed and course.coverage >= COVERAGE_ENOUGH else Use.UNKNOWN


def at_rest(sample: Sample) -> bool | None:
    """Return whether a held GPU was idle: engine below 5 % and memory unchanged. None: not all of it is known.

    A loaded model without requests is idle; one that is being loaded is not, nor is one that draws the power of work or
    that NVML sees at work.
    """
    engine, most, least = _within(sample.engine), _within(sample.peak_memory), _within(sample.least_memory)
    if engine is None or _within(sample.memory) is None or most is None or least is None:
        return None
    works = (sample.nvml or 0.0) >= ENGINE_UNUSED or (sample.power or 0.0) > POWER_AT_REST
    return engine < ENGINE_UNUSED and most - least <= MEMORY_STILL and not works


@dataclass(frozen=True, slots=True)
class Measure:
    """Ratios 0-1 over the GPUs of a pod: the sampled *share* of them, and for that share the part at rest (*idle*),
    means, and the highest of one GPU (None without samples)."""

    share: float = 0.0
    idle: float = 0.0
    engine: float = 0.0
    memory: float = 0.0
    peak_engine: float | None = None
    peak_memory: float | None = None


def measure(samples: Iterable[Sample], devices: int) -> Measure:
    """Return the measure of a pod that holds that many *devices*."""
    measured = [s for s in samples if at_rest(s) is not None]
    if not measured or not devices:
        return Measure()
    engines = [s.engine or 0.0 for s in measured]
    return Measure(
        share=min(1.0, len(measured) / devices),
        idle=sum(bool(at_rest(s)) for s in measured) / len(measured),
        engine=sum(engines) / len(measured),
        memory=sum(s.memory or 0.0 for s in measured) / len(measured),
        peak_engine=max(engines),
        peak_memory=max(s.peak_memory or 0.0 for s in measured),
    )
