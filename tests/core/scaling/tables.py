"""The tables of docs/guardrails.md, cell by cell: silent sources, and utilization."""

from typing import Any

from receiver.core.model.model import Source
from receiver.core.model.signals import Signal, SignalAction
from tests.core.builders import a_signal

SILENT_SOURCES = [  # the table of docs/guardrails.md
    # source, growth, removal
    (Source.CIVO, False, False),
    (Source.STORE, False, False),
    (Source.KUBERNETES, True, False),
    (Source.DCGM, True, True),
    (Source.PROMETHEUS, False, False),
    (Source.HEARTBEAT, True, False),
    (Source.ALERTMANAGER, True, False),
]

HIGH = a_signal(SignalAction.HOLD, alertname="GpuPoolBusy")
LOW = a_signal(SignalAction.SCALE_DOWN, alertname="GpuPoolUnderutilized")
FIRING: dict[str, tuple[Signal, ...]] = {"high": (HIGH,), "middle": (), "low": (LOW,)}
LEVELS = tuple(FIRING)
Cell = tuple[str, str, bool, bool, int, str]


def rows(
    levels: tuple[str, ...], second: str, waits: tuple[bool, ...], time: tuple[bool, ...], *then: Any
) -> list[Cell]:
    """The cells that one row of a table stands for."""
    return [(level, second, w, t, *then) for level in levels for w in waits for t in time]


BOTH = (False, True)
# utilization, the second node, a pod waits, the hour ends -> nodes, the rule that decides
HOURLY_CELLS: list[Cell] = [
    *rows(LEVELS, "busy", (False,), BOTH, 2, "nothing_wanted"),
    *rows(LEVELS, "busy", (True,), BOTH, 3, "demand"),
    *rows(("high",), "may be emptied", (False,), BOTH, 2, "nothing_wanted"),
    *rows(("middle", "low"), "may be emptied", (False,), (False,), 2, "nothing_wanted"),
    *rows(("middle", "low"), "may be emptied", (False,), (True,), 1, "consolidation"),
    *rows(LEVELS, "may be emptied", (True,), BOTH, 3, "demand"),
    *rows(LEVELS, "idle", (False,), (False,), 2, "nothing_wanted"),
    *rows(LEVELS, "idle", (False,), (True,), 1, "idle_nodes"),
    *rows(LEVELS, "idle", (True,), BOTH, 2, "nothing_wanted"),
]
# utilization, the second node, a pod waits, idle_for has passed -> nodes, the rule that decides
SECOND_CELLS: list[Cell] = [
    *rows(LEVELS, "busy", (False,), BOTH, 2, "nothing_wanted"),
    *rows(LEVELS, "busy", (True,), BOTH, 3, "demand"),
    *rows(("high", "middle"), "may be emptied", (False,), BOTH, 2, "nothing_wanted"),
    *rows(("low",), "may be emptied", (False,), BOTH, 1, "consolidation"),
    *rows(LEVELS, "may be emptied", (True,), BOTH, 3, "demand"),
    *rows(LEVELS, "idle", (False,), (False,), 2, "nothing_wanted"),
    *rows(LEVELS, "idle", (False,), (True,), 1, "idle_nodes"),
    *rows(LEVELS, "idle", (True,), BOTH, 2, "nothing_wanted"),
]
