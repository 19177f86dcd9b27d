"""The replay command on traces, and a small trace and configuration for it."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from receiver.cli.main import main

OFFICE_TRACE = Path(__file__).parents[1] / "replay" / "traces" / "office.csv"
TRACE_HEADER = "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod,user_or_team,gpu_type,gpu_util"
ENTRY_KEYS = [
    *("name", "node_hours_second", "node_hours_started", "gpu_hours_second", "gpu_hours_started", "usd"),
    *("utilization", "wait_mean_s", "wait_p50_s", "wait_p95_s", "wait_max_s", "node_starts", "actions", "kills"),
    *("jobs", "jobs_lost", "jobs_unstarted"),
]
CONFIGURATION = """\
tick: 20s
pools:
  - name: l40s
    civo_pool_id: l40s-id
    size: an.g1.l40s.kube.x{gpus}
    resources: {{nvidia.com/gpu: {gpus}}}
    max_nodes: 8
    price_usd_per_hour: {price}
    taints: [{{key: gpu, value: "true", effect: NoSchedule}}]
"""
BUDGET = "budget: {monthly_usd: 6}\n"


def run_replay(*words: str | Path) -> Result:
    """Type the command."""
    return CliRunner().invoke(main, ["replay", *map(str, words)], catch_exceptions=False)


def replay_json(*words: str | Path) -> dict[str, Any]:
    """Type it with --json, and read what it prints."""
    found: dict[str, Any] = json.loads(run_replay(*words, "--json").stdout)
    return found
