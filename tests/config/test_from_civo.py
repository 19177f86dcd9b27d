"""`check-config` and `replay` on a file that leaves its pools to Civo, with and without Civo."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from simulator.server import Simulator
from tests.adapters.wire import unused_url
from tests.config.builders import one_pool
from tests.simulator.builders import CLUSTER, GPU_POOL, KEY, starting

LEFT = "name, size, resources, labels, taints"
TRACE = "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod\na,0,60,1,1,1\n"


@pytest.fixture(scope="module")
def civo() -> Iterator[Simulator]:
    with starting() as start:
        yield start()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "config.yaml"
    found.write_text(one_pool(pool=f"\n  - {{civo_pool_id: {GPU_POOL}, max_nodes: 4}}\n"))
    return found


def run(*words: str | Path, url: str = "") -> Result:
    at_civo = {"CIVO_API_KEY": KEY, "CIVO_CLUSTER_ID": CLUSTER, "CIVO_REGION": "LON1", "CIVO_API_URL": url}
    return CliRunner(env=at_civo if url else {}).invoke(main, list(map(str, words)), catch_exceptions=False)


def test_without_civo_check_config_says_what_will_be_read(file: Path) -> None:
    done = run("check-config", file)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    start = lines.index(f"pool {GPU_POOL}")
    assert lines[start + 1 : start + 3] == [f"  Civo     will say {LEFT}", "  nodes    0 to 4, standby 0"]


def test_with_civo_check_config_shows_what_was_read(file: Path, civo: Simulator) -> None:
    done = run("check-config", file, url=civo.url)
    assert f"  Civo     says {LEFT}\n  size     an.g1.l40s.kube.x1, $1.29 per node-hour" in done.stdout


def test_a_civo_that_does_not_answer_is_a_warning_of_check_config(file: Path) -> None:
    done = run("check-config", file, url=unused_url())
    assert done.exit_code == 0
    assert "warning: the request to Civo at" in done.stdout


def test_a_pool_that_civo_does_not_have_is_a_mistake_of_check_config(file: Path, civo: Simulator) -> None:
    file.write_text(file.read_text().replace(GPU_POOL, "lost"))
    done = run("check-config", file, url=civo.url)
    assert done.exit_code == 2
    assert "pools[0].civo_pool_id: the cluster has no pool lost; use one of: " in done.stderr


def test_a_replay_asks_civo_for_the_pools(file: Path, civo: Simulator) -> None:
    trace = file.with_name("trace.csv")
    trace.write_text(TRACE)
    done = run("replay", "--trace", trace, "--config", file, url=civo.url)
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_replay_without_civo_says_what_to_set(file: Path) -> None:
    trace = file.with_name("trace.csv")
    trace.write_text(TRACE)
    done = run("replay", "--trace", trace, "--config", file)
    assert done.exit_code == 2
    assert done.stderr.startswith(
        f"{file}: it leaves size or GPUs of a pool to Civo; write them into a copy, or set CIVO_API_KEY, CIVO_REGION, "
        "CIVO_CLUSTER_ID (docs/getting-started.md)"
    )
