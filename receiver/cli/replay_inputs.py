"""What `gpu-autoscaler replay` is given, understood: traces, policies and circumstances, or all that is wrong."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from receiver.cli.imports import Progress, Remembered, trace_from_file, trace_from_prometheus
from receiver.config import ConfigError, FileSettings, load_file, load_text
from receiver.config.mistakes import did_you_mean
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Attribution, Pool
from receiver.ports import TryLater, WontWork
from receiver.replay.bounds import BOUNDS
from receiver.replay.contest import Contestant, Reckoned, a_peer, the_product
from receiver.replay.misfits import misfits
from receiver.replay.peers import PEERS, PeerPolicy
from receiver.replay.setting import Setting
from receiver.replay.traces import BadTrace, Reading, Trace, told

OURS = "gpu-autoscaler"
USD_PER_GPU_HOUR = Decimal("1.29")  # an L40S at Civo, for nodes of any size

WITHOUT_CONFIG = """\
pools:
  - name: gpu
    civo_pool_id: replay
    size: an.g1.l40s.kube.x{gpus}
    resources: {{nvidia.com/gpu: {gpus}}}
    max_nodes: {nodes}
    price_usd_per_hour: {price}
"""

Making = Callable[[Setting], Contestant | Reckoned]


class BadInput(Exception):
    """What cannot be replayed; *lines* say what is wrong and what helps, each by itself."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command line. What of *setting* was *typed* goes before the configuration."""

    config: Path | None = None
    compare: Sequence[str] = ()
    gpus_per_node: int = 8
    max_gpus: int = 320
    setting: Setting = field(default_factory=Setting)
    reading: Reading = field(default_factory=Reading)
    remembered: Remembered | None = None
    typed: frozenset[str] = frozenset()
    split_pods: bool = False
    skip_misfits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineup:
    """The policies that run, the first one ours: *pools* by policy, *making* makes each for a trace's setting.

    *against* is the one that the others are compared with.
    """

    setting: Setting
    pools: Sequence[Pool]
    shapes: Sequence[tuple[str, Sequence[Pool]]]
    making: Sequence[Making]
    against: str | None
    attribution: Attribution


def lineup(asked: Asked, peers: Mapping[str, PeerPolicy] = PEERS) -> Lineup:
    """Return who runs; *peers* are those that can be named. Raises BadInput."""
    settings = [(OURS, _first(asked))]
    first = settings[0][1]
    setting = _setting(asked, first)
    making = [_ours(OURS, first, setting)]
    for number, word in enumerate(asked.compare):
        if word in asked.compare[:number] or word == OURS:
            raise BadInput([f"--compare {word} is there already: name each policy once"])
        if word in peers:
            making.append(_peer(word, peers[word], first.policy.pools))
        elif word in BOUNDS:
            making.append(_bound(word, first.policy.pools))
        else:
            settings.append((word, _loaded(_file(word, [*peers, *BOUNDS]))))
            making.append(_ours(*settings[-1], setting))
    return Lineup(
        setting=setting,
        pools=first.policy.pools,
        shapes=[(name, found.policy.pools) for name, found in settings],
        making=making,
        attribution=first.policy.attribution,
        against=next((word for word in asked.compare if word in peers), next(iter(asked.compare), None)),
    )


def read(path: Path, asked: Asked, those: Lineup) -> Trace:
    """Return the trace in a file. Raises BadInput with everything that is wrong with it."""
    try:
        return trace_from_file(path, _reading(asked, those))
    except OSError as error:
        raise BadInput([f"{path}: {error.strerror or error}"]) from error
    except BadTrace as error:
        raise BadInput(f"{path}: {line}" for line in told(error.troubles, error.more)) from error


def recall(remembered: Remembered, asked: Asked, those: Lineup, progress: Progress) -> Trace:
    """Return what a Prometheus remembers as a trace. Raises BadInput, as `read` does."""
    try:
        return trace_from_prometheus(remembered, _reading(asked, those), progress)
    except (TryLater, WontWork) as error:
        raise BadInput([str(error)]) from error
    except BadTrace as error:
        raise BadInput(told(error.troubles, error.more)) from error


def _reading(asked: Asked, those: Lineup) -> Reading:
    """Jobs of a trace that knows no taints tolerate those of all pools, and no others: a cordon is a taint too."""
    keys = {taint.key for _, pools in those.shapes for pool in pools for taint in pool.taints}
    return replace(
        asked.reading,
        start=those.setting.start,
        team_label=those.attribution.team,
        tolerations=tuple(Toleration(key=key, operator="Exists") for key in sorted(keys)),
    )


def fitting(trace: Trace, asked: Asked, those: Lineup) -> Trace:
    """Return *trace* with the jobs that every policy of *those* has a pool for. Raises BadInput with the others."""
    jobs = trace.jobs
    if asked.split_pods:
        jobs = [replace(job, pods=job.gpus, gpus_per_pod=1, gang=job.gpus > 1, gang_min=None) for job in jobs]
    wrong = {name: trouble for _, pools in those.shapes for name, trouble in misfits(jobs, pools).items()}
    kept = [job for job in jobs if job.id not in wrong]
    if wrong and not asked.skip_misfits:
        raise BadInput(f"{trace.source}: {line}" for line in told(list(wrong.values())))
    if not kept:
        raise BadInput([f"{trace.source}: no job is left that fits: give larger pools"])
    return replace(trace, jobs=kept, left_out=[*trace.left_out, *wrong.values()])


def _setting(asked: Asked, first: FileSettings) -> Setting:
    said, typed = first.configuration, asked.typed
    configured: dict[str, Any] = {}
    if "billing" not in typed:
        configured["billing"] = "hour" if first.policy.billing.by_the_hour else "second"
    if "tick" not in typed:
        configured["tick"] = said.tick
    if "watch" not in typed and not (said.kubernetes.enabled and said.kubernetes.watch):
        configured["watch"] = None
    return replace(asked.setting, **configured)


def _first(asked: Asked) -> FileSettings:
    if asked.config is not None:
        return _loaded(asked.config)
    nodes = asked.max_gpus // asked.gpus_per_node
    if not nodes:
        raise BadInput(
            [f"--max-gpus {asked.max_gpus} is less than one node has: --gpus-per-node {asked.gpus_per_node}"]
        )
    price = asked.gpus_per_node * USD_PER_GPU_HOUR
    return load_text(WITHOUT_CONFIG.format(gpus=asked.gpus_per_node, nodes=nodes, price=price))


def _loaded(path: Path) -> FileSettings:
    """The same loader as the server's; the environment, where secrets are, is not asked."""
    try:
        found = load_file(path)
    except ConfigError as error:
        raise BadInput(f"{path}: {mistake}" for mistake in error.mistakes) from error
    unpriced = [pool.name for pool in found.policy.pools if pool.price_usd_per_hour is None]
    if unpriced:
        remedy = "give it price_usd_per_hour, or name its size in a prices_file"
        raise BadInput(f"{path}: pool {name} has no price, so it could not grow: {remedy}" for name in unpriced)
    return found


def _file(word: str, known: Sequence[str]) -> Path:
    path = Path(word)
    if not path.exists():
        meant = did_you_mean(word, known) or f"name a file, or one of {', '.join(known)}"
        raise BadInput([f"--compare {word}: neither a file nor a known policy: {meant}"])
    return path


def _ours(name: str, settings: FileSettings, setting: Setting) -> Making:
    def make(under: Setting) -> Contestant:
        return the_product(name, settings.policy, under)

    try:
        probe = make(setting)
        probe.make(setting.world(probe.pools), {}, ())  # what cannot be replayed is refused before anything runs
    except ValueError as error:
        raise BadInput([f"{name}: {error}"]) from error
    return make


def _peer(name: str, peer: PeerPolicy, pools: Sequence[Pool]) -> Making:
    return lambda setting: a_peer(name, peer, pools, setting)


def _bound(name: str, pools: Sequence[Pool]) -> Making:
    return lambda _setting: Reckoned(name=name, pools=tuple(pools), bound=BOUNDS[name])
