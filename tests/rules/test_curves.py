"""One table of what the exporter delivers of a held GPU, and what the rules and the core each make of it.

promtool checks which course, sample, idleness and coverage follow from the raw series, by the shipped rules and the
receiver's queries; `was_idle` and `at_rest` then judge that course and that sample.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.adapters.monitoring.prometheus import SAMPLES, course_queries
from receiver.core.model.usage import Course, Sample, Use, at_rest, was_idle
from tests.rules.files import RULES, run
from tests.rules.needed import lean

pytestmark = pytest.mark.usefixtures("each_prometheus")

HOUR = timedelta(hours=1)
POINTS = 201  # every 30s; the last hour begins after a standing energy counter is known to stand
NAMES = ("engine", "memory", "power", "swing", "least_swing", "nvml", "seen")
COURSES = dict(zip(NAMES, course_queries(HOUR), strict=True))
IDLE = "sum by (pod) (namespace_pod:gpu_allocated_idle:sum)"
COVERED = "pool:gpu_telemetry_coverage:ratio >= 1"
FILES = ("demand", "pools", "utilization", "activity", "workloads")
GROUPS = ("demand", "pools", "utilization", "activity", "workloads", "waste")


def still(value: object) -> str:
    return f"{value}x{POINTS - 1}"


def wave(*values: float) -> str:
    """Return the *values* again and again."""
    return " ".join(str(values[at % len(values)]) for at in range(POINTS))


def bursts(rest: float, work: float) -> str:
    """Return *work* for a minute in every twenty, else *rest*."""
    return wave(*[rest] * 20, work, work, *[rest] * 18)


def once(rest: float, odd: object) -> str:
    """Return *odd* for one reading within the last hour, else *rest*."""
    return f"{rest}x120 {odd} {rest}x{POINTS - 123}"


RISING = f"1000000+3000000x{POINTS - 1}"
PROF, NVML, POWER, ENERGY = "PROF_GR_ENGINE_ACTIVE", "DEV_GPU_UTIL", "DEV_POWER_USAGE", "DEV_TOTAL_ENERGY_CONSUMPTION"
HELD = {"DEV_FB_USED": still(30000), "DEV_FB_FREE": still(16000)}
MODEL = 0.65  # of the memory


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What the exporter delivers, the *course* of an hour and the last *sample* that follow, and what they mean.

    *idle* is whether the rules call the GPU idle for an hour, *covered* whether its node counts as reporting.
    """

    delivered: Mapping[str, str]
    course: Mapping[str, float]
    sample: Mapping[str, float]
    idle: bool
    use: Use
    rest: bool | None
    covered: bool = True
    memory: Mapping[str, str] = field(default_factory=lambda: HELD)


CURVES = {
    "a steady load with profiling stuck at 0": Curve(
        delivered={PROF: still(0), NVML: still(99), POWER: wave(640, 655), ENERGY: RISING},
        course={"engine": 0.99, "power": 655, "swing": 15, "least_swing": 15, "nvml": 0.99},
        sample={"engine": 0.99, "nvml": 0.99, "power": 640},
        idle=False,
        use=Use.ACTIVE,
        rest=False,
    ),
    "a steady load with profiling that moves near 0": Curve(
        delivered={PROF: wave(0.01, 0.02, 0.03), NVML: wave(90, 96), POWER: wave(640, 655), ENERGY: RISING},
        course={"engine": 0.96, "power": 655, "swing": 15, "least_swing": 15, "nvml": 0.96},
        sample={"engine": 0.93, "nvml": 0.93, "power": 640},
        idle=False,
        use=Use.ACTIVE,
        rest=False,
    ),
    "little work of which profiling and NVML show the same": Curve(
        delivered={PROF: wave(0.01, 0.02, 0.03), NVML: wave(1, 2, 3), POWER: wave(110, 118), ENERGY: RISING},
        course={"engine": 0.03, "power": 118, "swing": 8, "least_swing": 8, "nvml": 0.03},
        sample={"engine": 0.02, "nvml": 0.02, "power": 110},
        idle=True,
        use=Use.ACTIVE,
        rest=True,  # to the ledger: below the threshold of the pool
    ),
    "an exporter that is frozen": Curve(
        delivered={PROF: still(0), NVML: still(0), POWER: still(72.31), ENERGY: still(5_000_000)},
        course={"power": 72.31, "swing": 0, "least_swing": 0, "nvml": 0, "seen": 0},
        sample={"nvml": 0, "power": 72.31},
        idle=False,
        use=Use.UNKNOWN,
        rest=None,
        covered=False,
    ),
    "an exporter that is frozen and has no energy counter": Curve(
        delivered={PROF: still(0), NVML: still(0), POWER: still(72.31)},
        course={"engine": 0, "power": 72.31, "swing": 0, "least_swing": 0, "nvml": 0},
        sample={"engine": 0, "nvml": 0, "power": 72.31},
        idle=True,  # for people; nothing ends because of it
        use=Use.UNKNOWN,
        rest=True,
    ),
    "an L40S that serves with profiling stuck at 0": Curve(
        delivered={PROF: still(0), NVML: wave(30, 80), POWER: wave(150, 160), ENERGY: RISING},
        course={"engine": 0.8, "power": 160, "swing": 10, "least_swing": 10, "nvml": 0.8},
        sample={"engine": 0.55, "nvml": 0.55, "power": 150},
        idle=False,
        use=Use.ACTIVE,
        rest=False,
    ),
    "an L40S that serves with both counters at 0": Curve(
        delivered={PROF: still(0), NVML: still(0), POWER: wave(150, 160), ENERGY: RISING},
        course={"engine": 0, "power": 160, "swing": 10, "least_swing": 10, "nvml": 0},
        sample={"engine": 0, "nvml": 0, "power": 150},
        idle=True,  # for people; nothing ends because of it
        use=Use.UNKNOWN,
        rest=True,
    ),
    "a steady load with both counters at 0": Curve(
        delivered={PROF: still(0), NVML: still(0), POWER: wave(640, 655), ENERGY: RISING},
        course={"power": 655, "swing": 15, "least_swing": 15, "nvml": 0, "seen": 0},
        sample={"nvml": 0, "power": 640},
        idle=False,
        use=Use.UNKNOWN,
        rest=None,
        covered=False,
    ),
    "an idle GPU": Curve(
        delivered={PROF: still(0), NVML: still(0), POWER: wave(102, 103), ENERGY: RISING},
        course={"engine": 0, "power": 103, "swing": 1, "least_swing": 1, "nvml": 0},
        sample={"engine": 0, "nvml": 0, "power": 102},
        idle=True,
        use=Use.QUIET,
        rest=True,
    ),
    "an idle GPU with a garbage sample of each counter": Curve(
        delivered={
            PROF: once(0, 26.19),
            NVML: once(0, 808334905),
            POWER: once(102, "9.2e18 103"),
            ENERGY: RISING,
        },
        memory={"DEV_FB_USED": once(30000, 2147483632), "DEV_FB_FREE": once(16000, "NaN")},
        course={"engine": 0, "power": 103, "swing": 1, "least_swing": 1, "nvml": 0},
        sample={"engine": 0, "nvml": 0, "power": 102},
        idle=True,
        use=Use.QUIET,
        rest=True,
    ),
    "a busy GPU with a garbage sample of each counter": Curve(
        delivered={PROF: once(0.9, -1), NVML: once(95, 2147483632), POWER: once(600, "-Inf 640"), ENERGY: RISING},
        memory={"DEV_FB_USED": once(30000, -5), "DEV_FB_FREE": once(16000, "Inf")},
        course={"engine": 0.9, "power": 640, "swing": 40, "least_swing": 40, "nvml": 0.95},
        sample={"engine": 0.9, "nvml": 0.95, "power": 600},
        idle=False,
        use=Use.ACTIVE,
        rest=False,
    ),
    "bursts": Curve(
        delivered={PROF: bursts(0, 0.6), NVML: bursts(0, 90), POWER: bursts(102, 300), ENERGY: RISING},
        course={"engine": 0.6, "power": 300, "swing": 198, "least_swing": 198, "nvml": 0.9},
        sample={"engine": 0, "nvml": 0, "power": 102},
        idle=False,
        use=Use.ACTIVE,
        rest=True,  # these two minutes
    ),
    "bursts with profiling stuck at 0": Curve(
        delivered={PROF: still(0), NVML: bursts(0, 90), POWER: bursts(102, 300), ENERGY: RISING},
        course={"engine": 0.9, "power": 300, "swing": 198, "least_swing": 198, "nvml": 0.9},
        sample={"engine": 0, "nvml": 0, "power": 102},
        idle=False,
        use=Use.ACTIVE,
        rest=True,  # these two minutes
    ),
    "counters that are never a number": Curve(
        delivered={PROF: f"NaN+0x{POINTS - 1}", NVML: still(-1), POWER: still(1.4e14), ENERGY: still(9.2e18)},
        memory={"DEV_FB_USED": still(9.2e18), "DEV_FB_FREE": still(16000)},
        course={"seen": 0},
        sample={},
        idle=False,
        use=Use.UNKNOWN,
        rest=None,
        covered=False,
    ),
}


def course_of(curve: Curve) -> Mapping[str, float]:
    """Return the whole course: by default the memory was known and stood still, and all of the hour was seen."""
    return {"memory": 0, "seen": 1, **curve.course} if "power" in curve.course else curve.course


def sample_of(curve: Curve) -> Mapping[str, float]:
    memory = dict.fromkeys(("memory", "peak_memory", "least_memory"), MODEL) if curve.sample else {}
    return {**memory, **curve.sample}


def series_of(node: str, pod: str, curve: Curve) -> Mapping[str, str]:
    """Return the input series of a pod that holds the only GPU of its node, which is alone in a pool of its name."""
    ksm, of_node, of_pod = 'job="kube-state-metrics"', f'node="{node}"', f'namespace="ml",pod="{pod}"'
    gpu = f'hostname="{node}",gpu="0",UUID="g-{node}",exported_namespace="ml",exported_pod="{pod}"'
    requests = (
        f'kube_pod_container_resource_requests{{{ksm},{of_pod},{of_node},container="c",resource="nvidia_com_gpu"}}'
    )
    return {
        f'kube_node_labels{{{ksm},{of_node},label_kubernetes_civo_com_civo_node_pool="{node}"}}': still(1),
        f'kube_node_status_condition{{{ksm},{of_node},condition="Ready",status="true"}}': still(1),
        f'kube_node_status_allocatable{{{ksm},{of_node},resource="nvidia_com_gpu"}}': still(1),
        requests: still(1),
        f'kube_pod_status_phase{{{ksm},{of_pod},phase="Running"}}': still(1),
        f"kube_pod_info{{{ksm},{of_pod},{of_node}}}": still(1),
        f"kube_pod_created{{{ksm},{of_pod}}}": still(-7200),
        **{f"DCGM_FI_{counter}{{{gpu}}}": values for counter, values in {**curve.delivered, **curve.memory}.items()},
    }


Check = tuple[str, str, float]  # an expression, and labels with the value that promtool has to find there


def checks_of(node: str, pod: str, curve: Curve) -> Iterator[Check]:
    """Yield what has to follow from *curve*."""
    course, of_pod = course_of(curve), f'namespace="ml",pod="{pod}"'
    for of, query in COURSES.items():
        if of in course:
            yield query, of_pod, course[of]
    for of, value in sample_of(curve).items():
        yield SAMPLES, f'{of_pod},node="{node}",gpu="0",UUID="g-{node}",of="{of}"', value
    if curve.idle:
        yield IDLE, f'pod="{pod}"', 1
    if curve.covered:
        yield COVERED, f'pool="{node}"', 1


def promtool_test(curves: Mapping[str, Curve]) -> Mapping[str, object]:
    """Return one test of all the *curves*, each of a pod with its name: to evaluate the rules is what it costs."""
    nodes = {f"n{number}": named for number, named in enumerate(curves.items())}
    series = [one for node, (pod, curve) in nodes.items() for one in series_of(node, pod, curve).items()]
    checks = [check for node, (pod, curve) in nodes.items() for check in checks_of(node, pod, curve)]
    return {
        "interval": "30s",
        "input_series": [{"series": of, "values": values} for of, values in series],
        "promql_expr_test": [
            {
                "expr": f"round({expr}, 0.01)",
                "eval_time": "99m15s",
                "exp_samples": [
                    {"labels": f"{{{labels}}}", "value": value} for of, labels, value in checks if of == expr
                ],
            }
            for expr in (*COURSES.values(), SAMPLES, IDLE, COVERED)
        ],
    }


def test_the_rules_and_the_queries_make_of_each_curve_what_the_table_says(tmp_path: Path) -> None:
    file = tmp_path / "curves.test.yaml"
    whole = {
        "rule_files": [str(RULES / f"{name}.rules.yaml") for name in FILES],
        "evaluation_interval": "30s",
        "group_eval_order": [f"gpu-autoscaler.{name}" for name in GROUPS],
        "tests": [promtool_test(CURVES)],
    }
    file.write_text(json.dumps(whole))
    tested = run("promtool", "test", "rules", *lean(file, tmp_path))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_a_pod_was_idle_only_where_its_curve_says_so(curve: Curve) -> None:
    found = course_of(curve)
    floor = found["power"] - found["swing"] if "swing" in found else None
    course = Course(
        window=HOUR,
        engine=found.get("engine"),
        memory=found.get("memory"),
        power=found.get("power"),
        power_floor=floor,
        least_swing=found.get("least_swing"),
        nvml=found.get("nvml"),
        coverage=found.get("seen", 0.0),
    )
    assert was_idle(course) is curve.use


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_a_gpu_is_at_rest_only_where_its_curve_says_so(curve: Curve) -> None:
    assert at_rest(Sample(**sample_of(curve))) is curve.rest
