"""Every message by name, and how it comes about."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec

from receiver.capabilities import registry
from receiver.core.notices.grouping import PageLinks, Seal
from receiver.core.notices.notice import Notice
from tests.core.notices import of_configuration, of_installations, of_many, of_money, of_people, of_pools

SEAL = Seal("operator-token-of-thirty-two-chars", "the-random-key-that-the-store-keeps")
PAGES = PageLinks(public_url="https://gpu.example.com", docs_url="https://git.example.com/gpu/docs", seal=lambda: SEAL)
PARTS: Mapping[str, Mapping[str, Callable[[], Notice]]] = {
    "Pools, nodes, waiting work and sources": of_pools.CASES,
    "Budgets, charges and reports": of_money.CASES,
    "Overrides and evictions": of_people.CASES,
    "Several messages as one": of_many.CASES,
    "Configuration file": of_configuration.CASES,
    "Other installations in the cluster": of_installations.CASES,
}


def _of_capabilities() -> Iterator[tuple[str, Mapping[str, Callable[[], Notice]]]]:
    """Yield each capability that composes messages, with its cases."""
    for name in registry.NAMES:
        module = f"tests.capabilities.{name}.messages"
        if find_spec(module) is not None:
            yield name, import_module(module).CASES


ADDED: Mapping[str, Mapping[str, Callable[[], Notice]]] = dict(_of_capabilities())
CASES: Mapping[str, Callable[[], Notice]] = {
    name: case for part in (*PARTS.values(), *ADDED.values()) for name, case in part.items()
}
