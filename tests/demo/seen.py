"""What the parts of a stack answer, small enough for a test."""

from datetime import UTC, datetime, timedelta
from typing import Any

from demo.timeline import Seen

BEGAN = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
POOL = "5f3c-a1"
NODE = "k3s-demo-52e6-f2a74d-node-pool-269e-81e74"


def at(seconds: float) -> datetime:
    """Return the moment *seconds* after the beginning."""
    return BEGAN + timedelta(seconds=seconds)


def text(seconds: float) -> str:
    """Return that moment as the parts write it."""
    return at(seconds).isoformat().replace("+00:00", "Z")


def state(now: float = 0, **given: Any) -> dict[str, Any]:
    """Return the simulator's summary at *now*."""
    empty: dict[str, Any] = {
        "now": text(now),
        "pods": [],
        "pools": [],
        "finished": [],
        "kills": [],
        "charges": [],
        "paid": {"usd": "0"},
    }
    return {**empty, **given}


def seen(now: float = 0, **given: Any) -> Seen:
    """Return one round of questions; fields of Seen, all else goes into the state."""
    parts = {k: given.pop(k) for k in ("calls", "alerts", "decisions", "actions", "log") if k in given}
    return Seen(state=state(now, **given), **parts)


def instance(**given: Any) -> dict[str, Any]:
    """Return an instance that was asked for at second 0 and is usable at second 8."""
    return {"id": "i-1", "hostname": NODE, "created_at": text(0), "usable_at": text(8), **given}


def pool(required: int = 1, instances: int = 1) -> dict[str, Any]:
    """Return the pool as Civo shows it."""
    return {"id": POOL, "required": required, "instances": [instance(id=f"i-{n}") for n in range(1, instances + 1)]}


def delivery(number: int, seconds: float, alertname: str = "GpuPodsPending") -> dict[str, Any]:
    """Return the log line of a delivery."""
    group = f'{{}}/{{component="gpu-autoscaler"}}:{{alertname="{alertname}", pool="{POOL}"}}'
    return {"event": "delivery", "delivery": number, "timestamp": text(seconds), "group": group}


def notice(title: str, severity: str = "success", seconds: float = 2) -> dict[str, Any]:
    """Return the log line of a notice."""
    return {"event": "notice", "timestamp": text(seconds), "title": title, "body": f"Of {NODE}.", "severity": severity}


def reason(rule: str, verdict: str, detail: str = "") -> dict[str, Any]:
    """Return one reason of a decision."""
    return {"rule": rule, "verdict": verdict, "target": 1, "detail": detail}


def decision(
    number: int, frm: int, to: int, *reasons: dict[str, Any], woken_by: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Return a decision as the API shows it, made at second 1."""
    return {
        "id": number,
        "at": text(1),
        "pool": POOL,
        "pool_name": "l40s",
        "from": frm,
        "to": to,
        "reasons": list(reasons) or [reason("demand", "wants", "1 GPU waits")],
        "evidence": {"woken_by": list(woken_by)},
    }


def put(seconds: float, count: int = 1, status: int | None = 200, seq: int = 1) -> dict[str, Any]:
    """Return the call that resizes the pool."""
    return {
        "seq": seq,
        "at": text(seconds),
        "face": "civo",
        "method": "PUT",
        "path": f"/v2/kubernetes/clusters/c/pools/{POOL}",
        "status": status,
        "body": {"count": count},
    }


def grown(seconds: float, number: int) -> dict[str, Any]:
    """Return a growth as the API shows it."""
    return {"pool": POOL, "kind": "grow", "opened_at": text(seconds), "decision": number, "outcome": {}}
