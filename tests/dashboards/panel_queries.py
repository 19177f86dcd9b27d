"""Queries of dashboards, and what promtool says that they answer."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.rules.files import run
from tools.grafana.files import DASHBOARDS, EVERYTHING, JSON, filled, panels


def panel_query(dashboard: str, title: str, ref: str = "A") -> str:
    """Return a panel's query."""
    panel = next(p for p in panels(DASHBOARDS[f"gpu-autoscaler-{dashboard}"]) if p["title"] == title)
    found: str = next(t["expr"] for t in panel["targets"] if t["refId"] == ref)
    return found


def assert_answer(
    folder: Path,
    expr: str,
    series: Mapping[str, str],
    answer: list[JSON],
    chosen: Mapping[str, str] = EVERYTHING,
    at: str = "10m",
) -> None:
    """See with promtool that *expr* after ten minutes, or *at* that time, answers *answer* on *series*."""
    test = {
        "rule_files": [],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": filled(expr, chosen), "eval_time": at, "exp_samples": answer},
                ],
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(json.dumps(test))
    found = run("promtool", "test", "rules", file)
    assert found.returncode == 0, found.stdout + found.stderr
