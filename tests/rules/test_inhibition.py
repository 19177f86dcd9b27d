"""What Alertmanager holds back from people because of another alert, and that it never holds back what is acted on."""

import json
import time
import urllib.request
from collections.abc import Iterator

import pytest

from receiver.core.model.signals import SignalAction
from tests.rules.files import RULES
from tests.rules.servers import get, running
from tests.rules.versions import Chosen

Labels = dict[str, str]
LAST = ("GpuBudgetWarn", "GpuBudgetStop")  # held back, and by what: the source comes last


@pytest.fixture(scope="module")
def alertmanager(each_alertmanager: Chosen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alertmanager")
    paths = (f"--config.file={RULES / 'alertmanager.yml'}", f"--storage.path={folder / 'data'}")
    with running("alertmanager", folder / "log", *paths, "--cluster.listen-address=") as url:
        yield url


def _send(url: str, *alerts: Labels) -> None:
    body = json.dumps([{"labels": labels} for labels in alerts]).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/api/v2/alerts", body, headers), timeout=60) as answer:
        assert answer.status == 200


def _of(url: str, mark: str) -> set[str]:
    """Return the names of the alerts of *mark* that another one holds back."""
    found = get(f"{url}/api/v2/alerts?filter=case%3D%22{mark}%22")
    return {alert["labels"]["alertname"] for alert in found if alert["status"]["inhibitedBy"]}


def _held_back(url: str, *alerts: Labels) -> set[str]:
    """Send *alerts* under a mark of their own and return the names of those that another one holds back.

    Alertmanager takes alerts in before it weighs them, one by one in their order. So a pair of which one certainly
    holds back the other follows them: once it does, what is not held back by then never will be.
    """
    mark = f"m{len(get(url + '/api/v2/alerts'))}"
    _send(url, *({**labels, "case": mark} for labels in alerts))
    _send(url, *({**_ours(name, scope=mark, name=mark), "case": f"after-{mark}"} for name in LAST))
    deadline = time.monotonic() + 60
    while _of(url, f"after-{mark}") != {LAST[0]}:
        assert time.monotonic() < deadline, "Alertmanager did not come to the pair that follows"
        time.sleep(0.02)
    assert len(get(f"{url}/api/v2/alerts?filter=case%3D%22{mark}%22")) == len(alerts)
    return _of(url, mark)


def _ours(alertname: str, action: str = "notify", **more: str) -> Labels:
    return {
        "alertname": alertname,
        "component": "gpu-autoscaler",
        "namespace": "gpu-autoscaler",
        "action": action,
        **more,
    }


DOWN = {"alertname": "KubeNodeNotReady", "node": "down", "namespace": "kube-system"}


def test_a_node_that_is_down_holds_back_what_its_gpus_seem_to_do_and_not_those_of_another(alertmanager: str) -> None:
    here = _ours("GpuTemperatureHigh", node="down", gpu="0")
    there = _ours("GpuXidFatal", node="up", gpu="0")

    assert _held_back(alertmanager, DOWN, here, there) == {"GpuTemperatureHigh"}


@pytest.mark.parametrize("action", [a.value for a in SignalAction if a is not SignalAction.NOTIFY])
def test_nothing_that_is_acted_on_is_ever_held_back(alertmanager: str, action: str) -> None:
    at_once = [
        DOWN,
        _ours("GpuAutoscalerDown"),
        _ours("GpuBudgetStop", scope="cluster", name=""),
        _ours("GpuXidFatal", node="down", gpu="0"),
        _ours("GpuAllocatedIdle", workload_namespace="ml", workload="train"),
    ]
    names = ("GpuPodsPending", "GpuBudgetHold", "GpuAutoscalerStepsFail", "GpuXidError", "GpuWorkloadUnderutilized")
    where = {
        "node": "down",
        "gpu": "0",
        "scope": "cluster",
        "name": "",
        "workload_namespace": "ml",
        "workload": "train",
    }

    held_back = _held_back(alertmanager, *at_once, *(_ours(name, action, **where) for name in names))

    assert held_back & set(names) == set()


# Of each inhibition: what holds back, and what it holds back in its own cluster.
PAIRS: tuple[tuple[Labels, tuple[str, Labels]], ...] = (
    (DOWN, ("GpuTemperatureHigh", {"node": "down", "gpu": "0"})),
    (_ours("GpuAutoscalerDown"), ("GpuAutoscalerStepsSlow", {})),
    (_ours("GpuBudgetStop", scope="cluster", name=""), ("GpuBudgetHold", {"scope": "cluster", "name": ""})),
    (_ours("GpuBudgetHold", scope="pool", name="l40s"), ("GpuBudgetWarn", {"scope": "pool", "name": "l40s"})),
    (_ours("GpuXidFatal", node="n1", gpu="0"), ("GpuTemperatureHigh", {"node": "n1", "gpu": "0"})),
    (_ours("GpuEccUncorrectable", node="n2", gpu="0"), ("GpuXidError", {"node": "n2", "gpu": "0"})),
    (
        _ours("GpuAllocatedIdle", workload_namespace="ml", workload="a"),
        ("GpuWorkloadUnderutilized", {"workload_namespace": "ml", "workload": "a"}),
    ),
)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda pair: pair[0] if isinstance(pair, tuple) else None)
def test_no_alert_of_one_cluster_holds_back_one_of_another(
    alertmanager: str, source: Labels, target: tuple[str, Labels]
) -> None:
    here, there = ({**_ours(target[0], **target[1]), "cluster": name} for name in ("A", "B"))

    assert _held_back(alertmanager, {**source, "cluster": "A"}, there) == set()
    assert _held_back(alertmanager, {**source, "cluster": "A"}, here) == {target[0]}


def test_of_the_stages_of_one_budget_people_hear_of_the_last(alertmanager: str) -> None:
    stages = [_ours(f"GpuBudget{s}", scope="pool", name="l40s") for s in ("Warn", "Hold", "Stop", "ForecastExceeded")]

    assert _held_back(alertmanager, *stages) == {"GpuBudgetWarn", "GpuBudgetHold", "GpuBudgetForecastExceeded"}


def test_the_stop_of_one_budget_says_nothing_of_another(alertmanager: str) -> None:
    stop = _ours("GpuBudgetStop", scope="team", name="vision")
    warn = _ours("GpuBudgetWarn", scope="team", name="speech")

    assert _held_back(alertmanager, stop, warn) == set()


def test_a_gpu_that_has_to_go_holds_back_its_lesser_complaints(alertmanager: str) -> None:
    fatal = _ours("GpuRowRemapFailed", node="n1", gpu="0")
    lesser = _ours("GpuXidError", node="n1", gpu="0")
    other = _ours("GpuTemperatureHigh", node="n1", gpu="1")

    assert _held_back(alertmanager, fatal, lesser, other) == {"GpuXidError"}


def test_a_gpu_with_a_memory_error_is_still_told_to_be_too_hot(alertmanager: str) -> None:
    memory = _ours("GpuEccUncorrectable", node="n2", gpu="0")
    others = [_ours(name, node="n2", gpu="0") for name in ("GpuXidError", "GpuTemperatureHigh")]

    assert _held_back(alertmanager, memory, *others) == {"GpuXidError"}


def test_what_the_autoscaler_says_of_itself_waits_while_it_is_down(alertmanager: str) -> None:
    told = [_ours(name) for name in ("GpuAutoscalerDown", "GpuAutoscalerStepsSlow", "GpuAutoscalerSourceDown")]

    assert _held_back(alertmanager, *told) == {"GpuAutoscalerStepsSlow", "GpuAutoscalerSourceDown"}


def test_a_workload_that_is_idle_altogether_is_not_called_underutilized_as_well(alertmanager: str) -> None:
    idle = _ours("GpuAllocatedIdle", workload_namespace="ml", workload="train")
    slow = _ours("GpuWorkloadUnderutilized", workload_namespace="ml", workload="train")

    assert _held_back(alertmanager, idle, slow) == {"GpuWorkloadUnderutilized"}
