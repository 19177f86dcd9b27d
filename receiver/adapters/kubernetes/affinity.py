"""What a pod demands of its node and of the other pods there: node affinity, pod affinity, topology spread."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from receiver.adapters.kubernetes.api import Json, entries, section, text, words
from receiver.core.model.pods import HostRule, Preference, Requirement, Together

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"  # the only topology that is read: a region of Civo is one zone
NAMESPACE_NAME = "kubernetes.io/metadata.name"  # a label that Kubernetes sets on every namespace
NEVER = Requirement(key="", operator="In")  # an empty node selector term matches no node (NodeSelector v1 core)


def required_nodes(spec: Json) -> tuple[tuple[Requirement, ...], ...]:
    """Return the required node affinity in *spec* (PodSpec): alternatives, each a conjunction. One without any matches
    no node, as an empty term does."""
    affinity = section(section(spec, "affinity"), "nodeAffinity")
    terms = entries(section(affinity, REQUIRED), "nodeSelectorTerms")
    alternatives = tuple(_requirements(term) or (NEVER,) for term in terms)
    return alternatives or (((NEVER,),) if isinstance(affinity.get(REQUIRED), dict) else ())


def preferred_nodes(spec: Json) -> tuple[Preference, ...]:
    """Return the preferred node affinity in *spec*; an empty term prefers nothing (PreferredSchedulingTerm v1 core)."""
    terms = entries(section(section(spec, "affinity"), "nodeAffinity"), PREFERRED)
    preferences = ((_count(term.get("weight"), 0), _requirements(section(term, "preference"))) for term in terms)
    return tuple(Preference(weight=weight, term=term) for weight, term in preferences if term)


def host_rules(spec: Json, namespace: str, labels: Mapping[str, str]) -> tuple[HostRule, ...]:
    """Return the required rules in *spec* about which other pods share the node of a pod with *labels*."""
    affinity = section(spec, "affinity")
    rules = [
        *_of_affinity(section(affinity, "podAntiAffinity"), Together.NEVER, namespace, labels),
        *_of_affinity(section(affinity, "podAffinity"), Together.ALWAYS, namespace, labels),
        *_of_spread(entries(spec, "topologySpreadConstraints"), namespace, labels),
    ]
    return tuple(dict.fromkeys(rules))


def requirement_from(raw: Json) -> Requirement:
    values = raw.get("values")
    return Requirement(
        key=text(raw, "key"),
        operator=text(raw, "operator"),
        values=tuple(str(v) for v in values) if isinstance(values, list) else (),
    )


def _requirements(term: Json) -> tuple[Requirement, ...]:
    labels, fields = entries(term, "matchExpressions"), entries(term, "matchFields")
    return (*map(requirement_from, labels), *map(_of_field, fields))


def _of_field(raw: Json) -> Requirement:
    """Return a requirement of a node's field, under a key that no label has. Kubernetes reads In and NotIn with one
    value, of ``metadata.name`` alone (`receiver.core.scaling.rooms`)."""
    want = requirement_from(raw)
    understood = want.operator in ("In", "NotIn") and len(want.values) == 1
    return replace(want, key=f"field {want.key}", operator=want.operator if understood else "")


def _of_affinity(raw: Json, together: Together, namespace: str, labels: Mapping[str, str]) -> Iterator[HostRule]:
    for term in entries(raw, REQUIRED):
        selector = _selector(term, labels)
        if text(term, "topologyKey") == HOST and selector is not None:
            yield HostRule(together=together, namespaces=_namespaces(term, namespace), selector=selector)


def _of_spread(constraints: Iterable[Json], namespace: str, labels: Mapping[str, str]) -> Iterator[HostRule]:
    for raw in constraints:
        selector = _selector(raw, labels)
        strict = (text(raw, "whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule"
        if text(raw, "topologyKey") == HOST and strict and selector is not None:
            yield HostRule(
                together=Together.EVENLY,
                namespaces=(namespace,),
                selector=selector,
                max_skew=_count(raw.get("maxSkew"), 1),
                min_domains=_count(raw.get("minDomains"), 1),
            )


def _selector(raw: Json, labels: Mapping[str, str]) -> tuple[Requirement, ...] | None:
    """Return the label selector in *raw* with what it takes over from the pod's own *labels*; None for one that selects
    nothing (LabelSelector v1 meta: a null selector)."""
    if not isinstance(raw.get("labelSelector"), Mapping):
        return None
    selector = section(raw, "labelSelector")
    terms = [Requirement(key=k, operator="In", values=(v,)) for k, v in sorted(words(selector, "matchLabels").items())]
    terms += [requirement_from(expression) for expression in entries(selector, "matchExpressions")]
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        keys = raw.get(name)
        for key in keys if isinstance(keys, list) else ():
            if key in labels:
                terms.append(Requirement(key=str(key), operator=operator, values=(labels[key],)))
    return tuple(dict.fromkeys(terms))


def _namespaces(term: Json, own: str) -> tuple[str, ...] | None:
    """Return the namespaces of a PodAffinityTerm, None for all. The labels of namespaces are not read: a selector that
    asks for others than their name counts as all of them, so that pods are never put where they may not run."""
    named = {str(name) for name in term.get("namespaces") or () if isinstance(name, str)}
    if not isinstance(term.get("namespaceSelector"), Mapping):
        return tuple(sorted(named or {own}))
    selector = section(term, "namespaceSelector")
    wanted = [Requirement(key=k, operator="In", values=(v,)) for k, v in words(selector, "matchLabels").items()]
    wanted += [requirement_from(expression) for expression in entries(selector, "matchExpressions")]
    by_name = [set(r.values) for r in wanted if r.key == NAMESPACE_NAME and r.operator == "In"]
    return tuple(sorted(named.union(set.intersection(*by_name)))) if by_name else None


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default
