"""A configuration that loads, and areas that do as they are told."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml

from receiver.config import load
from receiver.doctor.checks import Area, Check, Finding, Installation
from tests.cli.asked import serving
from tests.web.builders import Bench

KEY = "SECRET-civo-api-key"
WEBHOOK = "SECRET-webhook-token-0123456789"
OPERATOR = "SECRET-operator-token-0123456789"
GPU_POOL = "pool-gpu"
CLUSTER = "c1a55e5e-0000-4000-8000-000000000001"
PAIN = Check("tried.pain", "whether it hurts", "rest")


def pool(**changes: Any) -> dict[str, Any]:
    """Return the pool of `tests.simulator.builders` as the configuration says it."""
    return {
        "name": "l40s",
        "civo_pool_id": GPU_POOL,
        "size": "an.g1.l40s.kube.x1",
        "resources": {"nvidia.com/gpu": 1},
        "labels": {"gpu": "on-demand"},
        "taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}],
        "max_nodes": 4,
        **changes,
    }


def document(**changes: Any) -> dict[str, Any]:
    """Return a configuration with nothing odd about it."""
    return {
        "mode": "act",
        "prometheus": {"url": "http://127.0.0.1:1"},
        "alertmanager": {"urls": ["http://127.0.0.1:1"]},
        "budget": {"monthly_usd": 5000, "hold": {"namespaces": ["ml"]}},
        "docs_url": "https://git.acme.net/gpu/docs",
        "public_url": "https://gpu.acme.net",
        "pools": [pool()],
        **changes,
    }


def environ(directory: Path, said: dict[str, Any] | None = None, **more: str) -> dict[str, str]:
    """Write *said*, or else `document`, below *directory* and return an environment that names it."""
    file = directory / "config.yaml"
    file.write_text(yaml.safe_dump(document() if said is None else said), encoding="utf-8")
    return {
        "CIVO_API_KEY": KEY,
        "CIVO_REGION": "LON1",
        "CIVO_CLUSTER_ID": CLUSTER,
        "CIVO_API_URL": "http://127.0.0.1:1",
        "GPU_AUTOSCALER_CONFIG": str(file),
        "GPU_AUTOSCALER_WEBHOOK_TOKEN": WEBHOOK,
        "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR,
        "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{directory}/ledger.db",
        **more,
    }


def installation(directory: Path, said: dict[str, Any] | None = None, **more: str) -> Installation:
    """Return what areas are told of `environ`."""
    env = environ(directory, said, **more)
    return Installation(settings=load(env), environ=env)


def area(look: Callable[[Installation], Iterable[Finding]], name: str = "tried", timeout: float = 10) -> Area:
    """Return an area that looks by *look*."""
    return Area(name=name, source="the test", checks=(PAIN,), look=look, remedy="look again", timeout=timeout)


def listening(bench: Bench) -> AbstractContextManager[str]:
    """Serve *bench* until the end."""
    return serving(bench.parts())
