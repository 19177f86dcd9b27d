"""A policy, a picture, decisions and actions as a running cluster would leave them, and an app over them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import CodeType
from typing import Any, cast

from flask.testing import FlaskClient
from jinja2.bccache import Bucket, BytecodeCache
from prometheus_client import CollectorRegistry

from receiver.capabilities import registry
from receiver.config.live import LiveConfiguration
from receiver.config.model import Webhook
from receiver.config.settings import FileSettings, Tokens
from receiver.config.web import Network, ReadAccess
from receiver.core.model.actions import (
    Action,
    ActionKind,
    Decision,
    Outcome,
    OutcomeKind,
    Reason,
    Verdict,
    Victim,
    VictimStage,
)
from receiver.core.model.memory import NodeLife
from receiver.core.model.overrides import Question
from receiver.core.model.policy import Budget, Policy, Pool
from receiver.core.model.rights import never_asked
from receiver.core.model.usage import Owner, Usage, WorkloadLife
from receiver.core.notices.grouping import Seal
from receiver.ports import Grounds, Store, StoredAction, StoredDecision, WebStore
from receiver.reports.picture import RightsDocument
from receiver.web.app import create_app
from receiver.web.parts import LastStep, WebParts
from simulator.store import MemoryStore
from tests import payloads
from tests.clocks import FixedClock
from tests.core import builders as core
from tests.core.builders import facts
from tests.settings import settings_of
from tests.web.fakes import FakeHealth, FakeInstruments
from tests.web.stores import KEY, LoggedStore, a_store_with

NOW = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
TOKEN = "correct-horse-battery-staple"
OPERATOR = "open-sesame-and-no-other-word"
READER = "look-but-do-not-touch-anything"
L40S = "11111111-aaaa-4bbb-8ccc-000000000001"
A100 = "11111111-aaaa-4bbb-8ccc-000000000002"
SEAL = Seal(OPERATOR, KEY)
ANSWER_LINK = f"/answer/{SEAL.sign('q1')}"


def a_policy() -> Policy:
    """Two pools and a budget."""
    return Policy(
        pools=(
            Pool(
                id=L40S,
                name="l40s",
                size="an.g1.l40s.kube.x1",
                resources={"nvidia.com/gpu": 1},
                max_nodes=8,
                price_usd_per_hour=Decimal("1.29"),
                grow_cooldown=timedelta(seconds=30),
            ),
            Pool(id=A100, name="a100", size="an.g1.a100.kube.x8", resources={"nvidia.com/gpu": 8}, max_nodes=2),
        ),
        budget=Budget(monthly_usd=Decimal(5000)),
    )


def ago(**units: float) -> str:
    """Return a moment before NOW as the picture writes it."""
    return (NOW - timedelta(**units)).isoformat()


def a_node(name: str, **more: Any) -> dict[str, Any]:
    """A node of a picture."""
    node: dict[str, Any] = {"name": name, "instance": f"i-{name}", "stage": "usable", "idle_since": None, "pods": []}
    return {
        **node,
        "paid_until": ago(minutes=-22),
        "created_at": ago(minutes=38),
        "kept_by": [],
        "cordoned_by": None,
        **more,
    }


def a_wait(direction: str, kind: str, until: str, reason: str, **more: Any) -> dict[str, Any]:
    """What holds one direction of a pool for a while."""
    wait = {"direction": direction, "kind": kind, "until": until, "reason": reason, "failures": 0, "nodes": []}
    return {**wait, **more}


def a_pool(**more: Any) -> dict[str, Any]:
    """A pool of a picture: two of three nodes work, one GPU is waited for."""
    pool: dict[str, Any] = {
        "name": "l40s",
        "pool": L40S,
        "size": "an.g1.l40s.kube.x1",
        "mode": "act",
        "required": 4,
        "ready": 3,
        "building": 1,
        "busy": 2,
        "held_gpus": 1.5,
        "idle": 1,
        "unknown": 0,
        "sick": 1,
        "pending_gpus": 1,
        "wanted": 4,
        "min_nodes": 0,
        "max_nodes": 8,
        "windows": [],
        "gpus_per_node": 1,
        "price_usd_per_hour": "1.29",
        "utilization": 0.8125,
        "utilization_high": 0.7,
        "utilization_low": 0.5,
        "because": "1 GPU is waited for and 1 node is on its way.",
        "verdict": "grow",
        "decision": 42,
        "waits": [a_wait("grow", "cooldown", ago(seconds=-20), "it grew at 2026-03-10 14:29:50 UTC")],
        "provisioning": None,
        "awaited_since": ago(minutes=4),
        "ready_in_seconds": 420.0,
        "uncounted": 0,
        "drifts": 0,
        "reconsider_at": ago(seconds=-20),
        "silenced_by": None,
        "overrides": [],
        "questions": [],
        "open_action": {
            "id": "grow-l40s-4-8f3a",
            "kind": "grow",
            "from": 3,
            "to": 4,
            "opened_at": ago(minutes=3),
            "victims": [],
            "last_error": "",
        },
        "nodes": [
            a_node("l40s-0", pods=["research/train-llm-0"]),
            a_node("l40s-1", pods=["research/train-llm-1", "default/notebook-7"]),
            a_node("l40s-2", idle_since=ago(minutes=12)),
            a_node("l40s-3", stage="building", paid_until=None),
        ],
    }
    return {**pool, **more}


def a_waiting_pod(name: str = "train-llm-2", **more: Any) -> dict[str, Any]:
    """A waiting pod of a picture: its pool is held by the budget."""
    pod: dict[str, Any] = {
        "namespace": "research",
        "name": name,
        "owner": "Job/train-llm",
        "workload": f"research/{name}",
        "gang": None,
        "gpus": 1,
        "resources": {"nvidia.com/gpu": 1},
        "since": ago(minutes=4, seconds=4),
        "priority": 0,
        "state": "held",
        "detail": "GPU pool l40s does not grow: within_budget: budget hold at 80%: $4,010.00 of $5,000.00 spent",
        "pool": L40S,
        "rule": "within_budget",
        "decision": 42,
        "node": None,
        "nodes": None,
        "expected_at": None,
        "scheduler_says": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
        "fits": [
            {"pool": L40S, "name": "l40s", "why_not": None},
            {"pool": A100, "name": "a100", "why_not": "its node selector wants gpu=l40s, nodes carry gpu=a100"},
        ],
    }
    return {**pod, **more}


def a_misfit_pod() -> dict[str, Any]:
    """A waiting pod of a picture that no pool fits."""
    refused = [{"pool": L40S, "name": "l40s", "why_not": "it asks for 4 nvidia.com/mig-1g.10gb, a node offers 0"}]
    changes = {"state": "fits_nowhere", "detail": "no GPU pool can hold it", "pool": None, "rule": None}
    return a_waiting_pod("needs-mig", owner="", gpus=4, decision=None, fits=refused, **changes)


def a_team_budget(**changes: Any) -> dict[str, Any]:
    """The budget of a team of a picture: beyond its hold line, raised by somebody for this month."""
    given: dict[str, Any] = {
        "month": "2026-03",
        "monthly_usd": "100",
        "spent_usd": "80.50",
        "reserved_usd": "2.58",
        "ratio": 0.805,
        "stage": "hold",
        "warn_at": 0.5,
        "hold_at": 0.8,
        "stop_at": 1.0,
        "unpriced": [],
        "scope": "team",
        "name": "research",
        "title": "budget of team research",
        "unknown": "",
        "uncounted": [],
        "forecast_usd": "140.00",
        "burn_usd_per_hour": "0.20",
        "forecast_since": None,
        "set_by": {"who": "ada", "why": "a deadline", "at": ago(hours=3), "month": "2026-03"},
    }
    return {**given, **changes}


def a_right_to_remove(*lacking: str) -> dict[str, Any]:
    """What a picture has of the rights that a removal needs: all but *lacking*."""
    asked = never_asked(NOW - timedelta(minutes=9)).answered(lacking, NOW - timedelta(minutes=1))
    return RightsDocument.of_rights(asked, facts().at).document()


def a_concern(level: str = "warn", pool: str | None = L40S, **more: Any) -> dict[str, Any]:
    """What a step publishes of one concern."""
    given: dict[str, Any] = {
        "kind": "drift",
        "level": level,
        "pool": pool,
        "what": "has been changed",
        "since": None,
        "why": "",
        "doing": "",
        "todo": "",
        "guide": "",
        "page": "",
        "decision": None,
        "question": None,
    }
    return {**given, **more}


def an_observed(**more: Any) -> dict[str, Any]:
    """What act mode would have cost in three days."""
    found: dict[str, Any] = {
        "at": ago(minutes=20),
        "since": ago(days=3),
        "until": ago(minutes=20),
        "would_usd": "1035.00",
        "margin_usd": "31.05",
        "always_on_usd": "2100.00",
        "as_run_usd": "1260.10",
        "always_on": {"l40s": 6, "a100": 2},
        "bought": 12,
        "removed": 9,
        "pods": 312,
        "wait_p95_seconds": 300.0,
        "as_run_wait_p95_seconds": 7200.0,
        "changes": [
            {"at": ago(hours=1), "pool": "l40s", "from": 3, "to": 2, "work": ""},
            {"at": ago(hours=3), "pool": "l40s", "from": 1, "to": 3, "work": "ml/train-llm"},
        ],
        "changes_total": 21,
        "notes": ["4 pods never ran: counted as long as others run on average."],
    }
    return {**found, **more}


def a_picture(**more: Any) -> dict[str, Any]:
    """A full picture of a step."""
    failing = a_pool(
        name="a100",
        pool=A100,
        size="an.g1.a100.kube.x8",
        required=1,
        ready=0,
        building=0,
        busy=0,
        idle=0,
        unknown=1,
        pending_gpus=16,
        wanted=2,
        max_nodes=2,
        gpus_per_node=8,
        price_usd_per_hour=None,
        utilization=None,
        because="Its price is unknown, so it does not grow.",
        verdict="hold",
        decision=41,
        waits=[
            a_wait("grow", "backoff", ago(minutes=-7), "Civo is out of stock for this size", failures=3),
            a_wait("shrink", "backoff", ago(minutes=-12), "ml/web is protected", failures=1, nodes=["a100-0"]),
        ],
        silenced_by="silenced in Alertmanager by night shift until 2026-03-10 18:00 UTC: maintenance",
        open_action={
            "id": "retire-a100-0-77aa",
            "kind": "retire",
            "from": 2,
            "to": 1,
            "opened_at": ago(minutes=9),
            "victims": [{"node": "a100-1", "stage": "cordoned"}],
            "last_error": "TryLater: Civo answered 503",
        },
        nodes=[a_node("a100-0", stage="unknown", paid_until=None)],
    )
    picture: dict[str, Any] = {
        "at": ago(seconds=4),
        "mode": "act",
        "pools": [a_pool(), failing],
        "budget": {
            "month": "2026-03",
            "monthly_usd": "5000",
            "spent_usd": "3120.44",
            "reserved_usd": "412.80",
            "ratio": 0.624088,
            "stage": "warn",
            "warn_at": 0.5,
            "hold_at": 0.8,
            "stop_at": 1.0,
            "unpriced": ["an.g1.a100.kube.x8"],
            "scope": "cluster",
            "name": "",
            "title": "cluster budget",
            "unknown": "",
            "uncounted": [],
            "forecast_usd": "6100.50",
            "burn_usd_per_hour": "7.25",
            "forecast_since": "2026-11-01T00:00:00+00:00",
            "set_by": None,
        },
        "charges": {
            "month": "2026-03",
            "asked_at": ago(minutes=7),
            "answered_at": ago(minutes=7),
            "failure": "",
            "records": 14,
            "unreadable": [],
            "account_usd": "1301.22",
            "unpriced": [{"code": "dbaas-small", "hours": 12.0}],
            "sizes": [
                {
                    "size": "an.g1.l40s.kube.x1",
                    "ledger_hours": 120.0,
                    "charged_hours": 117.0,
                    "difference_hours": -3.0,
                    "lives": 9,
                    "records": 9,
                    "equal": 8,
                }
            ],
            "differences": [
                {
                    "size": "an.g1.l40s.kube.x1",
                    "name": "l40s-7",
                    "ledger_hours": 9.0,
                    "charged_hours": 6.0,
                    "cause": "seen_late",
                    "why": "its end was observed late: this process did not run when it was deleted",
                    "usd": "-3.87",
                }
            ],
            "differences_total": 1,
        },
        "rights": a_right_to_remove(),
        "sources": [
            {"source": "civo", "up": True, "at": ago(seconds=4), "detail": "", "configured": True},
            {"source": "kubernetes", "up": True, "at": ago(seconds=4), "detail": "", "configured": True},
            {"source": "prometheus", "up": True, "at": ago(seconds=4), "detail": "", "configured": True},
            {"source": "dcgm", "up": False, "at": ago(minutes=6), "detail": "no series for l40s", "configured": True},
            {"source": "alertmanager", "up": False, "at": None, "detail": "", "configured": False},
            {"source": "heartbeat", "up": True, "at": ago(seconds=50), "detail": "", "configured": True},
            {"source": "store", "up": True, "at": ago(seconds=4), "detail": "", "configured": True},
        ],
        "signals": [
            {
                "alertname": "GpuPoolPendingPods",
                "action": "scale_up",
                "pool": L40S,
                "starts_at": ago(minutes=4),
                "fingerprint": "ab12",
            },
            {
                "alertname": "GpuAutoscalerHeartbeat",
                "action": "heartbeat",
                "pool": None,
                "starts_at": ago(days=3),
                "fingerprint": "cd34",
            },
        ],
        "misfits": [
            {
                "workload": "research/needs-mig",
                "gpus": 4,
                "detail": "asks for nvidia.com/mig-1g.10gb, which no pool offers",
            }
        ],
        "waiting": [a_waiting_pod(), a_misfit_pod()],
        "waiting_total": 2,
    }
    picture["budgets"] = [picture["budget"], a_team_budget()]
    return {**picture, **more}


def a_payload(**labels: str) -> dict[str, Any]:
    """Return a payload as Alertmanager sends it, with one alert of the L40S pool that began four minutes ago."""
    said = {"alertname": "GpuPoolPendingPods", "pool": L40S, **labels}
    return payloads.a_payload(payloads.an_alert(began="2026-03-10T14:26:00Z", **said))


def a_decision(number: int = 42, **more: Any) -> StoredDecision:
    """A decision to grow that two rules spoke about."""
    values: dict[str, Any] = {
        "pool": L40S,
        "at": NOW - timedelta(minutes=3),
        "present": 3,
        "target": 4,
        "reasons": (
            Reason(rule="demand", verdict=Verdict.WANTS, target=6, detail="3 GPUs are waited for."),
            Reason(rule="within_maximum", verdict=Verdict.ALLOWS, target=6, detail="The maximum is 8 nodes."),
            Reason(rule="within_limits", verdict=Verdict.LIMITS, target=4, detail="1 of 3 fits the hourly limit."),
        ),
        "evidence": {"waiting": ["research/train-llm-2"], "utilization": 0.81, "spent_usd": Decimal("3120.44")},
        "reconsider_at": NOW + timedelta(minutes=57),
    }
    return StoredDecision(id=number, decision=Decision(**{**values, **more}))


def an_action(**more: Any) -> StoredAction:
    """A retirement that was confirmed."""
    values: dict[str, Any] = {
        "id": "retire-l40s-2-8f3a",
        "pool": L40S,
        "kind": ActionKind.RETIRE,
        "opened_at": NOW - timedelta(minutes=30),
        "from_count": 3,
        "to_count": 2,
        "victims": (Victim(instance="i-9", node="l40s-9", stage=VictimStage.GONE, since=NOW - timedelta(minutes=20)),),
        "decision": 42,
    }
    outcome = Outcome(kind=OutcomeKind.CONFIRMED, at=NOW - timedelta(minutes=20), detail="the instance is gone")
    outcome = more.pop("outcome", outcome)
    return StoredAction(action=Action(**{**values, **more}), outcome=outcome)


class Compiled(BytecodeCache):
    """Templates as code, by name and text: compiling them takes longer than most tests."""

    def __init__(self) -> None:
        self._kept: dict[str, CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._kept.get(bucket.key)

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._kept[bucket.key] = bucket.code


COMPILED = Compiled()


@dataclass
class Bench:
    """An app over a store in memory, and everything a test may turn or read.

    *log* has the calls of the store that the app made, and ``wake``. While *error* is set, every call raises it."""

    store: Store = field(default_factory=a_store_with)
    log: list[str] = field(default_factory=list)
    error: Exception | None = None
    clock: FixedClock = field(default_factory=lambda: FixedClock(NOW))
    health: FakeHealth = field(default_factory=FakeHealth)
    instruments: FakeInstruments = field(default_factory=FakeInstruments)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    tokens: tuple[str, ...] = (TOKEN,)
    operator_token: str | None = OPERATOR
    reader_token: str | None = None
    reading: ReadAccess = ReadAccess.OPEN
    public_url: str | None = None
    hosts: tuple[str, ...] = ()
    user_header: str = ""
    trusted_proxies: tuple[Network, ...] = ()
    policy: Policy = field(default_factory=a_policy)
    mode: str = "act"
    max_body_bytes: int = 100_000
    wake: Callable[[], None] | None = None
    docs_url: str | None = None
    messages_to: tuple[str, ...] = ()
    watch: str = "off"
    cluster_name: str = ""
    last_step: LastStep | None = None

    def parts(self) -> WebParts:
        """Return what create_app takes."""
        return WebParts(
            tokens=self.valid,
            store=cast("WebStore", LoggedStore(lambda: self.store, self.log, lambda: self.error)),
            wake=self.wake or (lambda: self.log.append("wake")),
            clock=self.clock,
            settings=self.settings(),
            heartbeat=lambda: self.health,
            registry=self.registry,
            instruments=self.instruments,
            version="0.1.0",
            region="LON1",
            cluster_id="69a23478-a89e-41d2-97b1-6f4c341cee70",
            messages_to=self.messages_to,
            watch=lambda: self.watch,
            last_step=lambda: self.last_step,
            other_settings=self.other,
            added=[capability.web for capability in registry.installed()],
        )

    def settings(self) -> FileSettings:
        """The configuration in force."""
        return settings_of(
            self.policy,
            self.mode,
            web={
                "reading": self.reading,
                "hosts": self.hosts,
                "user_header": self.user_header,
                "trusted_proxies": self.trusted_proxies,
            },
            webhook=Webhook(max_bytes=self.max_body_bytes),
            cluster_name=self.cluster_name,
            public_url=self.public_url,
            docs_url=self.docs_url,
        )

    def other(self, text: str, changes: bool) -> FileSettings:
        """Another configuration, as the server reads it beside the one in force."""
        assert self.last_step is not None
        live = LiveConfiguration(Path("/etc/gpu-autoscaler.yaml"), self.last_step.settings, self.clock.now)
        return live.other(text, changes=changes)

    def valid(self) -> Tokens:
        """The tokens as they are now: a test may change them."""
        return Tokens(webhook=self.tokens, operator=self.operator_token, reader=self.reader_token)

    def client(self) -> FlaskClient:
        """Return a client of a fresh app; its templates are compiled once for all of them."""
        app = create_app(self.parts())
        app.jinja_env.bytecode_cache = COMPILED
        return app.test_client()


def showing(**more: Any) -> MemoryStore:
    """A store whose picture is of NOW and differs from the full one in *more*."""
    return a_store_with(picture=(a_picture(**more), NOW))


def a_full_store(**more: Any) -> MemoryStore:
    """A store with a picture, two decisions and an action; *more* replaces some of it (`a_store_with`)."""
    hold = a_decision(
        41,
        pool=A100,
        present=1,
        target=1,
        reasons=(Reason(rule="price_is_known", verdict=Verdict.HOLDS, target=1, detail="Its price is unknown."),),
        reconsider_at=None,
    )
    full: dict[str, Any] = {
        "picture": (a_picture(), NOW - timedelta(seconds=4)),
        "decisions": [hold, a_decision()],
        "grounds": {42: Grounds(facts=facts(), policy=a_policy())},
        "actions": [an_action()],
        "lives": [a_life()],
        "usage": [a_usage()],
        "workloads": [a_workload()],
    }
    return a_store_with(**{**full, **more})


def a_question(*nodes: str, **changes: Any) -> Question:
    """An open one, asked five minutes ago: whether *nodes* of the l40s pool may go (none: whether it may grow to 8)."""
    given: dict[str, Any] = {
        "pool": L40S,
        "from_count": 2,
        "to_count": 2 - len(nodes) if nodes else 8,
        "asked_at": NOW - timedelta(minutes=5),
        "due_at": NOW + timedelta(minutes=10),
        "wait_ends": NOW + timedelta(minutes=10),
        "expires_at": NOW + timedelta(minutes=15),
        "usd_per_hour": Decimal("1.29") * (len(nodes) or 6),
    }
    return core.a_question(*(f"i-{node}" for node in nodes), **{**given, **changes})


def a_life(instance: str = "i-n1", **changes: Any) -> NodeLife:
    """A node of the l40s pool that lived from ten hours ago until now."""
    said = {"pool": L40S, "created_at": NOW - timedelta(hours=10), "gone_at": NOW}
    return core.a_life(instance, **{**said, **changes})


def a_usage(name: str = "train", hours: float = 4, **changes: Any) -> Usage:
    """What a job of team vision held of that node; half of it was measured and a quarter idle."""
    held = hours * 3600
    said: dict[str, Any] = {"month": "2026-03", "instance": "i-n1", "owner": Owner(team="vision"), "namespace": "ml"}
    told = {"held": held, "measured": held / 2, "idle": held / 4, "busy": held / 5, "memory": held / 4}
    return Usage(**{"workload": f"ml/Job/{name}", **said, **told, **changes})


def a_workload(name: str = "train", **changes: Any) -> WorkloadLife:
    """That job as it runs."""
    said: dict[str, Any] = {"namespace": "ml", "created_at": NOW - timedelta(hours=9), "owner": Owner(team="vision")}
    return WorkloadLife(**{"workload": f"ml/Job/{name}", **said, **changes})
