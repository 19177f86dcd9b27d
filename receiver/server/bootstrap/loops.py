"""The threads beside the web: the loop, the courier of messages, the watch of pods."""

from datetime import timedelta

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.messages.delivery import Outbox
from receiver.adapters.messages.destinations import check_every_destination
from receiver.core.notices.links import PageLinks, Seal
from receiver.ports import Clock
from receiver.runtime.loop import LONGEST_CALL, Loop
from receiver.runtime.pod_watcher import Lookout
from receiver.runtime.store_opener import Opening
from receiver.server.bootstrap.outside import Outside
from receiver.server.bootstrap.stepping import Stepping

SPARE = timedelta(seconds=10)  # for what a source answers in time beside its slowest call


def loop_of(outside: Outside, opening: Opening, clock: Clock) -> Loop:
    """Return the loop, which steps once the store is open, and let the instruments say whether it leads."""
    said, instruments = outside.settings.configuration, outside.instruments
    stepping = Stepping(outside, clock.now())
    loop = Loop(
        stepping,
        outside.writer,
        clock,
        said.tick,
        instruments,
        may_begin=opening.is_open,
        beat=outside.beat,
        longest_call=max(LONGEST_CALL, said.leader.longest_call + SPARE),
    )
    instruments.leads, instruments.good_age = loop.leads, loop.good_age
    return loop


def lookout_of(outside: Outside, loop: Loop) -> Lookout | None:
    """Return what watches pods, None where that is switched off."""
    cluster = outside.sources.cluster
    if not isinstance(cluster, KubernetesCluster) or not outside.settings.configuration.kubernetes.watch:
        return None
    lookout = Lookout(cluster.pod_watch(), loop.wake, lambda: loop.leading, outside.instruments.watch)
    cluster.listed = lookout.listed
    return lookout


def outbox_of(outside: Outside, clock: Clock) -> tuple[Outbox, list[str]]:
    """Return what delivers messages, and what is odd about where they go."""
    said = outside.settings.configuration
    everybody, of_teams = outside.settings.environment.destinations()
    warnings = list(check_every_destination(everybody, of_teams))
    tokens = outside.secrets.tokens
    links = PageLinks(
        public_url=said.public_url,
        docs_url=said.docs_url,
        seal=lambda: Seal(token) if (token := tokens().operator) else None,
    )
    # Not fenced: that a message has reached somebody is true whoever notes it, and keeps it from being sent again.
    outbox = Outbox(
        outside.store,
        everybody,
        clock,
        of_teams,
        links=links,
        every=said.notify.at_most_every,
        may_send=outside.writer.held,
    )
    return outbox, warnings
