"""What Prometheus makes of the query that `PrometheusTelemetry.samples` sends."""

import json
from pathlib import Path

import pytest

from receiver.adapters.monitoring.prometheus import ENGINE, MEMORY, SAMPLES
from tests.rules.files import run

pytestmark = pytest.mark.usefixtures("each_prometheus")


def test_each_gpu_of_a_pod_is_told_by_itself_over_two_minutes(tmp_path: Path) -> None:
    """Series at every half minute; the value of two minutes ago is the mean, whether or not it still counts."""

    def of(series: str, gpu: int) -> str:
        return f'{series}{{namespace="ml",pod="p",node="n",gpu="{gpu}",UUID="g{gpu}"}}'

    values = {
        of(ENGINE, 0): "1x15 0.5 0.2 0.4 0.6 0.8",
        of(MEMORY, 0): "1x15 0.3 0.1 0.5 0.3 0.3",
        of(ENGINE, 1): "0x20",
    }
    expected = [
        ("0", "engine", 0.5),
        ("0", "least_memory", 0.1),
        ("0", "memory", 0.3),
        ("0", "peak_memory", 0.5),
        ("1", "engine", 0.0),
    ]
    samples = [
        {"labels": f'{{namespace="ml",pod="p",node="n",gpu="{gpu}",UUID="g{gpu}",of="{of_what}"}}', "value": value}
        for gpu, of_what, value in expected
    ]
    check = {"expr": f"round({SAMPLES}, 0.01)", "eval_time": "10m", "exp_samples": samples}
    series = [{"series": name, "values": text} for name, text in values.items()]
    test = {"interval": "30s", "input_series": series, "promql_expr_test": [check]}
    file = tmp_path / "samples.test.yaml"
    file.write_text(json.dumps({"rule_files": [], "tests": [test]}))
    tested = run("promtool", "test", "rules", file)
    assert tested.returncode == 0, tested.stdout + tested.stderr
