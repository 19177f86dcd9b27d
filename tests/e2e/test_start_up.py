"""What cannot work is said before anything listens: every mistake at once, no stack trace, a status that is not 0."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from demo.configs import ROOT
from simulator.server import Simulator
from tests.e2e.installing import Install
from tests.e2e.receivers import Receiver

REQUIRED = (
    "CIVO_API_KEY",
    "CIVO_REGION",
    "CIVO_CLUSTER_ID",
    "GPU_AUTOSCALER_CONFIG",
    "GPU_AUTOSCALER_WEBHOOK_TOKEN",
)
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


def _serve(environ: Mapping[str, str], *names: str) -> "subprocess.Popen[str]":
    """Start a server without the variables *names*."""
    left = {k: v for k, v in environ.items() if k not in names}
    command = [sys.executable, "-m", "receiver.cli", "serve"]
    return subprocess.Popen(
        command, cwd=ROOT, env=left, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_each_required_variable_that_is_missing_is_named_with_what_helps(receiver: Receiver) -> None:
    one_by_one = [(name,) for name in REQUIRED]
    servers = [(names, _serve(receiver.environ, *names)) for names in (*one_by_one, REQUIRED)]
    for names, server in servers:
        out, said = server.communicate(timeout=30)
        first, *mistakes = said.splitlines()
        assert server.returncode == 2, said
        assert out == ""
        assert first == f"cannot be used: {len(names)} mistake{'s' if len(names) > 1 else ''}"
        assert [m.split(":")[0].strip() for m in mistakes] == list(names)
        assert all(" is not set; " in m for m in mistakes)


def test_every_mistake_of_a_configuration_is_listed_at_once(receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "mistaken.yaml"
    file.write_text(MISTAKEN, encoding="utf-8")
    server = _serve({**receiver.environ, "GPU_AUTOSCALER_CONFIG": str(file)}, "CIVO_REGION")
    out, said = server.communicate(timeout=30)
    assert server.returncode == 2
    assert out == ""
    assert "Traceback" not in said
    for mistake in (
        "CIVO_REGION: is not set",
        'mode: must be observe or act, not "watch"',
        'tick: "10" has no unit; write 10s for seconds or 10m for minutes',
        "pools[1].resources.cpu: is not a GPU resource",
        "pools[1].max_nods: ",
        "did you mean max_nodes?",
    ):
        assert mistake in said


def test_a_store_that_cannot_be_written_ends_the_server_with_one_line_that_says_so(
    receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "a-file").write_text("", encoding="utf-8")
    address = f"sqlite:///{tmp_path}/a-file/ledger.db"
    server = _serve({**receiver.environ, "GPU_AUTOSCALER_DATABASE_URL": address})
    _, said = server.communicate(timeout=30)
    (line,) = [line for line in said.splitlines() if line.startswith("cannot start: ")]
    assert server.returncode not in (0, None)
    assert f"cannot create {tmp_path}/a-file" in line
    assert "let GPU_AUTOSCALER_DATABASE_URL name a file in a folder that this process may write to" in line
    assert "Traceback" not in said


def test_credentials_for_kubernetes_that_are_not_there_end_the_server_with_one_line_that_says_so(
    receiver: Receiver, tmp_path: Path
) -> None:
    server = _serve({**receiver.environ, "KUBECONFIG": str(tmp_path / "none")})
    _, said = server.communicate(timeout=30)
    (line,) = [line for line in said.splitlines() if line.startswith("cannot start: ")]
    assert server.returncode not in (0, None)
    assert f"no Kubernetes credentials from KUBECONFIG {tmp_path}/none" in line
    assert "Traceback" not in said
