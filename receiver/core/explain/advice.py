"""What a person can do for a pod that waits: one line per state; for one that is held, that of its rule."""

from receiver.core.explain.pod_outlook import State
from receiver.core.explain.rules import RULES

# {pod} is its name and {namespace} its namespace.
WHAT_TO_DO = {
    State.FITS_FREE_NODE: (
        "compare `kubectl describe pod -n {namespace} {pod}` with the node: volumes, pod affinity, topology "
        "spread, labels, taints; another node like it would not help, so none is bought"
    ),
    State.ON_ITS_WAY: (
        "nothing: it starts once the node's GPUs are allocatable; if that takes too long, look at the instance at "
        "Civo and at the GPU operator's pods on the node"
    ),
    State.BUYING: "nothing: ask again in a minute; it then says which node is on its way",
    State.HELD: "read about the rule in docs/guardrails.md",
    State.GANG_INCOMPLETE: (
        "see why the gang's other pods do not exist: its controller, its queue, a quota of namespace {namespace}"
    ),
    State.FITS_NOWHERE: "change the pod, or configure a pool that offers what it asks for; each pool's line says why",
    State.NOT_DEMAND: "nothing here: no pool grows for a pod like this",
}
OBSERVED = "set mode: act and restart, or grow the pool by hand: in observe mode nothing is bought"


def what_to_do(state: str, rule: str | None, *, namespace: str, pod: str, observing: bool = False) -> str | None:
    """One line for the owner of *pod* that waits in *state*, held by *rule* (None: by none); None for a state that
    is not known here. *observing* is True where nothing is written."""
    if state not in set(State):
        return None
    if state == State.BUYING and observing:
        return OBSERVED
    line = WHAT_TO_DO[State(state)]
    if state == State.HELD and rule is not None:
        line = (rule in RULES and RULES[rule].advice) or line
    return line.format(namespace=namespace, pod=pod)
