"""The keys of pools that a file may leave to Civo, filled in from what Civo says. Pure.

Everything behind this module (`receiver.config.pools.PoolSpec`, `receiver.core.model.policy.Pool`) is complete.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from receiver.config.prices import shipped
from receiver.config.values import Document, Mistake, spell
from receiver.core.model.pool_facts import GPU, PoolAtCivo, PoolFacts

FROM_CIVO = ("name", "size", "resources", "labels", "taints")
NEEDED = ("name", "size", "resources")  # a pool is none without them; without labels and taints it has none
# What stands for the needed keys until Civo answers, so that everything else can be checked.
UNKNOWN: Mapping[str, Any] = {"size": "unknown", "resources": {GPU: "1"}}
_SIZE = re.compile(r"(?:an\.)?(?:g\d+\.)?(?P<kind>[A-Za-z0-9-]+)\.(?:kube|k3s)\.x(?P<gpus>\d+)")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A *document* whose pools have every needed key. *left* are the keys that the file leaves to Civo, by the place of
    the pool; *pending* are the places of pools for which Civo has not said what is needed."""

    document: Document
    mistakes: Sequence[Mistake] = ()
    left: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    pending: frozenset[int] = frozenset()


def completed(document: Document, facts: PoolFacts | None) -> Completion:
    """Return *document* with what its pools leave out; what is written stays. *facts* are None before Civo answered."""
    pools = document.get("pools")
    if not isinstance(pools, list):
        return Completion(document=document)
    filling = _Filling(pools, facts)
    whole_pools = [filling.pool(index, raw) if isinstance(raw, dict) else raw for index, raw in enumerate(pools)]
    whole = {**document, "pools": whole_pools}
    return Completion(
        document=_without_pool_filters(whole) if filling.pending else whole,
        mistakes=tuple(filling.mistakes),
        left=filling.left,
        pending=frozenset(filling.pending),
    )


def named(document: Document, whole: Document) -> str | None:
    """Return *document* as YAML with the names of the pools of *whole*, by which people call them; None if it has
    them."""
    pools = document.get("pools")
    if not isinstance(pools, list) or all("name" in pool for pool in pools if isinstance(pool, dict)):
        return None
    named_pools = [{"name": whole_pool["name"], **raw} for raw, whole_pool in zip(pools, whole["pools"], strict=True)]
    return str(yaml.dump({**document, "pools": named_pools}, Dumper=_DUMPER, sort_keys=False, allow_unicode=True))


def short_name(size: str) -> str:
    """Return what people call a node of *size*: ``l40s``, ``h100-x8``; the size itself where that is unknown."""
    size_price, parsed = shipped().sizes.get(size), _SIZE.fullmatch(size)
    if size_price is not None and size_price.kind:
        kind, gpus = size_price.kind.lower(), size_price.gpus or 1
    elif parsed is not None:
        kind, gpus = parsed["kind"].lower(), int(parsed["gpus"])
    else:
        return size
    return f"{kind}-x{gpus}" if gpus > 1 else kind


def _without_pool_filters(document: Document) -> Document:
    """Leave out `notify.destinations.*.pools`: a pool may be named there whose name is not known yet."""
    notify = document.get("notify")
    filters = notify.get("destinations") if isinstance(notify, dict) else None
    if not isinstance(notify, dict) or not isinstance(filters, dict):
        return document
    destinations = {
        name: {key: value for key, value in entry.items() if key != "pools"} if isinstance(entry, dict) else entry
        for name, entry in filters.items()
    }
    return {**document, "notify": {**notify, "destinations": destinations}}


class _Filling:
    def __init__(self, pools: Sequence[Any], facts: PoolFacts | None) -> None:
        self._facts = facts
        called = [pool.get(key) for pool in pools if isinstance(pool, dict) for key in ("name", "civo_pool_id")]
        self._taken = {word for word in called if isinstance(word, str)}
        self.mistakes: list[Mistake] = []
        self.left: dict[int, tuple[str, ...]] = {}
        self.pending: set[int] = set()

    def pool(self, index: int, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        civo_keys = tuple(key for key in FROM_CIVO if key not in raw)
        if not civo_keys:
            return raw
        self.left[index] = civo_keys
        at = self._facts.pools.get(str(raw.get("civo_pool_id"))) if self._facts is not None else None
        defaults = dict(self._said(at))
        written = raw.get("size", "")
        size = (written or defaults.get("size", "")) if isinstance(written, str) else ""
        wrong = list(self._wrong(index, raw, at, size)) if self._facts is not None else []
        self.mistakes += wrong
        if self._facts is not None and size and "resources" in civo_keys:
            defaults["resources"] = {GPU: str(self._facts.gpus.get(size) or 0)}
        if size and "name" in civo_keys:
            defaults["name"] = self._name(raw, size)
        filled = {key: defaults[key] for key in civo_keys if key in defaults}
        if missing := [key for key in NEEDED if key in civo_keys and key not in filled]:
            self.pending.add(index)
            filled |= {key: UNKNOWN.get(key, f"pool-{index}") for key in missing}
        elif wrong:
            filled |= UNKNOWN if "resources" in civo_keys else {}
        return {**filled, **raw}

    @staticmethod
    def _said(at: PoolAtCivo | None) -> Iterator[tuple[str, Any]]:
        if at is None:
            return
        if at.size:
            yield "size", at.size
        if at.labels is not None:
            yield "labels", dict(at.labels)
        if at.taints is not None:
            yield "taints", [{"key": t.key, "value": t.value, "effect": t.effect} for t in at.taints]

    def _name(self, raw: Mapping[str, Any], size: str) -> str:
        """Return the short name of *size* for the first pool of it, else the pool's id."""
        name = short_name(size)
        if name in self._taken:
            return str(raw.get("civo_pool_id"))
        self._taken.add(name)
        return name

    def _wrong(self, index: int, raw: Mapping[str, Any], at: PoolAtCivo | None, size: str) -> Iterator[Mistake]:
        """Yield why Civo's answer does not complete the pool."""
        assert self._facts is not None
        pool = raw.get("civo_pool_id")
        if not isinstance(pool, str) or not isinstance(raw.get("size", ""), str):
            return  # a mistake of its own
        if not size:
            choices = ", ".join(f"{name} ({p.size or 'size unknown'})" for name, p in self._facts.pools.items())
            problem = f"the cluster has no pool {pool}" if at is None else f"Civo does not say the size of pool {pool}"
            choose = f"use one of: {choices}" if choices else "create the pool, or check CIVO_CLUSTER_ID"
            remedy = choose if at is None else "write size and resources of the pool"
            yield Mistake(path=spell(("pools", index, "civo_pool_id")), problem=problem, remedy=remedy)
        elif "resources" not in raw:
            path, gpus = spell(("pools", index, "resources")), self._facts.gpus.get(size)
            if gpus is None:
                problem = f"Civo gives no number of GPUs for {size}, the size of pool {pool}"
                yield Mistake(path=path, problem=problem, remedy=f"write the GPUs of one node: {{{GPU}: 1}}")
            elif gpus < 1:
                problem = f"{size}, the size of pool {pool}, has no GPU at Civo"
                yield Mistake(path=path, problem=problem, remedy="remove the pool, or write the GPUs of one node")
