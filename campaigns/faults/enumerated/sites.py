"""The write sites, found in the source: who calls a port's method that changes something, and what that sends.

A method of the store writes if it begins a writing transaction, one of `Cloud` and `Cluster` if it returns a `Receipt`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import receiver

ROOT = Path(receiver.__file__).parent
STORE, PORTS = "adapters/store", "ports/__init__.py"
CALLED = {"store": ("store", "records")}  # a step calls the store so, by what it needs of it
TRANSACTIONS = ("_database.write()", "_write_memory()", "self._change(")
CALLERS = ("step", "web", "capabilities", "runtime", "server", "adapters/messages")
READING = ("get", "list", "watch")  # of `ClusterWire.ask`
METHODS = ("PUT", "POST", "PATCH", "DELETE")  # of `CivoCloud._send`
WRITING_LISTS = ("patch", "patch_status", "apply_status")
# What is handed on as a function, all of a function's writes or one of them, is written by the function that calls it.
HANDED_ON = {
    "store.progressed in step.act._act": "step.retire._Retirement._delete",
    "step.chores.budget._changes": "step.chores.budget._done",
    "step.parts.StepContext.say_later": "step.parts.StepContext.say_later.<lambda>",
}
# Requests of the adapters that are no GET, by the function that sends them: the ports' methods that this is part of. A
# process that dies between two requests of one call: tests/simulator/test_between_two_writes.py.
MARKS = ("cordon", "uncordon", "cordon_for_budget", "uncordon_for_budget", "apply_labels_and_taints", "set_soft_taints")
REQUESTS: dict[str, tuple[str, ...]] = {
    "civo.cloud.CivoCloud.resize": ("cloud.resize",),
    "civo.cloud.CivoCloud.retire": ("cloud.retire",),
    "kueue_check.reader.AdmissionChecks.answer": ("cluster.answer_request",),
    "kueue_check.reader.AdmissionChecks.keep_active": ("cluster.keep_active",),  # one for each check
    "kubernetes.budget_hold.HoldingMeans._delete": ("cluster.release_namespace", "cluster.hold_namespace"),
    "kubernetes.budget_hold.HoldingMeans._patch": ("cluster.hold_queue", "cluster.release_queue"),
    "kubernetes.budget_hold.HoldingMeans.hold_namespace": ("cluster.hold_namespace",),
    "buffers.reader.Buffers.answer": ("cluster.answer_request",),
    "kubernetes.cluster.KubernetesCluster.admit": ("cluster.admit",),
    "kubernetes.cluster.KubernetesCluster.may": (),  # an access review: created, answered and forgotten
    "kubernetes.cluster.KubernetesCluster.record_event": ("cluster.record_event",),
    "kubernetes.drain.Drain._evict": ("cluster.drain",),  # one for each pod
    "kubernetes.drain.NodeMarks._change": tuple(f"cluster.{verb}" for verb in MARKS),
    "kubernetes.installations.Installations.make_known": (),  # see `LEFT_OUT`
    "kubernetes.owners.Owners._modify": ("cluster.scale_to_zero",),
    "provisioning_requests.reader.ProvisioningRequests.answer": ("cluster.answer_request",),
    # how the functions above send
    **dict.fromkeys(("kubernetes.reflector.Lists.patch", "kubernetes.reflector.Lists.patch_status"), ()),
    "kubernetes.reflector.Lists.apply_status": (),
}
LEFT_OUT = {
    "LeaseTable": "PostgreSQL's clock decides here: `make replicas` kills, freezes and cuts off real leaders",
    "StorePart": "the transaction itself",
    "_change": "a helper of the calls around it",
    "make_known": "a sign of life that is renewed: nothing of this installation rests on its effect",
}


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """The write *verb* (``store.closed``) that function *where* makes (``step.act._close``)."""

    verb: str
    where: str

    def __str__(self) -> str:
        return f"{self.verb} in {self.where}"


WITHOUT_A_TOUR = {  # sites that no tour passes, and why a write that fails there does no harm
    Site("store.keep_pool_facts", "runtime.pool_reader.PoolReader.look"): "what Civo said is asked again and kept then",
    Site(
        "store.say", "capabilities.costs.weekly.ObservedDay._send_due"
    ): "nothing acts in observe mode; the next look says it",
    Site(
        "store.say", "capabilities.idle_shutdown.chore.scale_idle_workloads_to_zero"
    ): "a warning is withdrawn; the next minute says it",
}


@cache
def store_writes() -> frozenset[str]:
    """The methods of the store that begin a writing transaction."""
    found = set()
    for file in (ROOT / STORE).glob("*.py"):
        for group in (n for n in ast.walk(_tree(file)) if isinstance(n, ast.ClassDef) and n.name not in LEFT_OUT):
            for method in (n for n in group.body if isinstance(n, ast.FunctionDef) and n.name not in LEFT_OUT):
                if any(begins in ast.unparse(method) for begins in TRANSACTIONS):
                    found.add(method.name)
    return frozenset(found)


@cache
def port_writes(*ports: str) -> frozenset[str]:
    """The methods of *ports*, or of all, that return a receipt."""
    classes = (n for n in ast.walk(_tree(ROOT / PORTS)) if isinstance(n, ast.ClassDef))
    groups = (n for n in classes if not ports or n.name in ports)
    methods = (m for group in groups for m in group.body if isinstance(m, ast.FunctionDef))
    writes = (m for m in methods if m.returns is not None and ast.unparse(m.returns) == "Receipt")
    return frozenset(m.name for m in writes if m.name not in LEFT_OUT)


def sites() -> frozenset[Site]:
    """Every write site in the source."""
    writes = {
        "store": store_writes(),
        "cloud": port_writes("Cloud"),
        "cluster": port_writes("Cluster", "WorkGate"),
    }
    return frozenset(
        Site(verb := f"{port}.{node.attr}", HANDED_ON.get(f"{verb} in {where}", HANDED_ON.get(where, where)))
        for folder in CALLERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for where, node in _attributes(file)
        for port, verbs in writes.items()
        if node.attr in verbs and ast.unparse(node.value).endswith(CALLED.get(port, port))
    )


def requests() -> frozenset[str]:
    """The functions of the adapters that send a request that is no GET, below ``receiver.adapters``, and of
    capabilities."""
    found = set()
    for folder in ("adapters/civo", "adapters/kubernetes", "capabilities"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for where, call in _calls(file):
                name, first = call.func.attr, ast.unparse(call.args[0]).strip("'") if call.args else ""
                of = ast.unparse(call.func.value)
                asks = name == "ask" and first not in READING and not of.endswith("store")  # a store asks people
                sent = asks or (name == "_send" and first in METHODS)
                if sent or (name in WRITING_LISTS and "_lists" in of):
                    found.add(where.removeprefix("adapters.").removeprefix("capabilities."))
    return frozenset(found)


def _calls(file: Path) -> Iterator[tuple[str, "_Call"]]:
    for where, node in _walk(_tree(file), _module(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield where, node  # type: ignore[misc]  # its func is an attribute


class _Call(ast.Call):
    func: ast.Attribute


def _attributes(file: Path) -> Iterator[tuple[str, ast.Attribute]]:
    for where, node in _walk(_tree(file), _module(file)):
        if isinstance(node, ast.Attribute):
            yield where, node


def _walk(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node below *node*, with the function that it stands in."""
    for child in ast.iter_child_nodes(node):
        yield where, child
        within = f"{where}.{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else where
        yield from _walk(child, within)


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
