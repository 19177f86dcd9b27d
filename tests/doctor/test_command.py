"""`gpu-autoscaler doctor` as a person calls it."""

import json
from pathlib import Path

from click import unstyle
from click.testing import CliRunner, Result

from receiver.adapters.store import open_store
from receiver.cli.doctor import round_lines
from receiver.cli.main import main
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from receiver.doctor.checks import Finding
from receiver.doctor.rounds import AREAS
from simulator.server import Simulator
from tests.doctor.builders import GPU_POOL, document, environ
from tests.simulator.builders import CLUSTER


def doctor(env: dict[str, str], *arguments: str) -> Result:
    return CliRunner(env=env).invoke(main, ["doctor", *arguments])


FOUND = (
    (
        "configuration",
        [Finding(f"configuration.{name}", "pass", "fine") for name in ("loads", "odd")],
    ),
    (
        "civo",
        [
            Finding("civo.key", "pass", "Civo accepts the key"),
            Finding("civo.prices", "fail", "no price is known for l40s", "give the pool a price"),
            Finding("civo.quota", "skip", "the quota is unknown"),
        ],
    ),
    ("kueue", [Finding("kueue.flavors", "skip", "no Kueue"), Finding("kueue.flavors", "skip", "no Kueue")]),
    ("rules", [Finding("rules.timely", "warn", "evaluated every 5m", "set interval: 30s")]),
)


def test_problems_come_first_by_area_and_each_other_area_is_one_line() -> None:
    assert list(map(unstyle, round_lines(FOUND))) == [
        "Civo",
        "  FAIL  civo.prices  no price is known for l40s",
        "                     what to do: give the pool a price",
        "",
        "Rules",
        "  WARN  rules.timely  evaluated every 5m",
        "                      what to do: set interval: 30s",
        "",
        "Configuration  2 passed",
        "Civo           1 passed, skipped: quota",
        "Kueue          skipped: flavors",
        "to check again: gpu-autoscaler doctor --only civo --only rules",
    ]


def test_a_verbose_round_has_every_finding_in_the_order_of_the_areas() -> None:
    lines = list(map(unstyle, round_lines(FOUND, verbose=True)))
    assert [line.split()[1] for line in lines if line.startswith("  ") and line[2] != " "] == [
        "configuration.loads", "configuration.odd", "civo.key", "civo.prices", "civo.quota",
        "kueue.flavors", "kueue.flavors", "rules.timely",
    ]  # fmt: skip


def test_the_checks_are_listed_without_running_one() -> None:
    lines = doctor({}, "--list").stdout.splitlines()
    assert "civo.key                               Civo accepts `CIVO_API_KEY`" in lines
    assert {line.partition(".")[0] for line in lines} == {*(area.name for area in AREAS), "smoke", "release"}
    of_civo = doctor({}, "--list", "--only", "civo").stdout.splitlines()
    assert [line.split() for line in of_civo] == [line.split() for line in lines if line.startswith("civo.")]
    listed = json.loads(doctor({}, "--list", "--json").stdout)
    assert [check["check"] for check in listed] == [line.split()[0] for line in lines]


def test_a_healthy_area_is_one_line_and_exits_with_zero(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path), "--only", "configuration")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["Configuration  7 passed", "7 passed, 0 warnings, 0 failed, 0 skipped"]


def test_the_summary_names_the_cluster(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path, document(cluster_name="prod-lon1")), "--only", "configuration")
    assert done.stdout.splitlines()[-1] == "prod-lon1: 7 passed, 0 warnings, 0 failed, 0 skipped"


def test_a_warning_has_its_remedy_below_it_and_does_not_fail(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path, document(mode="observe")), "--only", "configuration")
    assert done.exit_code == 0
    heading, warning, remedy, *_ = done.stdout.splitlines()
    assert heading == "Configuration"
    assert warning.startswith("  WARN  configuration.mode")
    assert "what to do: once its decisions are what you want" in remedy


def test_problems_leaves_out_what_is_good_news_but_counts_it(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path, document(mode="observe")), "--only", "configuration", "--problems")
    _, warning, remedy, _, again, summary = done.stdout.splitlines()
    assert warning.startswith("  WARN  configuration.mode")
    assert "what to do:" in remedy
    assert again == "to check again: gpu-autoscaler doctor --only configuration"
    assert summary == "6 passed, 1 warning, 0 failed, 0 skipped"


def test_json_has_the_promised_keys(tmp_path: Path) -> None:
    told = json.loads(doctor(environ(tmp_path), "--json", "--only", "configuration").stdout)
    assert list(told) == ["version", "at", "mode", "summary", "findings"]
    assert told["summary"] == {"pass": 7, "warn": 0, "fail": 0, "skip": 0}
    assert list(told["findings"][0]) == ["area", "check", "verdict", "said", "remedy"]


def test_a_configuration_that_cannot_be_used_is_a_finding_each_and_two(tmp_path: Path) -> None:
    env = environ(tmp_path, document(mode="sometimes", pools=[]))
    del env["CIVO_API_KEY"]
    done = doctor({**env, "CIVO_API_KEY": ""}, "--json")
    assert done.exit_code == 2
    told = json.loads(done.stdout)
    assert told["mode"] is None
    assert {f["check"] for f in told["findings"]} == {"configuration.loads"}
    assert any("CIVO_API_KEY" in f["said"] for f in told["findings"])
    assert any("mode" in f["said"] for f in told["findings"])


def test_an_area_that_is_not_there_is_a_wrong_command_line(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path), "--only", "moon")
    assert done.exit_code == 2
    assert "unknown area moon; use one of: configuration" in done.stderr


MINIMAL = document(pools=[{"civo_pool_id": GPU_POOL, "max_nodes": 4}])


def test_pools_are_completed_from_civo_before_anything_is_checked(tmp_path: Path, sim: Simulator) -> None:
    done = doctor(environ(tmp_path, MINIMAL, CIVO_API_URL=sim.url), "--only", "configuration", "--only", "civo", "-v")
    assert "1 pool configured, completed from Civo: l40s" in done.stdout
    assert "civo.pool_labels" in done.stdout
    assert done.exit_code == 0


def test_without_civo_the_other_checks_run_and_the_first_says_what_is_not_known(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path, MINIMAL), "--only", "configuration")
    assert done.exit_code == 1
    assert f"nothing is decided until Civo has said size and GPUs of {GPU_POOL}: the request to Civo" in done.stdout
    assert "configuration.links" not in done.stdout


def at_civo(cluster: str) -> PoolFacts:
    return PoolFacts(cluster=cluster, pools={GPU_POOL: PoolAtCivo(size="an.g1.h100.kube.x1")})


def test_a_size_that_the_server_remembers_of_another_cluster_is_not(tmp_path: Path, sim: Simulator) -> None:
    env = environ(tmp_path, MINIMAL, CIVO_API_URL=sim.url)
    store = open_store(env["GPU_AUTOSCALER_DATABASE_URL"])
    store.keep_pool_facts(at_civo("LON1/other"))
    store.close()
    assert "an.g1.h100.kube.x1" not in doctor(env, "--only", "civo").stdout


def test_a_size_that_the_server_remembers_is_compared_with_the_one_at_civo(tmp_path: Path, sim: Simulator) -> None:
    env = environ(tmp_path, MINIMAL, CIVO_API_URL=sim.url)
    store = open_store(env["GPU_AUTOSCALER_DATABASE_URL"])
    store.keep_pool_facts(at_civo(f"LON1/{CLUSTER}"))
    store.close()
    done = doctor(env, "--only", "civo")
    assert (
        "nodes of pool h100 are an.g1.l40s.kube.x1 at Civo, and an.g1.h100.kube.x1 in the configuration" in done.stdout
    )
    assert "if the pool was replaced, set `size` to its size at Civo" in done.stdout


def test_a_pool_without_gpus_is_a_finding_with_its_remedy(tmp_path: Path, sim: Simulator) -> None:
    said = document(pools=[{"civo_pool_id": "pool-cpu", "max_nodes": 4}])
    done = doctor(environ(tmp_path, said, CIVO_API_URL=sim.url))
    assert done.exit_code == 2
    assert "pools[0].resources: g4s.kube.medium, the size of pool pool-cpu, has no GPU at Civo" in done.stdout
