"""The rules that this version ships, as `python -m tools.shipped_rules` writes them beside this module.

The files in ``rules/`` are installed into Prometheus and not with this program, so it carries what it compares with.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedRule:
    """A recording or an alert.

    *hold* is its ``for`` as written, *interval* that of its group. *reads* are the metrics, not the recordings, that
    its expression names; *needs* those without which it is empty, whatever it reads them through.
    """

    file: str
    group: str
    interval: str
    name: str
    kind: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    hold: str = "0s"
    runbook: str = ""
    reads: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def is_alert(self) -> bool:
        """True for an alert, False for a recording."""
        return self.kind == "alerting"


@cache
def shipped_rules() -> tuple[ShippedRule, ...]:
    """Return every rule, in the order of files, groups and rules."""
    documents = json.loads(files(__package__).joinpath("shipped_rules.json").read_text(encoding="utf-8"))
    return tuple(_rule(document) for document in documents)


def _rule(document: Mapping[str, Any]) -> ShippedRule:
    said: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in document.items()}
    return ShippedRule(**said)


def shipped_alerts() -> tuple[ShippedRule, ...]:
    """Return the alerts alone."""
    return tuple(rule for rule in shipped_rules() if rule.is_alert)


def read_by(rules: Sequence[ShippedRule], prefix: str) -> tuple[str, ...]:
    """Return the metrics whose name begins with *prefix* that any of *rules* reads, in order."""
    return tuple(sorted({name for rule in rules for name in rule.reads if name.startswith(prefix)}))


def asleep_without(rules: Sequence[ShippedRule], missing: Sequence[str]) -> tuple[str, ...]:
    """Return the alerts among *rules* that cannot fire while the metrics *missing* are not there, by name."""
    gone = set(missing)
    return tuple(dict.fromkeys(rule.name for rule in rules if rule.is_alert and gone & set(rule.needs)))
