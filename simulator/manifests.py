"""Pod manifests of API requests, reduced to the fields that the world keeps."""

import math
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.pods import CPU, MEMORY, STORAGE, Preference, Requirement, Toleration
from receiver.replay.world.objects import Denied, PodClaim, PodSpec

DURATION_ANNOTATION = "simulator/duration-seconds"
UTILIZATION_ANNOTATION = "simulator/gpu-utilization"
MEMORY_ANNOTATION = "simulator/gpu-memory"
GANG_SIZE_ANNOTATION = "simulator/gang-size"
PRIORITIES: Mapping[str, int] = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTP]i?)?")
NOT_DEVICES = ("cpu", "memory", "ephemeral-storage", "pods", "hugepages-", "requests.", "limits.")


def pod_spec(manifest: Mapping[str, Any], namespace: str | None = None) -> PodSpec:
    """Return what the world needs to know of *manifest*. Raises Denied (422) when a field cannot be what it is.

    How long it runs and what its GPUs do stand in annotations ``simulator/duration-seconds``,
    ``simulator/gpu-utilization`` and ``simulator/gpu-memory`` (ratios 0-1); without them it runs until it is
    deleted, at 0.9 and the memory that goes with it.
    """
    metadata = _mapping(manifest, "metadata")
    spec = _mapping(manifest, "spec")
    name = metadata.get("name") or _generated(metadata.get("generateName"))
    if not name or not spec.get("containers"):
        raise _invalid("a pod needs metadata.name (or generateName) and spec.containers")
    annotations = {str(k): str(v) for k, v in _mapping(metadata, "annotations").items()}
    owner: Mapping[str, Any] = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), {})
    duration, memory = annotations.get(DURATION_ANNOTATION), annotations.get(MEMORY_ANNOTATION)
    return PodSpec(
        namespace=namespace or metadata.get("namespace") or "default",
        name=str(name),
        requests=effective_requests(spec),
        claims=tuple(_claim(c) for c in spec.get("resourceClaims") or ()),
        compute=_effective(spec, _compute),
        duration=timedelta(seconds=_number(duration)) if duration is not None else None,
        labels={str(k): str(v) for k, v in _mapping(metadata, "labels").items()},
        annotations=annotations,
        node_selector=dict(_mapping(spec, "nodeSelector")),
        affinity=_affinity(spec),
        preferred=_preferred(spec),
        tolerations=tuple(_toleration(t) for t in spec.get("tolerations") or ()),
        priority_class=str(spec.get("priorityClassName") or ""),
        priority=int(spec.get("priority") or PRIORITIES.get(spec.get("priorityClassName") or "", 0)),
        owner_kind=owner.get("kind", ""),
        owner_name=owner.get("name", ""),
        gate=str(next((g.get("name") for g in spec.get("schedulingGates") or ()), "")),
        group=_group(spec),
        gang_size=int(_number(annotations.get(GANG_SIZE_ANNOTATION, "0"))),
        gpu_memory=_number(memory) if memory is not None else None,
        gpu_util=_number(annotations.get(UTILIZATION_ANNOTATION, "0.9")),
        node=spec.get("nodeName") or None,
    )


def _group(spec: Mapping[str, Any]) -> str:
    """Return the pod's PodGroup, ``workload/group`` where it names a Workload (scheduling.k8s.io/v1alpha1)."""
    workload = _mapping(spec, "workloadRef")
    if workload:
        return f"{workload.get('name')}/{workload.get('podGroup')}"
    return str(_mapping(spec, "schedulingGroup").get("podGroupName") or "")


def effective_requests(spec: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the devices a pod asks for; see `_effective`."""
    return _effective(spec, _devices)


def _effective(spec: Mapping[str, Any], asked: Callable[[Mapping[str, Any]], Mapping[str, int]]) -> Mapping[str, int]:
    """Return what a pod asks for: the containers' sum, or an init container's request where that is more.

    A limit stands for the request that is left out, as the API server's defaulting has it. An init container
    that restarts always is a sidecar and adds to the sum.
    """
    total: dict[str, int] = {}
    first: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, asked(container))
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(total, asked(container))
        else:
            for resource, count in asked(container).items():
                first[resource] = max(first.get(resource, 0), count)
    return {r: max(total.get(r, 0), first.get(r, 0)) for r in (*total, *(r for r in first if r not in total))}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, count in more.items():
        total[resource] = total.get(resource, 0) + count


def _devices(container: Mapping[str, Any]) -> Mapping[str, int]:
    asked = _asked(container).items()
    return {r: math.ceil(_number(n)) for r, n in asked if not r.startswith(NOT_DEVICES)}


def _compute(container: Mapping[str, Any]) -> Mapping[str, int]:
    """Return CPU in millicores, memory and storage in bytes."""
    asked = _asked(container)
    scales = {CPU: 1000, MEMORY: 1, STORAGE: 1}
    return {r: math.ceil(_quantity(asked[r]) * scale) for r, scale in scales.items() if r in asked}


def _asked(container: Mapping[str, Any]) -> Mapping[str, Any]:
    resources = _mapping(container, "resources")
    return {**_mapping(resources, "limits"), **_mapping(resources, "requests")}


def _quantity(text: object) -> Decimal:
    """Return ``1500m``, ``2``, ``64Gi`` as a number. Raises Denied for what is none."""
    number, unit = QUANTITY.fullmatch(str(text).strip()), Decimal(1)
    if number is None:
        raise _invalid(f"{text!r} is no quantity")
    digits, suffix = number.groups()
    if suffix == "m":
        unit = Decimal("0.001")
    elif suffix:
        unit = Decimal(1024 if suffix.endswith("i") else 1000) ** ("kMGTP".index(suffix[0].replace("K", "k")) + 1)
    return Decimal(digits) * unit


def _affinity(spec: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...]:
    required = _mapping(_node_affinity(spec), "requiredDuringSchedulingIgnoredDuringExecution")
    return tuple(_term(term) for term in required.get("nodeSelectorTerms") or ())


def _preferred(spec: Mapping[str, Any]) -> tuple[Preference, ...]:
    preferred = _node_affinity(spec).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(
        Preference(weight=int(_number(p.get("weight"))), term=_term(_mapping(p, "preference"))) for p in preferred
    )


def _node_affinity(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(_mapping(spec, "affinity"), "nodeAffinity")


def _term(term: Mapping[str, Any]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(key=e["key"], operator=e["operator"], values=tuple(e.get("values") or ()))
        for e in _expressions(term)
    )


def _expressions(term: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    expressions: Sequence[Mapping[str, Any]] = term.get("matchExpressions") or ()
    for expression in expressions:
        if expression.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
            raise _invalid(f"{expression.get('operator')!r} is no operator of node affinity")
        yield expression


def _toleration(given: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=given.get("key") or "",
        operator=given.get("operator") or "Equal",
        value=given.get("value") or "",
        effect=given.get("effect") or "",
    )


def _claim(given: Mapping[str, Any]) -> PodClaim:
    claim, template = given.get("resourceClaimName") or "", given.get("resourceClaimTemplateName") or ""
    if bool(claim) == bool(template):
        raise _invalid("resourceClaims: exactly one of resourceClaimName and resourceClaimTemplateName is needed")
    return PodClaim(name=given["name"], claim=claim, template=template)


def _generated(prefix: str | None) -> str:
    return f"{prefix}{secrets.token_hex(3)[:5]}" if prefix else ""


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    child = parent.get(key) or {}
    if not isinstance(child, Mapping):
        raise _invalid(f"{key} is no object")
    return child


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        raise _invalid(f"{text!r} is no number") from None


def _invalid(problem: str) -> Denied:
    return Denied("Invalid", 422, f"Pod is invalid: {problem}")
