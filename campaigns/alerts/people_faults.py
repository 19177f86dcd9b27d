"""Faults of money, of the receiver, of Alertmanager and of Prometheus: what only people are told."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

from prometheus_client import CollectorRegistry, generate_latest

from receiver.adapters.clock import SystemClock
from receiver.adapters.leader import WriterLock
from receiver.config import load
from receiver.config.live import LiveConfiguration
from receiver.config.settings import LiveSecrets
from receiver.core.model.actions import Action, ActionKind
from receiver.core.model.policy import Budget, Policy, Stated
from receiver.metrics.collector import Instruments
from receiver.ports import TryLater
from tests.config.builders import ENVIRONMENT, one_pool
from tests.given.life import Wrapped
from tests.rules.catalogue import ON_SMALL, SMALL, WITH_LARGE, Fault, a_policy, busy
from tests.rules.hours import Hours
from tests.rules.own_pages import MISSED, alertmanagers_page, counted, prometheus_page

AN_IDLE_NODE = {
    "GpuNodesIdle": "it is a node without work",
    "GpuPoolUnderutilized": "its GPUs do nothing",
}


def _spent(share: str) -> Policy:
    """A budget of which *share* was spent before we came."""
    stated = Stated(month="1970-01", usd=Decimal(share) * 100_000)
    return a_policy(budget=Budget(monthly_usd=Decimal(100_000), stated=stated))


def _twenty_minutes(h: Hours) -> None:
    busy(h, 20)


def _two_hours(h: Hours) -> None:
    busy(h, 80)


def _spends_too_much(h: Hours) -> None:
    """A forecast needs a day of costs: this one comes from a page of its own."""
    h.pages["a-day-later"] = lambda: 'gpu_autoscaler_budget_forecast_usd{scope="cluster",name=""} 110000\n'
    busy(h, 80)


def _no_charges(h: Hours) -> None:
    h.life.accounts.fail_always(TryLater("503", code="civo"))
    busy(h, 25)


def _receiver_gone(h: Hours) -> None:
    busy(h)
    h.unanswered.add("gpu-autoscaler")
    h.steps = False
    h.pass_time(15)


def _away_for(job: str, minutes: float, *, steps: bool = True) -> Callable[[Hours], None]:
    """Scrapes of *job* fail for a while, as when it restarts."""

    def course(h: Hours) -> None:
        busy(h, 15)
        h.unanswered.add(job)
        h.steps = steps
        h.pass_time(minutes)
        h.unanswered.clear()
        h.steps = True
        h.pass_time(15)

    return course


def _database_gone(h: Hours) -> None:
    busy(h)
    gone = Wrapped(h.life.store, memory=_raises("database is locked"))
    h.life.store = gone
    h.pass_time(20)


def _steps_fail_at_their_end(h: Hours) -> None:
    busy(h)
    h.life.store = Wrapped(h.life.store, keep_control=_raises("no such column: deliveries.considered_at"))
    h.pass_time(20)


def _bug_in(where: str) -> Callable[[Hours], None]:
    """The function *where* raises what only a bug raises."""

    def course(h: Hours) -> None:
        busy(h)
        with patch(where, side_effect=ValueError("a bug")):
            h.pass_time(20)

    return course


def _raises(why: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise TryLater(why, code="store")

    return refuse


def _loop_hangs(h: Hours) -> None:
    busy(h)
    h.steps = False
    h.pass_time(12)


def _civo_gone(h: Hours) -> None:
    busy(h)
    h.life.cloud.fail_always(TryLater("503", code="civo"))
    h.pass_time(15)


def _nobody_listens(h: Hours) -> None:
    h.nobody_takes_notices()
    h.submit("a", gpu_util=0.6, **ON_SMALL)
    h.submit("b", gpu_util=0.6, **ON_SMALL)
    h.submit("c", gpu_util=0.6, duration="20m", **ON_SMALL)  # growth is told
    h.pass_time(25)


def _wrong_token(h: Hours) -> None:
    page = alertmanagers_page()
    h.pages["alertmanager"] = lambda: counted(page, 'failed_total{integration="webhook"', max(0, int(h.minutes) - 5))
    busy(h, 25)


def _rule_fails(h: Hours) -> None:
    page = prometheus_page()
    h.pages["prometheus"] = lambda: counted(page, "gpu-autoscaler.demand", max(0, 12 * (int(h.minutes) - 5)))
    busy(h, 15)


def _rules_slow(h: Hours) -> None:
    page = prometheus_page()
    h.pages["prometheus"] = lambda: counted(page, "gpu-autoscaler.demand", max(0, 2 * int(h.minutes) - 10), MISSED)
    busy(h, 25)


def _metric_dropped(h: Hours) -> None:
    """A metric that a pod needs to count as demand; what is left of the pods of the system shows that it is dropped."""
    system = 'kube_pod_info{namespace="kube-system",pod="dns",node="n"} 1\n'
    h.pages["kube-state-metrics"] = lambda: system
    busy(h, 20)


def _no_heartbeat(h: Hours) -> None:
    busy(h)
    h.life.heartbeats = False
    h.pass_time(15)


def _hangs_in_an_action(h: Hours) -> None:
    busy(h)
    h.life.store.opened(
        Action(id="grow-1", pool=SMALL, kind=ActionKind.GROW, opened_at=h.clock.now(), from_count=2, to_count=3)
    )
    h.steps = False
    h.pass_time(85)


def _somebody_counts(h: Hours) -> None:
    busy(h)
    for count in (3, 2, 3, 2):
        h.live.world.pools[SMALL].required = count
        h.pass_time(5)


def _late_promises(h: Hours) -> None:
    busy(h)
    h.life.store.count_promises({(SMALL, "by_p50"): 1, (SMALL, "late"): 1})
    h.pass_time(5)
    h.life.store.count_promises({(SMALL, "by_p50"): 15, (SMALL, "late"): 10})
    h.pass_time(12)


def _clock_is_ahead(h: Hours) -> None:
    busy(h)
    h.skew = timedelta(seconds=90)
    h.pass_time(12)


def _replicas(ours: str, theirs: str, *, held: bool = False) -> Callable[[Hours], None]:
    """Two replicas are scraped; each leads once it gets the lock beside its database, which somebody else may hold."""

    def course(h: Hours) -> None:
        busy(h)
        with tempfile.TemporaryDirectory() as folder:
            locks = [WriterLock(f"sqlite:///{folder}/{name}") for name in (ours, ours, theirs)]
            if held:
                locks[0].try_acquire()
                h.steps = False
            second = Instruments()
            h.instruments.leads, second.leads = locks[1].try_acquire, locks[2].try_acquire
            registry = CollectorRegistry()
            registry.register(second)
            h.pages["gpu-autoscaler"] = lambda: generate_latest(registry).decode()
            h.pass_time(9)

    return course


def _bad_file(h: Hours) -> None:
    busy(h)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(one_pool())
        said = {**ENVIRONMENT, "GPU_AUTOSCALER_CONFIG": str(file)}
        on_disk = LiveConfiguration(file, load(said), SystemClock().now)
        h.instruments.on_disk.watch(LiveSecrets(said, load(said).environment), on_disk)
        file.write_text("modus: act")
        on_disk.look()
    h.pass_time(12)


def _no_kube_state_metrics(h: Hours) -> None:
    busy(h)
    h.unanswered.add("kube-state-metrics")
    h.pass_time(10)


def _labels_replaced(h: Hours) -> None:
    busy(h)
    h.replaced["kube-state-metrics"] = {"namespace": "monitoring", "pod": "kube-state-metrics-0"}
    h.pass_time(10)


def _second_cluster(h: Hours) -> None:
    """Its series have no label of their own, and its kube-system was created at another time."""
    busy(h)
    h.pages["kube-state-metrics"] = lambda: 'kube_namespace_created{namespace="kube-system"} 200\n'
    h.pass_time(10)


FAULTS = (
    Fault(title="60 % of a budget is spent", raises=("GpuBudgetWarn",), course=_twenty_minutes, policy=_spent("0.6")),
    Fault(title="85 % of a budget is spent", raises=("GpuBudgetHold",), course=_twenty_minutes, policy=_spent("0.85")),
    Fault(title="all of a budget is spent", raises=("GpuBudgetStop",), course=_twenty_minutes, policy=_spent("1.01")),
    Fault(
        title="the month will cost more than its budget",
        raises=("GpuBudgetForecastExceeded",),
        course=_spends_too_much,
    ),
    Fault(
        title="a new database, and Civo's charges cannot be read",
        raises=("GpuSpendUnknown",),
        course=_no_charges,
    ),
    Fault(
        title="a node with eight H100 stays idle",
        raises=("GpuIdleCostHigh",),
        also=AN_IDLE_NODE,
        course=_two_hours,
        policy=a_policy(large={"min_nodes": 1}),
        config=WITH_LARGE,
    ),
    Fault(title="the receiver is down", raises=("GpuAutoscalerDown",), course=_receiver_gone),
    Fault(
        title="the receiver's database rejects writes",
        raises=("GpuAutoscalerStepsFail",),
        also={"GpuAutoscalerStepsSlow": "no step finishes"},
        course=_database_gone,
    ),
    Fault(
        title="every step of the receiver fails at its end",
        raises=("GpuAutoscalerStepsFail", "GpuAutoscalerStepsSlow"),
        course=_steps_fail_at_their_end,
    ),
    Fault(
        title="a bug stops the decision of every pool",
        raises=("GpuAutoscalerPartFails", "GpuAutoscalerStepsFail", "GpuAutoscalerStepsSlow"),
        course=_bug_in("receiver.core.scaling.decide._decided"),
    ),
    Fault(
        title="the receiver cannot build its snapshot",
        raises=("GpuAutoscalerPartFails",),
        course=_bug_in("receiver.step.publish.picture"),
    ),
    Fault(title="the receiver's loop hangs", raises=("GpuAutoscalerStepsSlow",), course=_loop_hangs),
    Fault(title="the heartbeat does not arrive", raises=("GpuAutoscalerSourceDown",), course=_no_heartbeat),
    Fault(
        title="the receiver's loop hangs in the middle of an action",
        raises=("GpuAutoscalerActionStuck",),
        also={"GpuAutoscalerStepsSlow": "no step finishes"},
        course=_hangs_in_an_action,
    ),
    Fault(
        title="two replicas use different databases",
        raises=("GpuAutoscalerNotOneLeader",),
        course=_replicas("one.db", "other.db"),
    ),
    Fault(
        title="a process that is not scraped leads instead of two replicas",
        raises=("GpuAutoscalerNotOneLeader",),
        also={"GpuAutoscalerStepsSlow": "no step finishes"},
        course=_replicas("one.db", "one.db", held=True),
    ),
    Fault(title="a second replica waits for the first", course=_replicas("one.db", "one.db")),
    Fault(title="another system keeps changing a count", raises=("GpuAutoscalerPoolDrifts",), course=_somebody_counts),
    Fault(title="many promises do not come true", raises=("GpuPromisesLate",), course=_late_promises),
    Fault(title="the receiver's clock is 90 s ahead", raises=("GpuAutoscalerClockSkewed",), course=_clock_is_ahead),
    Fault(
        title="the configuration file becomes invalid",
        raises=("GpuAutoscalerConfigurationRefused",),
        course=_bad_file,
    ),
    Fault(title="Civo does not answer", raises=("GpuAutoscalerSourceDown",), course=_civo_gone),
    Fault(
        title="the destination of messages does not answer",
        raises=("GpuAutoscalerNoticesStuck",),
        also={"GpuPodsPending": "the message is about a growth, for a waiting pod"},
        course=_nobody_listens,
    ),
    Fault(title="Alertmanager has a wrong token", raises=("GpuAutoscalerWebhooksFail",), course=_wrong_token),
    Fault(title="a group of rules fails", raises=("GpuAutoscalerRulesFail",), course=_rule_fails),
    Fault(title="Prometheus skips evaluations of a group", raises=("GpuAutoscalerRulesSlow",), course=_rules_slow),
    Fault(
        title="kube-state-metrics has an allowlist without metrics that the rules need",
        raises=("GpuKubeStateMetricsIncomplete",),
        course=_metric_dropped,
    ),
    Fault(
        title="kube-state-metrics does not answer",
        raises=("GpuKubeStateMetricsDown",),
        course=_no_kube_state_metrics,
    ),
    Fault(
        title="Prometheus replaces the names that kube-state-metrics gives to pods",
        raises=("GpuKubeStateMetricsRelabeled",),
        course=_labels_replaced,
    ),
    Fault(
        title="kube-state-metrics of a second cluster is in the same Prometheus",
        raises=("GpuClustersMixed",),
        course=_second_cluster,
    ),
    Fault(title="the receiver restarts", course=_away_for("gpu-autoscaler", 2, steps=False)),
    Fault(title="kube-state-metrics restarts", course=_away_for("kube-state-metrics", 1.5)),
    Fault(title="dcgm-exporter restarts", course=_away_for("dcgm-exporter", 2)),
)
