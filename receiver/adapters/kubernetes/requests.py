"""What a pod requests of a node, by kube-scheduler's rules.

They are those of kubernetes/kubernetes, ``staging/src/k8s.io/component-helpers/resource`` (1.36): sidecars (KEP-753),
requests of the pod as a whole (KEP-2837), resize in place (KEP-1287).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from receiver.adapters.kubernetes.api import Json, entries, section, text
from receiver.core.model.pods import CPU, MEMORY

Quantities = Callable[[Json], dict[str, int]]  # reads the resources that count out of a list of quantities
Requests = Callable[[Json], dict[str, int]]  # of one container
OF_THE_POD = frozenset({CPU, MEMORY})  # what a pod can request as a whole, beside huge pages
NO_STATUS: Json = MappingProxyType({})
INFEASIBLE = "Infeasible"  # the node can never do the resize


def effective(spec: Json, read: Quantities, status: Json = NO_STATUS) -> dict[str, int]:
    """Return what a pod requests of the resources that *read* finds: the larger of all containers with all sidecars,
    and of each init container with the sidecars that start before it. A request of the pod as a whole takes the place
    of that, and the overhead of its runtime comes on top. In a template a limit counts where no request stands.

    *status* tells of a resize in place. Until it is done, the largest of what is requested, allocated and in use
    counts; of an infeasible one, what is requested does not."""
    infeasible = _is_infeasible(status)
    states = [*entries(status, "initContainerStatuses"), *entries(status, "containerStatuses")]
    amounts = _of_containers(spec, lambda container: _requested(container, read))
    if states:
        allocated = _of_containers(spec, _resized(states, read, infeasible, _allocated))
        in_use = _of_containers(spec, _resized(states, read, infeasible, _in_use))
        amounts = allocated | in_use if infeasible else amounts | allocated | in_use
    total = Counter({**amounts, **_of_the_pod(spec, status, read, amounts, infeasible)})
    total.update(read(section(spec, "overhead")))
    return dict(total)


def _of_containers(spec: Json, requests: Requests) -> Counter[str]:
    """The sum over containers that run at the same time (KEP-753)."""
    total: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in entries(spec, "initContainers"):
        if container.get("restartPolicy") == "Always":
            total.update(requests(container))
            peak |= total
        else:
            peak |= total + Counter(requests(container))
    for container in entries(spec, "containers"):
        total.update(requests(container))
    return total | peak


def _requested(container: Json, read: Quantities) -> dict[str, int]:
    resources = section(container, "resources")
    return read({**section(resources, "limits"), **section(resources, "requests")})


def _allocated(state: Json) -> Json | None:
    quantities = state.get("allocatedResources")
    return quantities if isinstance(quantities, dict) else None


def _in_use(state: Json) -> Json | None:
    quantities = section(state, "resources").get("requests")
    return quantities if isinstance(quantities, dict) else _allocated(state)


def _resized(
    states: Sequence[Json], read: Quantities, infeasible: bool, quantities_of: Callable[[Json], Json | None]
) -> Requests:
    """Return a reader of the quantities that *quantities_of* finds in a container's status. Without any its request
    counts, unless the resize is *infeasible*."""
    by_name: Mapping[str, Json] = {text(state, "name"): state for state in states}

    def requests(container: Json) -> dict[str, int]:
        quantities = quantities_of(by_name.get(text(container, "name"), {}))
        if quantities is not None:
            return read(quantities)
        return {} if infeasible else _requested(container, read)

    return requests


def _of_the_pod(
    spec: Json, status: Json, read: Quantities, containers: Mapping[str, int], infeasible: bool
) -> dict[str, int]:
    """What the pod requests as a whole; *containers* are the requests of its containers. The API server fills in what
    only a limit names: the containers' requests, or else the limit."""
    resources = section(spec, "resources")
    limits, requests = section(resources, "limits"), section(resources, "requests")
    amounts = {**read(limits), **containers, **read(requests)}
    named = {r: amounts[r] for r in OF_THE_POD if r in amounts and (r in limits or r in requests)}
    states = [state for state in (_allocated(status), _in_use(status)) if state is not None]
    if not named or not states:
        return named
    overhead = Counter(read(section(spec, "overhead")))  # a part of what the status tells
    largest = Counter() if infeasible else Counter(named)
    for state in states:
        largest |= Counter(read(state)) - overhead
    return {r: largest[r] for r in named}


def _is_infeasible(status: Json) -> bool:
    """True where the kubelet says so, by a condition or as it did before Kubernetes 1.33."""
    pending = [c for c in entries(status, "conditions") if c.get("type") == "PodResizePending"]
    return status.get("resize") == INFEASIBLE or any(c.get("reason") == INFEASIBLE for c in pending)
