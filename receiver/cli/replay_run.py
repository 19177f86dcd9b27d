"""A replay from its command line to its output: traces and policies, or every error in them; then table, JSON and
page."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import click
import structlog

from receiver import installed_version
from receiver.capabilities.registry import step_additions
from receiver.config import ConfigError, FileSettings, civo_access, load_file, load_text
from receiver.config.values import did_you_mean, spell_duration
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Anchor, Attribution, Billing, Objective, Pool, Rounding
from receiver.core.model.pool_facts import PoolFacts
from receiver.ports import Past, TryLater, WontWork
from receiver.replay.contest import Contestant, Progress, Reckoned, a_peer, contest, the_product
from receiver.replay.document import Replayed, as_means, as_table, conclusion, document, page_document, several
from receiver.replay.figures import BOUNDS
from receiver.replay.peers import PEERS, PeerPolicy
from receiver.replay.play import Setting
from receiver.replay.traces import read_trace
from receiver.replay.traces.pods import trace_of_pods
from receiver.replay.traces.trace import BadTrace, Trace, TraceReading, error_lines, misfits
from receiver.terminal.client import print_json, print_lines

FINE = 0
WRONG = 1  # something does not add up, or a policy of ours took the node from a pod
OURS = "gpu-autoscaler"
OBJECTIVES = "objectives"  # the name of the first policy under every other objective
CALL_TIMEOUTS = (5, 15)  # seconds to connect to Civo and to read
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A query of the GPU pods in the Prometheus at *url* between *since* and *until*; *step* is its scrape interval,
    *timeout* is for one query."""

    url: str
    since: datetime
    until: datetime
    step: timedelta
    timeout: timedelta


def trace_from_file(path: Path, reading: TraceReading) -> Trace:
    """Return the trace at *path*. Raises BadTrace with every malformed line or object; OSError."""
    return read_trace(path, reading, _export)


def _export(path: Path, made_at: datetime | None) -> Past:
    from receiver.adapters.kubernetes.export import read_export  # imports a client that takes a second to load

    return read_export(path, made_at)


def trace_from_prometheus(
    query: Remembered, reading: TraceReading, progress: Callable[[int, int], None] | None = None
) -> Trace:
    """Return the history of a Prometheus as a trace; *progress* is given how many pages are read, of how many.

    Raises BadTrace, TryLater, WontWork.
    """
    from receiver.adapters.monitoring.history import PrometheusHistory  # imports clients that nothing else here needs

    history = PrometheusHistory(query.url, query.timeout.total_seconds(), reading.team_label)
    try:
        past = history.past(query.since, query.until, query.step, progress)
        return trace_of_pods(past, history.shown, "prometheus", reading)
    finally:
        history.close()


class BadInput(Exception):
    """Input that cannot be replayed; each of *lines* names an error and its fix."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """The command line. Fields of *setting* that were *typed* go before the configuration."""

    config: Path | None = None
    compare: Sequence[str] = ()
    gpus_per_node: int = 8
    max_gpus: int = 320
    setting: Setting = field(default_factory=Setting)
    reading: TraceReading = field(default_factory=TraceReading)
    remembered: Remembered | None = None
    typed: frozenset[str] = frozenset()
    split_pods: bool = False
    skip_misfits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineup:
    """The policies of a replay, ours first; *against* names the one that the others are compared with. *notes* say what
    of the configurations is not replayed."""

    setting: Setting
    contestants: Sequence[Contestant | Reckoned]
    against: str | None
    attribution: Attribution
    objectives: Mapping[str, str]  # of our policies that differ in nothing else, by name
    notes: Sequence[str] = ()

    @property
    def pools(self) -> Sequence[Pool]:
        """The pools of the first policy."""
        return self.contestants[0].pools

    @property
    def shapes(self) -> list[Sequence[Pool]]:
        """The pools of each configuration."""
        return [c.pools for c in self.contestants if isinstance(c, Contestant) and c.kind == "policy"]


def lineup(request: ReplayRequest, peers: Mapping[str, PeerPolicy] = PEERS) -> Lineup:
    """Return the policies to replay; *peers* are those that can be named. Raises BadInput."""
    first = _first(request)
    configuration, pools = first.configuration, first.policy.pools
    billing = first.policy.billing
    by_unit = billing.by_the_hour and "billing" not in request.typed
    configured: dict[str, Any] = {
        "billing": "hour" if billing.by_the_hour else "second",
        **({"granularity": billing.granularity} if by_unit else {}),
        "tick": configuration.tick,
        **({} if configuration.kubernetes.enabled and configuration.kubernetes.watch else {"watch": None}),
    }
    setting = replace(
        request.setting, **{name: value for name, value in configured.items() if name not in request.typed}
    )
    contestants: list[Contestant | Reckoned] = [_ours(OURS, first, setting)]
    objectives: dict[str, str] = {}
    notes = [*_not_replayed(str(request.config or OURS), first.policy.billing, setting)]
    for number, word in enumerate(request.compare):
        if word in request.compare[:number] or word == OURS:
            raise BadInput([f"--compare {word}: is given twice; name each policy once"])
        if word == OBJECTIVES:
            objectives = {OURS: first.policy.objective}
            for objective in (each for each in Objective if each is not first.policy.objective):
                name = f"objective-{objective}"
                objectives[name] = objective
                other = replace(first, policy=replace(first.policy, objective=objective))
                contestants.append(_ours(name, other, setting))
        elif word in peers:
            contestants.append(a_peer(word, peers[word], pools))
        elif word in BOUNDS:
            contestants.append(Reckoned(name=word, pools=pools, bound=BOUNDS[word]))
        elif Path(word).exists():
            settings = _loaded(Path(word))
            contestants.append(_ours(word, settings, setting))
            notes += _not_replayed(word, settings.policy.billing, setting)
        else:
            names = [OBJECTIVES, *peers, *BOUNDS]
            meant = did_you_mean(word, names) or f"name a file, or one of {', '.join(names)}"
            raise BadInput([f"--compare {word}: neither a file nor a known policy: {meant}"])
    return Lineup(
        setting=setting,
        contestants=contestants,
        attribution=first.policy.attribution,
        notes=notes,
        objectives=objectives,
        against=next(
            (word for word in request.compare if word in peers), next((x.name for x in contestants[1:]), None)
        ),
    )


def _not_replayed(name: str, billing: Billing, setting: Setting) -> Iterator[str]:
    """Yield what of the *billing* of the configuration *name* the replay does not follow."""
    if billing.granularity != setting.unit:
        yield (
            f"{name}: billing.granularity {spell_duration(billing.granularity)} is replayed as "
            f"{spell_duration(setting.unit)}"
        )
    if billing.anchor is not Anchor.INSTANCE:
        yield f"{name}: billing.anchor {billing.anchor} is replayed as {Anchor.INSTANCE}"
    if billing.rounding is not Rounding.CEIL:
        yield f"{name}: billing.rounding {billing.rounding} is replayed as {Rounding.CEIL}"


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    """Turn what reading a trace from *source* raises into BadInput."""
    try:
        yield
    except BadTrace as error:
        lines = error_lines(error.troubles, error.more)
        raise BadInput(f"{source}: {line}" if source else line for line in lines) from error
    except (TryLater, WontWork) as error:
        raise BadInput([str(error)]) from error
    except OSError as error:
        raise BadInput([f"{source}: {error.strerror or error}"]) from error


def read(path: Path, request: ReplayRequest, policies: Lineup) -> Trace:
    """Return the trace in a file. Raises BadInput with every error in it."""
    with _refusing(str(path)):
        return trace_from_file(path, _reading(request, policies))


def _recalled(remembered: Remembered, request: ReplayRequest, policies: Lineup, *, visible: bool) -> Trace:
    """Read a Prometheus page by page, with a progress bar."""
    with click.progressbar(length=1, label="reading history", file=sys.stderr, hidden=not visible) as bar:

        def report(pages_read: int, of: int) -> None:
            bar.length = of
            bar.update(pages_read - bar.pos)

        with _refusing(""):
            return trace_from_prometheus(remembered, _reading(request, policies), report)


def _reading(request: ReplayRequest, policies: Lineup) -> TraceReading:
    """Let jobs of a trace without tolerations tolerate the taints of all pools, and no others: a cordon is a taint
    too."""
    keys = {taint.key for pools in policies.shapes for pool in pools for taint in pool.taints}
    return replace(
        request.reading,
        start=policies.setting.start,
        team_label=policies.attribution.team,
        tolerations=tuple(Toleration(key=key, operator="Exists") for key in sorted(keys)),
    )


def fitting(trace: Trace, request: ReplayRequest, policies: Lineup) -> Trace:
    """Return *trace* with the jobs that fit a pool of every policy. Raises BadInput with the others."""
    jobs = trace.jobs
    if request.split_pods:
        jobs = [replace(job, pods=job.gpus, gpus_per_pod=1, gang=job.gpus > 1, gang_min=None) for job in jobs]
    wrong = {name: trouble for pools in policies.shapes for name, trouble in misfits(jobs, pools).items()}
    fitting_jobs = [job for job in jobs if job.id not in wrong]
    if wrong and not request.skip_misfits:
        raise BadInput(f"{trace.source}: {line}" for line in error_lines(list(wrong.values())))
    if not fitting_jobs:
        raise BadInput([f"{trace.source}: no job fits a pool: use larger pools"])
    return replace(trace, jobs=fitting_jobs, left_out=[*trace.left_out, *wrong.values()])


def _first(request: ReplayRequest) -> FileSettings:
    if request.config is not None:
        return _loaded(request.config)
    nodes = request.max_gpus // request.gpus_per_node
    if not nodes:
        small = f"max_gpus {request.max_gpus} is less than one node: gpus_per_node {request.gpus_per_node}"
        raise BadInput([f"{small}: raise the first or lower the second"])
    price = request.gpus_per_node * USD_PER_GPU_HOUR
    return load_text(WITHOUT_CONFIG.format(gpus=request.gpus_per_node, nodes=nodes, price=price))


def _loaded(path: Path) -> FileSettings:
    """Load a configuration as the server does, without the environment, except for Civo where a pool needs it."""
    try:
        settings = load_file(path)
        if settings.pending:
            settings = load_file(path, facts=_facts(path, settings))
    except ConfigError as error:
        raise BadInput(f"{path}: {mistake}" for mistake in error.mistakes) from error
    unpriced = [pool.name for pool in settings.policy.pools if pool.price_usd_per_hour is None]
    if unpriced:
        remedy = "set price_usd_per_hour, or add its size to a prices_file"
        raise BadInput(f"{path}: pool {name} has no price, so it cannot grow: {remedy}" for name in unpriced)
    return settings


def _facts(path: Path, settings: FileSettings) -> PoolFacts:
    """Return what Civo says of the pools. Raises BadInput without CIVO_... in the environment, or an answer."""
    from receiver.adapters.survey import known_facts  # imports clients that nothing else here needs

    lacks = f"{path}: it leaves size or GPUs of a pool to Civo; write them into a copy, or"
    try:
        access = civo_access(os.environ)
    except ConfigError as error:
        names = ", ".join(mistake.path for mistake in error.mistakes)
        raise BadInput([f"{lacks} set {names} (docs/getting-started.md)"]) from None
    facts, problem = known_facts(settings, access, CALL_TIMEOUTS)
    if facts is None:
        raise BadInput([f"{lacks} try again: {problem}"])
    return facts


def _ours(name: str, settings: FileSettings, setting: Setting) -> Contestant:
    hasty = [pool for pool in settings.policy.pools if pool.provision_timeout < setting.lead]
    if hasty:
        lead, shares = spell_duration(setting.lead), ("build", "boot", "driver")
        options = ", ".join(f"{share} {spell_duration(getattr(setting, share))}" for share in shares)
        raise BadInput(
            f"{name}: pool {pool.name}: provision_timeout {spell_duration(pool.provision_timeout)} is shorter than the "
            f"{lead} that a new node needs here ({options}), so every node would be removed before it is used: raise "
            "it, or lower these to the times of your nodes"
            for pool in hasty
        )
    try:
        return the_product(name, settings.policy, setting, step_additions())
    except ValueError as error:
        raise BadInput([f"{name}: {error}"]) from error


def run(traces: Sequence[Path], request: ReplayRequest, *, as_json: bool, html: Path | None, bar: bool) -> int:
    """Replay every trace, print the results and return the exit status. Raises BadInput before anything runs."""
    if html is not None and not html.parent.is_dir():
        raise BadInput([f"{html}: the directory {html.parent} does not exist: create it"])
    contest_lineup = lineup(request)
    loaded_traces = [
        replace(each, notes=[*each.notes, *contest_lineup.notes])
        for each in _traces(traces, request, contest_lineup, visible=bar)
    ]
    for trace in loaded_traces:
        print_lines([f"{trace.source}: {line}" for line in trace.report], err=True)
    played = []
    with (
        _silent(),
        _progress(
            sum(len(trace.jobs) for trace in loaded_traces) * len(contest_lineup.contestants), visible=bar
        ) as progress,
    ):
        for trace in loaded_traces:
            setting = replace(contest_lineup.setting, start=trace.start)
            results = contest(trace.jobs, contest_lineup.contestants, setting, progress)
            played.append(
                Replayed(
                    trace=trace,
                    pools=contest_lineup.pools,
                    setting=setting,
                    results=results,
                    against=contest_lineup.against,
                    objectives=contest_lineup.objectives,
                )
            )
    documents = [document(each) for each in played]
    summary = documents[0] if len(documents) == 1 else several(documents)
    if as_json:
        print_json(summary)
    else:
        if len(documents) > 1:
            print_lines([conclusion(documents), ""])
        for table in documents:
            print_lines([*as_table(table), ""])
        if len(documents) > 1:
            print_lines(as_means(summary))
    if html is not None:
        from receiver.web.pages.show import replay_page  # templates take a while to load

        page = replay_page([page_document(each) for each in played], summary.get("ratios", {}), installed_version())
        with _refusing(str(html)):
            html.write_text(page, encoding="utf-8")
    policies = [policy for trace in documents for policy in trace["policies"]]
    return WRONG if any(map(_is_wrong, policies)) else FINE


def _is_wrong(policy: Mapping[str, Any]) -> bool:
    """True if *policy*, of a document, does not add up, or if it is ours and took the node from a pod or left a job
    unfinished that its budget paid for. Kills and lost jobs of peers do not count."""
    unpaid = len(policy["budget"]["never_ran"]) if policy["budget"] is not None else 0
    failed = policy["kills"] > 0 or policy["jobs_lost"] > unpaid
    return bool(policy["violations"]) or (policy["kind"] == "policy" and failed)


def _traces(paths: Sequence[Path], request: ReplayRequest, policies: Lineup, *, visible: bool) -> list[Trace]:
    """Read all traces. Raises BadInput with the errors of all of them."""
    sources = [partial(read, path, request, policies) for path in paths]
    if request.remembered is not None:
        sources.append(partial(_recalled, request.remembered, request, policies, visible=visible))
    fitting_traces: list[Trace] = []
    wrong: list[str] = []
    for source in sources:
        try:
            fitting_traces.append(fitting(source(), request, policies))
        except BadInput as error:
            wrong += error.lines
    if wrong:
        raise BadInput(wrong)
    return fitting_traces


@contextmanager
def _silent() -> Iterator[None]:
    """Silence the log: a replay runs thousands of steps, each of which writes a line."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _progress(jobs: int, *, visible: bool) -> Iterator[Progress]:
    """Show on standard error how many of *jobs* (of every policy on every trace) have finished."""
    with click.progressbar(length=jobs, file=sys.stderr, hidden=not visible, show_pos=True) as bar:
        before: tuple[str, int] = ("", 0)

        def report(name: str, done: int) -> None:
            nonlocal before
            goes_on = name == before[0] and done >= before[1]
            bar.label = name
            bar.update(done - before[1] if goes_on else done)
            before = (name, done)

        yield report
