"""A whole process over a store of its own: what is outside it, and its application."""

from pathlib import Path
from typing import Any

from receiver.adapters.clock import SystemClock
from receiver.config import load
from receiver.server.bootstrap import Connections, create_app
from tests.config.builders import ENVIRONMENT, QUIET, one_pool


def outside_of(folder: Path, *lines: str, top: str = QUIET, database: str = "") -> Connections:
    """Everything outside the process, nothing of which is asked; the *database* is SQLite by default."""
    file = folder / "config.yaml"
    file.write_text("\n".join(("kubernetes: {enabled: false}", *lines, one_pool(top=top))))
    environ = {
        **ENVIRONMENT,
        "CIVO_API_URL": "http://127.0.0.1:9",
        "GPU_AUTOSCALER_CONFIG": str(file),
        "GPU_AUTOSCALER_DATABASE_URL": database or f"sqlite:///{folder}/ledger.db",
    }
    return Connections(load(environ), environ, SystemClock())


def an_app(tmp_path: Any) -> Any:
    """The whole application over a store of its own; Civo does not answer."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "mode: observe\nkubernetes: {enabled: false}\npools:\n  - {name: l40s, civo_pool_id: l40s-id, "
        "size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 8}\n"
    )
    return create_app(
        {
            "CIVO_API_KEY": "key",
            "CIVO_API_URL": "http://127.0.0.1:9",
            "CIVO_REGION": "lon1",
            "CIVO_CLUSTER_ID": "cluster",
            "GPU_AUTOSCALER_CONFIG": str(config),
            "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{tmp_path}/store.db",
            "GPU_AUTOSCALER_WEBHOOK_TOKEN": "a-token-that-is-long-enough-1234567890",
            "GPU_AUTOSCALER_OPERATOR_TOKEN": "b-token-that-is-long-enough-1234567890",
        }
    )
