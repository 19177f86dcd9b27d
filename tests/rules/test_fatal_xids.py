"""Which XIDs are fatal, of all that a driver may report."""

import json
from pathlib import Path

import pytest

from tests.rules.files import RULES, run
from tests.rules.needed import lean

pytestmark = pytest.mark.usefixtures("each_prometheus")

# NVIDIA's Xid catalog names a reset, a restart or a repair as the immediate action.
FATAL = (46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 154, 156, 158)
EVERY = range(1, 200)


def test_the_xids_after_which_a_gpu_does_not_recover_are_fatal_and_no_other(tmp_path: Path) -> None:
    reported = [f'DCGM_FI_DEV_XID_ERRORS{{Hostname="n1",gpu="{xid}",UUID="g{xid}"}}' for xid in EVERY]
    counted = [f'DCGM_EXP_XID_ERRORS_COUNT{{Hostname="n1",gpu="0",UUID="g0",xid="{xid}"}}' for xid in EVERY]
    series = [
        *({"series": name, "values": str(xid)} for name, xid in zip(reported, EVERY, strict=True)),
        *({"series": name, "values": "1"} for name in counted),
    ]
    fatal = [{"labels": f'{{UUID="g{xid}"}}', "value": xid} for xid in FATAL]
    fatal_counts = [{"labels": f'{{xid="{xid}"}}', "value": 1} for xid in FATAL]
    checks = [
        {"expr": "max by (UUID) (node_gpu:dcgm_xid_fatal:max)", "eval_time": "0m", "exp_samples": fatal},
        {"expr": "max by (xid) (node_gpu:dcgm_xid_fatal:count)", "eval_time": "0m", "exp_samples": fatal_counts},
    ]
    file = tmp_path / "xids.test.yaml"
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    file.write_text(json.dumps({"rule_files": [f"{RULES}/nodes.rules.yaml"], "tests": [test]}), encoding="utf-8")

    tested = run("promtool", "test", "rules", *lean(file, tmp_path))

    assert tested.returncode == 0, tested.stdout + tested.stderr
