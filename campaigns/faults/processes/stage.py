"""What a schedule plays on: the simulator, the faces of Prometheus and Alertmanager, and an installed receiver."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaigns.faults.processes.clocks import MovedClock
from campaigns.faults.processes.faces import Faces
from campaigns.faults.processes.schedule import PoolPlan, Schedule
from campaigns.faults.processes.witness import PROVISION, Witness
from demo.configs import JSON, merged
from simulator.server import Simulator
from tests.adapters.store.builders import PostgresProcess, postgres_process, postgres_programs
from tests.e2e.receivers import Receiver

MISLAID = "watched_since"  # the column of the store's pools that may be renamed for a while
INSIDE = Path(__file__).parent / "inside"
TIMINGS = {
    "build": "700ms",
    "boot": "200ms",
    "driver": "400ms",
    "image_pull": "0s",
    "warmup": "0s",
    "delete": "300ms",
    "node_lingers": "200ms",
    "terminate": "100ms",
    "quota_lag": "1s",
    "fill_retry": "2s",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that is there while a schedule plays; *folder* holds the receiver's files."""

    schedule: Schedule
    folder: Path
    clock: MovedClock
    cloud: Simulator
    faces: Faces
    receiver: Receiver
    witness: Witness
    postgres: PostgresProcess | None = None


@contextmanager
def staged(
    schedule: Schedule, folder: Path, cloud_changes: JSON | None = None, config_changes: JSON | None = None
) -> Iterator[Stage]:
    """Yield a stage with a receiver that was not started; everything ends with it. The changes are laid over the
    simulator's and the receiver's configuration, those of its pools one by one."""
    clock = MovedClock(folder)
    given = merged(_cloud(schedule), cloud_changes or {})
    with Simulator(given, clock) as cloud, Faces(cloud) as faces, _database(schedule) as postgres:
        server = cloud._server
        assert server is not None
        witness = Witness(schedule, cloud, server.app)
        server.app = witness
        where = {
            "CIVO_API_URL": cloud.url,
            "CIVO_CLUSTER_ID": cloud.config.cluster.id,
            "KUBECONFIG": str(cloud.kubeconfig(folder / "kubeconfig")),
            "PYTHONPATH": str(INSIDE),
            "FAULTS_INSIDE": str(folder),
        }
        if postgres is not None:
            where["GPU_AUTOSCALER_DATABASE_URL"] = postgres.url
        config, changes = _config(schedule, faces), dict(config_changes or {})
        pools = [merged(*pair) for pair in zip(config["pools"], changes.pop("pools", config["pools"]), strict=True)]
        receiver = Receiver(folder, {**merged(config, changes), "pools": pools}, where, folder / "ledger.db")
        try:
            yield Stage(schedule, folder, clock, cloud, faces, receiver, witness, postgres)
        finally:
            receiver.end()


@contextmanager
def _database(schedule: Schedule) -> Iterator[PostgresProcess | None]:
    """Yield a PostgreSQL that runs, where the schedule asks for one."""
    if not schedule.postgres:
        yield None
        return
    programs = postgres_programs()
    if programs is None:
        raise RuntimeError("PostgreSQL's initdb is not installed")
    with postgres_process(programs) as postgres:
        postgres.start()
        yield postgres


def _cloud(schedule: Schedule) -> dict[str, Any]:
    return {
        "pools": [
            {
                "id": p.id,
                "size": size_of(p),
                "resources": {"nvidia.com/gpu": p.gpus},
                "labels": {"tier": p.name},
                "count": p.count,
            }
            for p in schedule.pools
        ],
        "price": {size_of(p): str(p.usd) for p in schedule.pools},
        "timings": TIMINGS,
        "behaviour": {"granularity": f"{schedule.granularity}s"},
        "seed": schedule.seed,
    }


def size_of(plan: PoolPlan) -> str:
    """The size of its nodes at Civo."""
    return f"an.g1.{plan.name}"


def _config(schedule: Schedule, faces: Faces) -> dict[str, Any]:
    config: dict[str, Any] = {
        "mode": schedule.mode,
        "tick": "1s",
        "heartbeat_interval": "10m",
        "fallback": schedule.fallback,
        "prometheus": {"url": faces.url},
        "kubernetes": {"watch": schedule.watch},
        "billing": {
            "granularity": f"{schedule.granularity}s",
            "removal_margin": "30s" if schedule.granularity > 30 else "0s",
        },
        "pools": [
            {
                "name": p.name,
                "civo_pool_id": p.id,
                "size": size_of(p),
                "resources": {"nvidia.com/gpu": p.gpus},
                "labels": {"tier": p.name},
                "max_nodes": p.max_nodes,
                "min_nodes": p.min_nodes,
                "price_usd_per_hour": p.usd,
                "cooldown": {"grow": "0s", "shrink": "0s"},
                "idle_for": "5s",
                "provision_timeout": f"{PROVISION.seconds}s",
            }
            for p in schedule.pools
        ],
    }
    if schedule.postgres:  # who comes after a kill waits for the lease of who was killed
        config["leader"] = {"lease": "5s", "call_timeout": "1500ms"}
    if schedule.alertmanager:
        config["alertmanager"] = {"urls": [faces.url]}
    if schedule.max_gpus is not None:
        config["limits"] = {"max_gpus": schedule.max_gpus}
    if schedule.budget_usd is not None:
        config["budget"] = {"monthly_usd": schedule.budget_usd}
    return config
