"""What a step saw, small enough to be kept for a week: the counts of each pool, and what each node was doing."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from receiver.core.model.model import Facts, Node, Source, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSample:
    """A pool's counts at *at*, a whole minute; None is not known. *utilization* is a ratio 0-1."""

    pool: str
    at: datetime
    required: int | None
    ready: int | None
    building: int | None
    busy: int | None
    idle: int | None
    unknown: int | None
    pending_gpus: int | None
    utilization: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMinutes:
    """Sums of a pool's samples: the minutes in which busy nodes were *known*, and node-minutes *busy* and *idle*."""

    known: int = 0
    busy: int = 0
    idle: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldHours:
    """The *gpu_hours* that workloads held in some time, as far as it is *known* (a ratio: what was accounted for)."""

    gpu_hours: float = 0.0
    known: float = 0.0


class Doing(StrEnum):
    """What a node does: how far it has come, and once it is usable whether GPU pods hold it."""

    BUILDING = "building"
    BOOTING = "booting"
    INSTALLING = "installing"
    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"
    BROKEN = "broken"
    DELETING = "deleting"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTurn:
    """From *at* on the node *instance* of *pool* was *doing* this, until its next turn."""

    instance: str
    pool: str
    at: datetime
    doing: Doing


def turns(facts: Facts) -> tuple[NodeTurn, ...] | None:
    """Return what each node does, dated to the minute; None while Civo cannot be asked which nodes there are."""
    if not facts.up(Source.CIVO):
        return None
    return tuple(
        NodeTurn(instance=node.instance, pool=state.pool, at=minute_of(facts.at), doing=doing(node))
        for state in facts.pools
        for node in state.nodes
    )


def doing(node: Node) -> Doing:
    """What *node* does. GPUs in use although no pod holds them make it neither busy nor idle."""
    if node.stage is not Stage.USABLE:
        return Doing(node.stage.value)
    if node.busy:
        return Doing.BUSY
    return Doing.IDLE if node.times.unknown_since is None else Doing.UNKNOWN


def minute_of(at: datetime) -> datetime:
    """Return the beginning of the minute of *at*."""
    return at.replace(second=0, microsecond=0)
