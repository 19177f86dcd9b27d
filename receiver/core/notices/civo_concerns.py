"""What needs a person in one pool because of what Civo says of it: a count that others change, a response that is
incomplete, and words and times that say nothing."""

from collections.abc import Iterator
from datetime import timedelta

from receiver.core.model.model import PoolState, Stage
from receiver.core.model.policy import Pool
from receiver.core.model.text import listed, some
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Concern, Level, Seen
from receiver.core.scaling.waits import Direction, Wait, undone_by_others

A_DAY = timedelta(days=1)
AT_CIVO = "troubleshooting.md#civo-and-kubernetes-disagree-about-a-node"
OTHER_SYSTEMS = (
    "Look at: Terraform (lifecycle { ignore_changes = [node_count] }), Cluster Autoscaler, Civo's dashboard: only one"
    " of them should size a pool"
)


def drifted(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """A count that changed outside the autoscaler: the new one is adopted."""
    drift, lately = seen.drifts.get(pool.id), sum(seen.now - d.at < A_DAY for d in state.count.drifts)
    if drift is None and not lately:
        return
    topic = key = cost = ""
    symptom = f"node count changed outside the autoscaler {some(lately, 'time')} in the last day"
    doing = "the new count is kept"
    if drift is not None:
        grew = drift.to_count > drift.from_count
        symptom = f"node count changed outside the autoscaler, {drift.from_count} -> {drift.to_count}"
        doing += "; idle nodes are removed in their time" if grew else "; the pool grows when GPU work waits"
        if undone_by_others(state, seen.now, grows=not grew) is not None:
            doing = ""  # the stop is a concern of its own, with its own message
        else:
            topic = f"drift:{pool.id}:{drift.from_count}:{drift.to_count}"  # a count that flaps is told once an hour
            key = f"{drift.at:%Y-%m-%dT%H}"
        cost = wording.costs(pool, seen.assignment.budgets, drift.to_count, drift.from_count)
    yield Concern(
        kind=Cause.DRIFT,
        what=symptom,
        cost=cost,
        doing=doing,
        todo=OTHER_SYSTEMS,
        topic=topic,
        key=key,
    )


def undone(pool: Pool, state: PoolState, wait: Wait, seen: Seen) -> Concern:
    """The stop after another system reverted our changes. Its end is its key: each stop is told once, also where the
    counts and the hour are those of an earlier message."""
    grows, level = wait.direction is Direction.GROW, seen.level("not_undone_by_others", pool=pool.id)
    reverts = [d for d in state.count.drifts if d.undoes and (d.to_count < d.from_count) is grows]
    newest = max(reverts, key=lambda d: d.at)
    last = f"last {newest.from_count} -> {newest.to_count} at {newest.at:%H:%M} UTC"
    stays = "waiting work stays pending, unless another pool takes it" if grows else "idle nodes stay and cost money"
    return Concern(
        kind=Cause.DRIFT,
        level=level,
        what=f"does not {'grow' if grows else 'shrink'} before {wording.moment(wait.until, seen.now)}",
        why=f"{wait.reason}; {last}",
        cost="" if grows else wording.an_hour(pool, len(state.living)),
        doing=stays,
        todo=OTHER_SYSTEMS,
        # As for stuck nodes: a pager, which does not get the warning, gets the failure.
        topic=f"undone:{pool.id}:{wait.direction}" + (":waited for" if level is Level.BAD else ""),
        key=wait.until.isoformat(),
    )


def unreadable(pool: Pool, state: PoolState, seen: Seen) -> Concern:
    """A pool on which Civo's response is incomplete: it stands still, and the other pools go on."""
    return Concern(
        kind=Cause.SOURCE_SILENT,
        level=seen.level("sources_answer", pool=pool.id),
        what="Civo's response on this pool is incomplete: it does not change",
        why=state.count.unreadable,
        cost=wording.an_hour(pool, state.required),
        doing="no node is bought or removed in this pool until the response is complete; running nodes stay, and other"
        " pools go on",
        todo="Look at: the pool and its instances at Civo; gpu-autoscaler doctor --only civo",
        topic=f"unreadable:{pool.id}",
        key=f"{seen.now:%Y-%m-%d}:{state.count.unreadable}",
    )


def odd_at_civo(pool: Pool, state: PoolState) -> Iterator[Concern]:
    """What Civo says, or leaves out, of nodes that Kubernetes shows to be well."""
    odd = [n for n in state.of(Stage.USABLE) if n.civo_status]
    for status in dict.fromkeys(n.civo_status for n in odd):
        nodes = sorted(
            (n for n in odd if n.civo_status == status), key=lambda n: (n.times.usable_since or n.created_at, n.name)
        )
        yield Concern(
            kind=Cause.UNKNOWN,
            level=Level.NOTE,
            what=f"Civo reports {status} for {listed([n.name for n in nodes])}; Kubernetes reports it Ready",
            doing="it counts as usable while it is Ready and its GPUs are allocatable",
            todo="If the instance is not as it should be: look at it at Civo",
            guide=AT_CIVO,
            topic=f"status:{pool.id}:{status}",
            key=nodes[0].instance,  # a word that Civo uses of every node from now on is told once
        )
    for node in (n for n in state.living if n.times.undated):
        yield Concern(
            kind=Cause.UNKNOWN,
            what=f"Civo gives no usable creation time for {node.name}",
            cost=wording.an_hour(pool, 1),
            doing="its cost counts from when it was first seen; while idle it stays: its paid hours are unknown",
            todo="Compare the instance's created_at at Civo. To end the costs, delete an idle instance there",
            guide=AT_CIVO,
            topic=f"undated:{node.instance}",
        )
