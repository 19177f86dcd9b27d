"""What a person can do for a pod that waits: one line per state, and one per rule that holds it."""

from receiver.core.explain.pod_outlook import State

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
RULES = {
    "sources_answer": "bring back the source that the reason names; the page of sources shows what each one answered",
    "nodes_may_be_removed": "bind the ClusterRole gpu-autoscaler-act (k8s/overlays/act/rights); no restart is needed",
    "spend_is_known": (
        "see the reason; Civo's charges are asked again every minute, or state budget.spent_usd_stated and restart"
    ),
    "price_is_known": "set price_usd_per_hour of the pool, or a prices_file that has its size, and restart",
    "within_budget": "raise the budget (gpu-autoscaler budget set), end other GPU work, or wait for the next month",
    "within_maximum": "raise max_nodes and restart, or wait for a free GPU, or until the window or override ends",
    "within_limits": "wait, or raise limits.max_gpus or limits.max_growth_per_hour and restart",
    "not_frozen": "see why the alert fires that the reason names; it freezes the pool",
    "not_silenced": "expire the silence in Alertmanager (`amtool silence expire`) if the pool may grow again",
    "not_paused": "end the pause that the reason names (`gpu-autoscaler override list`, then `override end ID`)",
    "growth_is_not_paused": "see why the alert fires that the reason names; it pauses growth",
    "not_backing_off": "read the error in the reason; the pool is tried again by itself when the back-off ends",
    "not_undone_by_others": "find out who or what changes the pool's count at Civo, and leave it to one of you",
    "provisioning_works": "look at the node that the reason names, at Civo and with `kubectl describe node`",
    "cooled_down": "nothing: it ends by itself at the time that the reason names",
    "approved": "approve it, from the message or with `gpu-autoscaler answer`; the reason names until when",
    "one_change_at_a_time": "nothing, if it ends within a minute; else look at the open action's last error",
    "internal_error": "find `part of a step failed` in the server's log and report that bug; each step tries again",
    "gangs_whole": "make room for all of it at once (the reason names what is short), or make the gang smaller",
}


def what_to_do(state: str, rule: str | None, *, namespace: str, pod: str, observing: bool = False) -> str | None:
    """One line for the owner of *pod* that waits in *state*, held by *rule* (None: by none); None for a state that
    is not known here. *observing* is True where nothing is written."""
    if state not in set(State):
        return None
    if state == State.BUYING and observing:
        return OBSERVED
    line = WHAT_TO_DO[State(state)]
    if state == State.HELD and rule is not None:
        line = RULES.get(rule, line)
    return line.format(namespace=namespace, pod=pod)
