"""The traffic to and from the autoscaler that the NetworkPolicies of k8s/install allow."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any

from tests.lint import none_of
from tests.manifests.built import installed, the

JSON = dict[str, Any]
NAME = "app.kubernetes.io/name"
RUNS = ("observe", "act", "ha")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another end: a pod with labels in a namespace, or an *address* outside."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""


def a_pod(namespace: str, name: str) -> Peer:
    """Return a pod labelled with its program's *name*."""
    return Peer(namespace=namespace, labels={NAME: name})


DNS = Peer(namespace="kube-system", labels={"k8s-app": "kube-dns"})


def allowed(name: str, direction: str, peer: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether some policy of the file lets *peer* in (``ingress``, to *port* of ours) or us out to its *port*."""
    policies = [o["spec"] for o in installed(name) if o["kind"] == "NetworkPolicy"]
    assert any(direction.capitalize() in spec["policyTypes"] for spec in policies)
    rules = [rule for spec in policies for rule in spec.get(direction, ())]
    side = "from" if direction == "ingress" else "to"
    return any(_ports(rule, port, protocol) and _peers(rule.get(side), peer) for rule in rules)


def _ports(rule: JSON, port: int, protocol: str) -> bool:
    return (port, protocol) in [(p["port"], p["protocol"]) for p in rule["ports"]]


def _peers(asked: Sequence[JSON] | None, peer: Peer) -> bool:
    return asked is None or any(_is(one, peer) for one in asked)


def _is(asked: JSON, peer: Peer) -> bool:
    if "ipBlock" in asked:
        block, here = asked["ipBlock"], peer.address and ip_address(peer.address)
        return (
            bool(here)
            and here in ip_network(block["cidr"])
            and not any(here in ip_network(left) for left in block.get("except", ()))
        )
    spaces = _selects(asked["namespaceSelector"], {"kubernetes.io/metadata.name": peer.namespace})
    return not peer.address and spaces and _selects(asked["podSelector"], peer.labels)


def _selects(selector: JSON, labels: Mapping[str, str]) -> bool:
    expressions = selector.get("matchExpressions", ())
    assert all(e["operator"] == "In" for e in expressions)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(e["key"]) in e["values"] for e in expressions
    )


def told(peers: Iterable[tuple[Peer, int, str]], direction: str, want: bool) -> Iterator[str]:
    """Yield each of *peers*, with port and protocol, that may (want: False) or may not (True) where it is to be."""
    for name, (peer, port, protocol) in product(RUNS, peers):
        if allowed(name, direction, peer, port, protocol) is not want:
            yield f"{name}: {direction} of {peer} at {protocol} {port}"


def test_monitoring_comes_in_and_nobody_else_does() -> None:
    for name in RUNS:
        [container] = the(installed(name), "Deployment")["spec"]["template"]["spec"]["containers"]
        assert [port["containerPort"] for port in container["ports"]] == [8080]
    monitoring = [a_pod("monitoring", who) for who in ("alertmanager", "prometheus", "grafana")]
    others = [a_pod("ml", "prometheus"), a_pod("monitoring", "shell"), Peer(address="203.0.113.7")]
    none_of(told([(peer, 8080, "TCP") for peer in monitoring], "ingress", want=True))
    none_of(told([(peer, 8080, "TCP") for peer in others], "ingress", want=False))


def test_what_it_asks_it_reaches() -> None:
    asked = [
        (DNS, 53, "UDP"),
        (DNS, 53, "TCP"),
        (a_pod("monitoring", "prometheus"), 9090, "TCP"),
        (a_pod("monitoring", "alertmanager"), 9093, "TCP"),
        (Peer(address="203.0.113.7"), 443, "TCP"),  # Civo's API, a chat
        (Peer(address="10.0.0.2"), 6443, "TCP"),  # the API server
        (Peer(address="2001:db8::7"), 443, "TCP"),
        (Peer(address="fd00::2"), 6443, "TCP"),
    ]
    none_of(told(asked, "egress", want=True))


def test_what_it_has_no_business_with_it_does_not() -> None:
    others = [
        (Peer(address="169.254.169.254"), 443, "TCP"),  # the machine's credentials
        (Peer(address="fe80::a9fe:a9fe"), 443, "TCP"),
        (Peer(address="203.0.113.7"), 80, "TCP"),
        (a_pod("ml", "train"), 8080, "TCP"),
        (a_pod("monitoring", "grafana"), 9090, "TCP"),
    ]
    none_of(told(others, "egress", want=False))


def test_ports_are_numbers_because_a_plugin_may_know_one_pod_alone_behind_a_name() -> None:
    policies = [(name, o["spec"]) for name in RUNS for o in installed(name) if o["kind"] == "NetworkPolicy"]
    rules = [(name, rule) for name, spec in policies for way in ("ingress", "egress") for rule in spec.get(way, ())]
    ports = [(name, port["port"]) for name, rule in rules for port in rule["ports"]]
    assert len(ports) > 3 * len(RUNS)
    none_of(f"{name}: {port!r}" for name, port in ports if type(port) is not int)


def test_only_several_replicas_reach_a_database() -> None:
    database = Peer(address="10.0.0.9")
    assert [n for n in RUNS if allowed(n, "egress", database, 5432)] == ["ha"]
