"""A key of the configuration file that nothing reads fails here."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

from receiver.config import Configuration
from receiver.config.settings import CORE
from receiver.config.values import Section, model_in

RECEIVER = Path(__file__).parents[2] / "receiver"
# Modules that define, check and print keys: reading a key there gives it no effect.
PASSIVE = {RECEIVER / "config" / f"{name}.py" for name in ("model", "pools", "web", "lint", "show", "live")}


def sections(kind: type[Section] = Configuration) -> Iterator[type[Section]]:
    """Every section of the file."""
    yield kind
    for info in kind.model_fields.values():
        inner = model_in(info.annotation)
        if inner is not None:
            assert issubclass(inner, Section)
            yield from sections(inner)


@cache
def attributes_read() -> frozenset[str]:
    """Every attribute that a module reads, except those that only pass keys on: by itself, by a name in a table for
    `getattr`, or as a field of a document that pydantic fills from attributes."""
    found: set[str] = set()
    documents = {*(RECEIVER / "reports").glob("*.py"), *RECEIVER.glob("capabilities/*/documents.py")}
    for file in RECEIVER.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        by_name = any(isinstance(n, ast.Name) and n.id == "getattr" for n in nodes) and file not in PASSIVE
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                if file not in PASSIVE or (isinstance(node.value, ast.Name) and node.value.id == "self"):
                    found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and file in documents:
                found.add(node.target.id)
            elif by_name and isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return frozenset(found)


def same_in_core(kind: type[Section]) -> set[str]:
    return {field.name for field in fields(CORE[kind])} if kind in CORE else set()


def test_every_key_is_read_or_has_a_field_of_the_same_name_in_the_core() -> None:
    unread = {
        f"{kind.__name__}.{key}"
        for kind in sections()
        for key in kind.model_fields
        if key not in attributes_read() | same_in_core(kind)
    }
    assert unread == set()


def test_every_field_of_the_policy_is_read() -> None:
    unread = {f"{kind.__name__}.{f.name}" for kind in CORE.values() for f in fields(kind)} - {
        f"{kind.__name__}.{name}" for kind in CORE.values() for name in attributes_read()
    }
    assert unread == set()
