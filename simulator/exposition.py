"""The Prometheus text format, written by hand: exporters' names and types are kept as they are, right or wrong."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Family:
    """One metric with its samples."""

    name: str
    help: str
    type: str = "gauge"
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)
    suffixed: list[tuple[str, Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, /, **labels: str) -> None:
        """Add a sample."""
        self.samples.append((labels, value))

    def put(self, labels: Mapping[str, str], value: float) -> None:
        """Add a sample whose label names are not known beforehand."""
        self.samples.append((labels, value))

    def observe(self, labels: Mapping[str, str], bounds: Sequence[str], seen: Sequence[float]) -> None:
        """Add a histogram of what was *seen*, its upper *bounds* as the exporter writes them, without ``+Inf``."""
        for bound in (*bounds, "+Inf"):
            upto = sum(1 for value in seen if value <= float(bound))
            self.suffixed.append(("_bucket", {**labels, "le": bound}, upto))
        self.suffixed.append(("_sum", labels, sum(seen)))
        self.suffixed.append(("_count", labels, len(seen)))


def exposed(families: Iterable[Family]) -> str:
    """Return the text of *families*; those without samples are left out."""
    lines = []
    for family in families:
        told = [*(("", labels, value) for labels, value in family.samples), *family.suffixed]
        if not told:
            continue
        lines.append(f"# HELP {family.name} {_escaped(family.help, quotes=False)}")
        lines.append(f"# TYPE {family.name} {family.type}")
        for suffix, labels, value in told:
            shown = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items())
            name = f"{family.name}{suffix}"
            lines.append(f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}")
    return "\n".join(lines) + "\n"


def sanitized(text: str) -> str:
    """Return *text* as kube-state-metrics writes resource names: everything outside [a-zA-Z0-9_] becomes ``_``."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


def label_name(prefix: str, key: str) -> str:
    """Return a label name as kube-state-metrics makes it of a Kubernetes key: sanitized, then snake case."""
    snake = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", sanitized(key))
    return f"{prefix}_{snake.lower()}"


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
