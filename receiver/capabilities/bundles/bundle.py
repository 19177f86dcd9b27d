"""A decision with everything it was made from in one file without names, for `replay --decision` on another machine.

Every word that is not the program's own, Kubernetes' or a number is replaced, the same one by the same, in an order
that sorts alike: names break ties. So the decision stays the same, which is checked before a file is written.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from receiver import installed_version
from receiver.adapters.store.decisions import FORMAT as GROUNDS_FORMAT
from receiver.adapters.store.decisions import decompressed, grounds_values
from receiver.capabilities.bundles.comparison import FIELDS, Said, said
from receiver.capabilities.bundles.repetition import as_then, made_again, read
from receiver.core.explain.rules import RULES
from receiver.core.model.civo_sizes import labels_of_size
from receiver.core.model.devices import CLAIM, COUNTER, KIND
from receiver.core.model.overrides import EVERY_POOL
from receiver.core.model.pods import COMPUTE, PRODUCT_LABEL, SYSTEM_NAMESPACE
from receiver.core.model.policy import POOL_LABEL, STARTUP_TAINTS, Policy, Pool
from receiver.core.model.room_requests import RoomRequest
from receiver.core.model.shares import GPU
from receiver.core.model.signals import COMPONENT, UNASSIGNED
from receiver.core.scaling.bounds import TOPIC, topic_of
from receiver.core.scaling.demand import CORDON, IGNORED_NAMESPACES
from receiver.core.scaling.packing import KUEUE_QUEUE_LABEL
from receiver.core.scaling.template import FORMER_LABELS, OWN, PASSING_TAINTS, REGION_LABELS
from receiver.ports import WontWork
from receiver.step.parts import Additions

FORMAT = 1
WORD = re.compile(r"\w[\w.-]*")
PLAIN = re.compile(r"-?\d+(\.\d+)?%?|\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?|\d{8}T[\d.]+Z?|-?P[\dDTHMS.]+")
DOMAINS = (".kubernetes.io", ".k8s.io", ".x-k8s.io", ".nvidia.com", ".civo.com", ".volcano.sh", ".cilium.io")
ZONES = frozenset({"timezone", "location"})
LEFT_OUT = ("reports", "gpu_prices", "charge_prices", "queue_wait")  # of the policy
KUBERNETES = (
    "In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute true false amd64 arm64 linux Job "
    "Node DaemonSet ReplicaSet StatefulSet ReplicationController Deployment PodGroup Workload kubernetes.io k8s.io "
    "nvidia.com amd.com kubernetes.io/hostname topology.kubernetes.io/zone topology.kubernetes.io/region"
)


class NotFaithfulError(Exception):
    """Without the names the decision would be another one."""


def bundle(then: Said, grounds: Mapping[str, Any], additions: Additions) -> dict[str, Any]:
    """Return decision *then* (as GET /api/v1/decisions/ID) and its inputs (as its *grounds*) without names.

    The sentences of its reasons are those of this version, made from the inputs without names. Raises
    NotFaithfulError where names decide, WontWork where this version cannot read the inputs.
    """
    made_from = read(grounds)
    spend = replace(made_from.facts.spend, charges=None)
    bodies = grounds_values(replace(made_from, facts=replace(made_from.facts, spend=spend)))  # in this version's names
    facts, policy = decompressed(bodies["facts"]), _without(decompressed(bodies["policy"]), LEFT_OUT)
    own_words = _own_words(policy) | _words_of(made_from.facts.other_work.requests)
    redact = Redaction({"facts": facts, "policy": policy, "then": _figures(then)}, own_words)
    inputs = {"format": GROUNDS_FORMAT, "facts": redact(facts), "policy": redact(policy)}
    policy_now = read({**inputs, "facts": facts}).policy
    announced = _announced(facts["earlier"]["announced"], made_from.policy, policy_now)
    inputs["facts"]["earlier"]["announced"] = dict(announced)
    pool = redact(str(then["pool"]))
    before, after = (
        said(made_again(made_from, str(then["pool"]), as_then(then, additions))),
        said(made_again(read(inputs), pool, as_then(then, additions))),
    )
    if redact(_figures(before)) != _figures(after):
        raise NotFaithfulError
    sentences: dict[tuple[str, int], list[str]] = {}  # of the reasons of one rule at one target, in their order
    for r in after["reasons"]:
        sentences.setdefault((r["rule"], r["target"]), []).append(r["detail"])
    reasons = []
    for r in _figures(then)["reasons"]:
        details = sentences.get((r["rule"], r["target"]))
        reasons.append({**r, "detail": details.pop(0) if details else ""})
    origin = {name: then.get(name) for name in ("id", "at", "mode", "version")}
    decision = {**origin, **redact(_figures(then)), "pool": pool, "pool_name": redact(str(then["pool_name"]))}
    return {"bundle": FORMAT, "version": installed_version(), "decision": {**decision, "reasons": reasons}, **inputs}


def _announced(topics: Mapping[str, Any], was: Policy, now: Policy) -> Iterator[tuple[str, Any]]:
    """Yield what of *topics* the windows of the policy *now* announced: a topic has a digest of the window's name."""
    for before, after in zip(was.pools, now.pools, strict=True):
        for old, new in zip(before.windows, after.windows, strict=True):
            if (topic := topic_of(old, before)) in topics:
                yield topic_of(new, after), topics[topic]


def write(path: Path, then: Said, grounds: Mapping[str, Any], additions: Additions) -> None:
    """Write the bundle of a decision to *path*. Raises what `bundle` raises, and OSError."""
    path.write_text(json.dumps(bundle(then, grounds, additions), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_bundle(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the decision and its inputs in the file at *path*. Raises WontWork unless it is a bundle."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["bundle"] > FORMAT:
            raise WontWork(f"{path}: a later version wrote it: use that version", code="bundle")
        return content["decision"], {name: content[name] for name in ("format", "facts", "policy")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WontWork(f"{path}: is not a bundle of a decision ({type(error).__name__})", code="bundle") from error


def _without(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def _figures(decision: Said) -> dict[str, Any]:
    """What must stay the same: everything but sentences."""
    reasons = [{name: r[name] for name in ("rule", "verdict", "target")} for r in decision["reasons"]]
    return {**{name: decision[name] for name in FIELDS}, "reasons": reasons}


class Redaction:
    """Replaces the words of a JSON document; a text with spaces is one word."""

    def __init__(self, document: object, public_words: frozenset[str]) -> None:
        self._known = public_words
        words = sorted({word for text in _texts(document) for word in self._foreign(text)})
        width = len(str(len(words)))
        self._names = {word: f"name-{number:0{width}}" for number, word in enumerate(words, 1)}

    def __call__(self, value: object, key: str = "") -> Any:
        """Return *value* with other words; *key* is that of a mapping which it stands under."""
        if isinstance(value, str):
            return value if _stays(value, key) else self._text(value)
        if isinstance(value, Mapping):
            return {self._text(name): self(each, name) for name, each in value.items()}
        return [self(each, key) for each in value] if isinstance(value, list) else value

    def _text(self, text: str) -> str:
        if " " in text:
            return self._names.get(text, text)
        return text if PLAIN.fullmatch(text) else WORD.sub(lambda match: self._names.get(match[0], match[0]), text)

    def _foreign(self, text: str) -> Iterator[str]:
        """The words of *text* that are to be replaced."""
        if " " in text:
            yield text
        elif not PLAIN.fullmatch(text):
            words = (word for word in WORD.findall(text) if not PLAIN.fullmatch(word))
            yield from (word for word in words if word not in self._known and not f".{word}".endswith(DOMAINS))


def _stays(text: str, key: str) -> bool:
    """True for a time zone and a GPU's product; a label may be called ``location`` too."""
    return key == PRODUCT_LABEL or (key in ZONES and text in _zones())


_zones = cache(available_timezones)  # it searches the disk


def _texts(document: object, key: str = "") -> Iterator[str]:
    if isinstance(document, str):
        if not _stays(document, key):
            yield document
    elif isinstance(document, Mapping):
        for name, value in document.items():
            yield name
            yield from _texts(value, name)
    elif isinstance(document, list):
        for value in document:
            yield from _texts(value, key)


def _own_words(policy: Mapping[str, Any]) -> frozenset[str]:
    """The words that stay: the program's, and the sizes and resources of the pools."""
    pools = policy.get("pools") or ()
    resources = [name for pool in pools for name in pool["resources"]]
    kinds = policy.get("gpu_kinds") or {}
    sizes = [pool["size"] for pool in pools]
    of_sizes = [labels_of_size(size, units) for size in sizes for units in (None, 0)]
    texts = [
        *sizes,
        *(word for labels in of_sizes for key, values in labels.items() for word in (key, *values)),
        *resources,
        *(f"{r}.replicas" for r in resources),
        *kinds,
        *kinds.values(),
    ]
    return _vocabulary() | {word for text in texts for word in WORD.findall(text)}


def _words_of(requests: Iterable[RoomRequest]) -> frozenset[str]:
    """The words of capabilities in *requests*, which are the program's."""
    texts = [text for request in requests for text in (request.kind, *request.terms, *request.terms.values())]
    return frozenset(word for text in texts for word in (text, *WORD.findall(text)))


@cache
def _vocabulary() -> frozenset[str]:
    """Field names, the values of enumerations, rules, and what code compares names with."""
    vocabulary = {
        *RULES,
        *FIELDS,
        *COMPUTE,
        *IGNORED_NAMESPACES,
        SYSTEM_NAMESPACE,
        COMPONENT,
        UNASSIGNED,
        EVERY_POOL,
        "reasons",
    }
    labels = Pool(id="", name="", size="", resources={}, max_nodes=0).offered_labels
    texts = (*labels, *STARTUP_TAINTS, *PASSING_TAINTS, CORDON.key, POOL_LABEL, KUEUE_QUEUE_LABEL, GPU, PRODUCT_LABEL)
    texts += (CLAIM, KIND, COUNTER, *REGION_LABELS, *FORMER_LABELS, OWN)
    vocabulary |= {word for text in (*texts, KUBERNETES, TOPIC) for word in WORD.findall(text)}
    for name, module in list(sys.modules.items()):
        for kind in vars(module).values() if name.startswith("receiver.core.") else ():
            if isinstance(kind, type) and issubclass(kind, StrEnum):
                vocabulary |= {str(member) for member in kind}
            elif isinstance(kind, type) and is_dataclass(kind):
                vocabulary |= {field.name for field in fields(kind)}
    return frozenset(vocabulary)
