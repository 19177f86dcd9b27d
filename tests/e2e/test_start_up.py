"""What cannot work is said before anything listens: every mistake at once, no stack trace, a status that is not 0."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from demo.configs import ROOT
from receiver.cli.main import main
from simulator.server import Simulator
from tests.e2e.installing import Install
from tests.e2e.receivers import Receiver
from tests.e2e.waiting import PATIENCE

REQUIRED = (
    "CIVO_API_KEY",
    "CIVO_REGION",
    "CIVO_CLUSTER_ID",
    "GPU_AUTOSCALER_CONFIG",
    "GPU_AUTOSCALER_WEBHOOK_TOKEN",
)
CANNOT_START = 4  # gunicorn's for an application that does not load
MISTAKEN = """
mode: watch
tick: 10
pools:
  - {name: l40s, civo_pool_id: a, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, min_nodes: 9, max_nodes: 8}
  - {name: l40s, civo_pool_id: b, size: an.g1.l40s.kube.x1, resources: {cpu: 1}, max_nods: 2}
"""


@pytest.fixture
def receiver(cloud: Simulator, install: Install) -> Receiver:
    """A receiver that was not started."""
    return install(cloud)


def _serve(environ: Mapping[str, str]) -> tuple[int, str, str]:
    """Serve as operators do, which does not last; return status, output and errors."""
    command = [sys.executable, "-m", "receiver.cli.main", "serve"]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, start_new_session=True, timeout=PATIENCE
    )
    return done.returncode, done.stdout, done.stderr


def _without(environ: Mapping[str, str], *names: str) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k not in names}


def test_each_required_variable_that_is_missing_is_named_with_what_helps(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[tuple[tuple[str, ...], int, str, str]] = [(REQUIRED, *_serve(_without(receiver.environ, *REQUIRED)))]
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it is served"))
    for name in REQUIRED:  # the same without a process of its own
        environ: dict[str, str | None] = {**dict.fromkeys(os.environ), **_without(receiver.environ, name)}
        done = CliRunner(env=environ).invoke(main, ["serve"])
        ends.append(((name,), done.exit_code, done.stdout, done.stderr))
    for names, status, out, said in ends:
        first, *mistakes, again = said.splitlines()
        assert status == 2, said
        assert out == ""
        assert first == f"invalid configuration: {len(names)} mistake{'s' if len(names) > 1 else ''}"
        assert [m.split(":")[0].strip() for m in mistakes] == list(names)
        assert all(" is not set; " in m for m in mistakes)
        assert again == "to check again: gpu-autoscaler check-config"


def test_every_mistake_of_a_configuration_is_listed_at_once(receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "mistaken.yaml"
    file.write_text(MISTAKEN, encoding="utf-8")
    environ = {**_without(receiver.environ, "CIVO_REGION"), "GPU_AUTOSCALER_CONFIG": str(file)}
    status, out, said = _serve(environ)
    assert status == 2
    assert out == ""
    assert "Traceback" not in said
    for mistake in (
        "CIVO_REGION: is not set",
        'mode: must be observe or act, not "watch"',
        'tick: "10" has no unit; write 10s for seconds or 10m for minutes',
        'pools[1].resources.cpu: "cpu" is not a GPU resource',
        "pools[1].max_nods: ",
        "did you mean max_nodes?",
    ):
        assert mistake in said


def test_a_store_that_cannot_be_written_ends_the_server_with_one_line_that_says_so(
    receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "a-file").write_text("", encoding="utf-8")
    receiver.environ["GPU_AUTOSCALER_DATABASE_URL"] = f"sqlite:///{tmp_path}/a-file/ledger.db"
    status = receiver.start().server.wait(PATIENCE)
    said = receiver.said()
    (line,) = [line for line in said.splitlines() if line.startswith("cannot start: ")]
    assert status == CANNOT_START
    assert f"cannot create {tmp_path}/a-file" in line
    assert "let GPU_AUTOSCALER_DATABASE_URL name a file in a folder that this process may write to" in line
    assert "Traceback" not in said


def test_credentials_for_kubernetes_that_are_not_there_end_the_server_with_one_line_that_says_so(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.environ["KUBECONFIG"] = str(tmp_path / "none")
    status = receiver.start().server.wait(PATIENCE)
    said = receiver.said()
    (line,) = [line for line in said.splitlines() if line.startswith("cannot start: ")]
    assert status == CANNOT_START
    assert f"no Kubernetes credentials from KUBECONFIG {tmp_path}/none" in line
    assert "Traceback" not in said
