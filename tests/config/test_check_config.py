"""`gpu-autoscaler check-config`, `--version` and `--help`: what a person reads, and the status."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from receiver import installed_version
from receiver.cli.main import main
from receiver.config.model import Configuration
from receiver.config.pools import PoolSpec
from receiver.config.show import DESCRIBED, DESCRIBED_OF_A_POOL
from tests.config.builders import ENVIRONMENT, one_pool


def run(*arguments: str, **environ: str) -> Result:
    """Run the command in this process, with *environ* alone; a process of its own takes a second."""
    with patch.dict(os.environ, environ, clear=True):
        return CliRunner().invoke(main, arguments)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(
        one_pool(
            "min_nodes: 1",
            "standby_nodes: 1",
            "windows:",
            "  - {name: nights, location: Europe/London, times: [{start_time: 20:00, end_time: 24:00}], min_nodes: 0}",
            "  - {name: end, days_of_month: ['-2:-1'], weekdays: [monday], months: [1:3], years: [2026], max_nodes: 4}",
            "  - {name: calm, standby_nodes: 0}",
        )
    )
    return path


def test_a_right_file_is_shown_as_understood_without_any_environment(file: Path) -> None:
    done = run("check-config", str(file))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "mode observe, a step at least every 10s",
        "budget $5,000.00 a month (UTC): warn at 50%, hold at 80%, stop at 100%",
        "",
        "pool l40s (5f3c)",
        "  Civo     says labels, taints",
        "  size     an.g1.l40s.kube.x1, $1.29 per node-hour",
        "  GPUs     1 per node (1 nvidia.com/gpu)",
        "  nodes    1 to 8, standby 1",
        "  window   nights: 20:00-24:00 Europe/London: at least 0",
        "  window   end: monday; day -2 to -1; january to march; 2026 UTC: at most 4",
        "  window   calm: always: standby 0",
        "",
        "objective balanced",
        "prices https://www.civo.com/pricing (2026-08-22)",
        "prometheus url http://prometheus:9090",
        "alertmanager urls http://alertmanager:9093",
    ]


def test_the_keys_that_most_clusters_set_come_before_the_pools_and_the_others_after_them(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    first = (
        "cluster_name: prod\nbudget: {monthly_usd: 5000}\nlimits: {max_gpus: 64}\nattribution: {team: squad}\n"
        "public_url: https://gpu.example.com\nnotify: {destinations: {pager: {level: failure}}}\n"
        "idle_shutdown: {grace: 20m}\n"
    )
    file.write_text(one_pool(top=f"kueue: {{demand: queued}}\nbilling: {{granularity: 1h}}\n{first}"))
    lines = run("check-config", str(file)).stdout.splitlines()
    keys = [line.split(" ")[0] for line in lines if line and not line.startswith((" ", "warning"))]
    assert keys == [
        "cluster", "mode", "messages", "budget", "limits", "attribution", "notify", "idle_shutdown", "pool",
        "objective", "messages", "prices", "billing", "kueue",
    ]  # fmt: skip


def test_an_amount_that_was_stated_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(one_pool(top="budget: {monthly_usd: 5000, spent_usd_stated: {month: 2026-11, usd: 1200}}\n"))
    assert "  stated   2026-11 had cost $1,200.00" in run("check-config", str(file)).stdout.splitlines()


def test_where_messages_lead_to_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(one_pool(top="public_url: https://gpu.example.com/\ndocs_url: https://git.example.com/docs\n"))
    shown = run("check-config", str(file)).stdout.splitlines()
    assert "messages link to pages at https://gpu.example.com" in shown
    assert "messages link to documents at https://git.example.com/docs" in shown
    file.write_text(one_pool(top="public_url: https://gpu.example.com/\n"))
    shown = run("check-config", str(file)).stdout.splitlines()
    assert "messages link to documents at https://gpu.example.com/docs" in shown


@pytest.mark.parametrize(
    ("approval", "line"),
    [
        (
            "{removals: true, growth_above_usd_per_hour: 20, wait: 10m}",
            (
                "  asks     before removals and growth above $20.00 an hour; "
                "after 10m without an answer the change is made"
            ),
        ),
        (
            "{removals: true, unanswered: hold}",
            "  asks     before removals; after 15m without an answer it is not made",
        ),
    ],
)
def test_what_people_are_asked_about_is_shown(tmp_path: Path, approval: str, line: str) -> None:
    file = tmp_path / "config.yaml"
    pool = "name: l40s, civo_pool_id: 5f3c, size: s, resources: {nvidia.com/gpu: 1}, max_nodes: 8"
    file.write_text(f"pools: [{{{pool}, approval: {approval}}}]\n")
    assert line in run("check-config", str(file)).stdout.splitlines()


def test_asking_without_an_address_to_answer_at_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    pool = "name: l40s, civo_pool_id: 5f3c, size: s, resources: {nvidia.com/gpu: 1}, max_nodes: 8"
    asks = f"pools: [{{{pool}, approval: {{removals: true}}}}]\n"
    warning = "warning: pools[0].approval: public_url is not set, so approval messages have no link to answer with"
    file.write_text(asks)
    assert warning in run("check-config", str(file)).stdout.splitlines()
    file.write_text(f"public_url: https://gpu.example.com\n{asks}")
    assert warning not in run("check-config", str(file)).stdout.splitlines()


def test_waits_that_differ_from_the_usual_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    pool = "{name: l40s, civo_pool_id: 5f3c, size: s, resources: {nvidia.com/gpu: 1}, max_nodes: 8}"
    file.write_text(f"queue_wait: {{serving: 90s, batch: 1d}}\npools: [{pool}]\n")
    assert "alerts when a GPU pod waits longer than serving 1m30s, batch 24h" in run("check-config", str(file)).stdout


def test_warnings_are_printed_and_do_not_fail(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(one_pool(top="").replace("l40s.kube.x1", "l40s.kube.x3"))
    done = run("check-config", str(file))
    assert done.exit_code == 0
    assert "price unknown, so it cannot grow" in done.stdout
    assert "\nbudget none\n" in done.stdout
    assert sum(line.startswith("warning: ") for line in done.stdout.splitlines()) == 4


def test_every_mistake_is_listed_and_the_status_of_the_process_is_2(file: Path) -> None:
    file.write_text(one_pool("standby: 1", "utilization: {low: 0.9}"))
    command = [sys.executable, "-m", "receiver.cli.main", "check-config", str(file)]
    there = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=there)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "invalid configuration: 2 mistakes",
        "  pools[0].utilization.low: must be below high (0.70); lower low or raise high",
        "  pools[0].standby: unknown key; did you mean standby_nodes?",
        f"to check again: gpu-autoscaler check-config {file}",
    ]


def test_without_a_file_the_environment_is_checked_too(file: Path) -> None:
    done = run("check-config", GPU_AUTOSCALER_CONFIG=str(file), **(ENVIRONMENT | {"CIVO_REGION": ""}))
    assert done.exit_code == 2
    assert done.stderr.splitlines()[0] == "invalid configuration: 1 mistake"
    assert "CIVO_REGION: is not set" in done.stderr


def test_without_a_file_and_with_a_whole_environment_it_can_be_used(file: Path) -> None:
    done = run("check-config", GPU_AUTOSCALER_CONFIG=str(file), **ENVIRONMENT)
    assert done.exit_code == 0
    assert "pool l40s (5f3c)" in done.stdout


def test_the_version_is_that_of_the_distribution() -> None:
    assert run("--version").stdout == f"gpu-autoscaler, version {installed_version()}\n"


def test_help_names_the_command() -> None:
    assert "check-config" in run("--help", "--all").stdout


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # of what sends messages
def test_destinations_that_apprise_does_not_understand_are_warned_of_without_their_secrets(file: Path) -> None:
    destinations = {
        "GPU_AUTOSCALER_NOTIFY_URLS": "json://chat.example.com/SECRET-a slack://SECRET-b",
        "GPU_AUTOSCALER_TEAM_NOTIFY_URLS": "vision=nosuch://SECRET-c/d search=json://chat.example.com",
    }
    done = run("check-config", GPU_AUTOSCALER_CONFIG=str(file), **ENVIRONMENT, **destinations)
    assert (done.exit_code, done.stderr) == (0, "")
    what = "does not understand it, so no message is sent there"
    remedy = "correct its URL (https://github.com/caronc/apprise/wiki has the forms)"
    assert done.stdout.splitlines()[-2:] == [
        f"warning: GPU_AUTOSCALER_NOTIFY_URLS: destination 2 (slack): Apprise {what}; {remedy}",
        f"warning: GPU_AUTOSCALER_TEAM_NOTIFY_URLS: of team vision destination 1 (nosuch): Apprise {what}; {remedy}",
    ]
    assert "SECRET" not in done.stdout


def test_every_key_that_is_set_is_shown_without_passwords(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    top = (
        "budget: {monthly_usd: 5000}\nprometheus: {url: 'http://user:s3cret@p:9090/prom'}\nkueue: {demand: queued}\n"
        "limits: {max_gpus: 64}\nbilling: {granularity: 1s, removal_margin: 0}\nkubernetes: {watch: false}\n"
        "alertmanager: {urls: ['http://a:9093', 'http://b:9093'], repeat_interval: 2m}\n"
        "attribution: {unallocated: share}\n"
        "idle_shutdown: {grace: 20m, covers: [namespace/ml, priorityclass/dev], after: 1h}\n"
        "keep_until: {namespaces: [ml, web], longest: 1d}\npatience: {teams: {vision: 2h}}\n"
        "notify: {weekly_digest: true, destinations: {pager: {level: failure, kinds: [grew]}}}\n"
    )
    pool = (
        "labels: {gpu: on-demand, tier: '1'}",
        "taints: [{key: gpu, value: 'true', effect: NoSchedule}]",
        "repair: replace",
        "cooldown: {shrink: 1m}",
    )
    file.write_text(one_pool(*pool, top=top))
    done = run("check-config", str(file))
    lines = done.stdout.splitlines()
    assert "s3cret" not in done.stdout
    assert set(lines) >= {
        "prometheus url http://p:9090/prom",
        "alertmanager urls http://a:9093, http://b:9093; repeat_interval 2m",
        "kubernetes watch false",
        "billing granularity 1s; removal_margin 0s",
        "limits max_gpus 64",
        "notify weekly_digest true; destinations pager (level failure; kinds grew)",
        "kueue demand queued",
        "attribution unallocated share",
        "idle_shutdown grace 20m; covers namespace/ml, priorityclass/dev; after 1h",
        "keep_until namespaces ml, web; longest 24h",
        "patience teams vision=2h",
        "  labels   gpu=on-demand, tier=1",
        "  taints   gpu=true:NoSchedule",
        "  cooldown shrink 1m",
        "  repair   replace",
    }


def test_the_keys_with_lines_of_their_own_are_keys() -> None:
    assert Configuration.model_fields.keys() >= DESCRIBED
    assert PoolSpec.model_fields.keys() >= DESCRIBED_OF_A_POOL
