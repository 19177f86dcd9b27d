"""Usage accounting: once a minute, and whenever other pods hold GPUs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from receiver.core.model.activity import Sample
from receiver.core.model.model import Source
from receiver.core.model.policy import Policy
from receiver.core.model.usage import EndedPod
from receiver.core.money.accounting import StepSight, account, ended_in, is_due
from receiver.core.report.rightsizing import in_use
from receiver.ports import Cluster, Telemetry, TryLater, WontWork
from receiver.step.gather import Looked, Sources

log = structlog.get_logger("receiver")


def account_for_usage(looked: Looked, sources: Sources, policy: Policy, now: datetime) -> None:
    """Account for usage up to *now* if it is due. Raises TryLater when the store fails.

    While Civo or Kubernetes does not answer, usage is unknown: the account stays, and the next accounting covers that
    time.
    """
    cluster = sources.cluster
    if cluster is None or not (looked.facts.up(Source.CIVO) and looked.facts.up(Source.KUBERNETES)):
        return
    _account(looked, cluster, sources, policy, now)


def _account(looked: Looked, cluster: Cluster, sources: Sources, policy: Policy, now: datetime) -> None:
    before = sources.store.accounted()
    nodes = tuple(node for pool in looked.facts.pools for node in pool.nodes)
    seen = StepSight(at=now, lives=looked.lives, nodes=nodes, pods=looked.pods)
    if not is_due(before, seen):
        return
    seen = replace(seen, samples=_samples(sources.telemetry), ended=_ended(cluster, ended_in(before, seen)))
    if not sources.store.account(account(before, seen, policy), before.at, now):
        log.warning("another process has accounted for this time")
        return
    sources.store.keep_in_use(in_use(before, seen, policy))


def _samples(telemetry: Telemetry | None) -> Mapping[str, Sequence[Sample]]:
    """Return the activity of GPUs; empty if unknown, so that the time counts as not measured."""
    if telemetry is None:
        return {}
    try:
        return telemetry.samples()
    except (TryLater, WontWork) as error:
        log.warning("GPU activity is not measured", error=str(error))
        return {}


def _ended(cluster: Cluster, namespaces: Collection[str]) -> Sequence[EndedPod]:
    """Return how pods ended; empty if unknown."""
    if not namespaces:
        return ()
    try:
        return cluster.ended(namespaces)
    except (TryLater, WontWork) as error:
        log.warning("the results of ended pods are unknown", error=str(error))
        return ()
