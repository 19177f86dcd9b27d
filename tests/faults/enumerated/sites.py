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
TRANSACTIONS = ("_database.write()", "_write_memory()", "self._change(")
CALLERS = ("step", "web", "reports", "runtime", "server", "adapters/messages")
READING = ("ask", "get", "list", "watch")  # of `ClusterWire.ask`, whose verb is a variable in its own helpers
# What is handed on as a function is written by the function that calls it.
HANDED_ON = {
    "step.chores.budget._changes": "step.chores.budget._done",
    "step.parts.StepContext.say_later": "step.parts.StepContext.say_later.<lambda>",
}
LEFT_OUT = {
    "LeaseTable": "PostgreSQL's clock decides here: `make replicas` kills, freezes and cuts off real leaders",
    "StorePart": "the transaction itself",
    "_change": "a helper of the calls around it",
}


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """The write *verb* (``store.closed``) that function *where* makes (``step.act._close``)."""

    verb: str
    where: str

    def __str__(self) -> str:
        return f"{self.verb} in {self.where}"


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
    """The methods of *ports* that return a receipt."""
    groups = (n for n in ast.walk(_tree(ROOT / PORTS)) if isinstance(n, ast.ClassDef) and n.name in ports)
    methods = (m for group in groups for m in group.body if isinstance(m, ast.FunctionDef))
    return frozenset(m.name for m in methods if m.returns is not None and ast.unparse(m.returns) == "Receipt")


def sites() -> frozenset[Site]:
    """Every write site in the source."""
    writes = {
        "store": store_writes(),
        "cloud": port_writes("Cloud"),
        "cluster": port_writes("Cluster", "WorkGate"),
    }
    return frozenset(
        Site(f"{port}.{node.attr}", HANDED_ON.get(where, where))
        for folder in CALLERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for where, node in _attributes(file)
        for port, verbs in writes.items()
        if node.attr in verbs and ast.unparse(node.value).endswith(port)
    )


def wire_writes() -> dict[str, str]:
    """Every request of the adapters that is no GET, by the function that sends it, with its method or RBAC's verb."""
    found: dict[str, str] = {}
    for folder in ("adapters/civo", "adapters/kubernetes"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for where, call in _calls(file):
                name, first = call.func.attr, ast.unparse(call.args[0]).strip("'") if call.args else ""
                if (name == "_send" and first in ("PUT", "POST", "PATCH", "DELETE")) or (
                    name == "ask" and first not in READING
                ):
                    found[where] = first
                elif name in ("patch", "patch_status", "apply_status") and "_lists" in ast.unparse(call.func.value):
                    found[where] = name
    return found


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
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        yield from _walk(child, f"{where}.{child.name}" if named else where)


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
