"""The server as a hardened pod runs it: nobody, in a folder it may not write to, without a home, over https; and what
it does with requests that are no requests.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from simulator.server import Simulator
from tests.e2e.clouds import a_cloud
from tests.e2e.receivers import WEBHOOK_TOKEN, Receiver, a_pool
from tests.e2e.waiting import PATIENCE, until
from tests.payloads import a_payload

ROOT = Path(__file__).parents[2]
TLS = Path(__file__).parent / "tls"
NOBODY = 65534
COPY = "python"  # the folder for an interpreter that lies in a home
NAMED = f"python3.{sys.version_info.minor}"


def _user() -> dict[str, Any]:
    """Who runs the server: nobody, if we may say so, else whoever runs the tests, who is no root either."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _interpreter(environ: dict[str, str], folder: Path) -> str:
    """A Python that this user may run, with our packages: that of the tests, or a copy in *folder* of one in a home."""
    if _runs(sys.executable, environ):
        return sys.executable
    copied = _copied(folder / COPY)
    if not _runs(copied, environ):
        pytest.skip(f"the user `nobody` needs to read the checkout and its .venv: move {ROOT} out of a closed home")
    return copied


def _runs(python: str, environ: dict[str, str]) -> bool:
    command = [python, "-c", "import receiver, gunicorn"]  # from the checkout, and from its .venv
    try:
        return subprocess.run(command, env=environ, cwd="/", capture_output=True, **_user()).returncode == 0
    except OSError:
        return False


def _copied(folder: Path) -> str:
    """The interpreter of the tests with its standard library, copied into *folder*."""
    library, python = Path(sys.base_prefix) / "lib", folder / "bin" / NAMED
    python.parent.mkdir(parents=True)
    shutil.copy(Path(sys.base_prefix) / "bin" / NAMED, python)
    unused = shutil.ignore_patterns("test", "site-packages", "config-*")
    shutil.copytree(library / NAMED, folder / "lib" / NAMED, ignore=unused)
    for shared in library.glob(f"lib{NAMED}*.so*"):
        shutil.copy(shared, folder / "lib")
    return str(python)


@contextmanager
def hardened(cloud: Simulator, folder: Path) -> Iterator[tuple[Receiver, "subprocess.Popen[bytes]"]]:
    """Run the server as `_user`; only ``data`` below *folder* may be written to."""
    data, output = folder / "data", folder / "output"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(data, NOBODY, NOBODY)
    folder.chmod(0o755)
    shutil.copytree(TLS, folder / "tls")
    (folder / "tls" / "key.pem").chmod(0o644)
    where = {
        "CIVO_API_URL": cloud.url,
        "CIVO_CLUSTER_ID": cloud.config.cluster.id,
        "KUBECONFIG": str(cloud.kubeconfig(folder / "kubeconfig")),
        "GPU_AUTOSCALER_TLS_CERT_FILE": str(folder / "tls" / "cert.pem"),
        "GPU_AUTOSCALER_TLS_KEY_FILE": str(folder / "tls" / "key.pem"),
        "HOME": "/nonexistent",
        "TMPDIR": "/nonexistent",
        "LD_LIBRARY_PATH": str(folder / COPY / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(p for p in sys.path if p.endswith("site-packages"))]),
    }
    receiver = Receiver(folder / "etc", {"mode": "act", "tick": "1s", "pools": [a_pool()]}, where, data / "ledger.db")
    for file in (folder / "etc", folder / "etc" / "config.yaml", folder / "kubeconfig"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    python = _interpreter(receiver.environ, folder)
    with output.open("wb") as out:
        command = [python, "-m", "receiver.cli.main", "serve"]
        server = subprocess.Popen(
            command, cwd=folder / "etc", env=receiver.environ, stdout=out, stderr=out, start_new_session=True, **_user()
        )
    try:
        yield receiver, server
    finally:
        with_group = os.getpgid(server.pid) if server.poll() is None else None
        if with_group is not None:
            os.killpg(with_group, 9)
        server.wait(10)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Receiver, "subprocess.Popen[bytes]", Path]]:
    """A hardened server that has stepped."""
    folder = Path(tempfile.mkdtemp(prefix="hardened-"))
    try:
        with a_cloud() as cloud, hardened(cloud, folder) as (receiver, server):

            def steps() -> bool:
                assert server.poll() is None, (folder / "output").read_text()
                try:
                    return bool(ask(receiver, "/healthz").json()["steps"] >= 1)
                except requests.ConnectionError:
                    return False

            until(steps, "a first step", 2 * PATIENCE)  # it compiles every module, and may keep none
            yield receiver, server, folder
    finally:
        shutil.rmtree(folder)


def ask(receiver: Receiver, path: str) -> requests.Response:
    return requests.get(f"https://{receiver.address}{path}", verify=str(TLS / "cert.pem"), timeout=60)


def test_it_runs_as_nobody_and_writes_to_its_data_folder_alone(served: Any) -> None:
    receiver, _, folder = served
    body = json.dumps(a_payload()).encode()
    headers = {"Authorization": f"Bearer {WEBHOOK_TOKEN}"}
    answer = requests.post(
        f"https://{receiver.address}/webhook", data=body, headers=headers, verify=str(TLS / "cert.pem"), timeout=60
    )
    assert answer.status_code == 202
    assert ask(receiver, "/readyz").json()["ready"]
    assert ask(receiver, "/").status_code == 200
    stat = (folder / "data" / "ledger.db").stat()
    assert stat.st_uid == (NOBODY if os.geteuid() == 0 else os.geteuid())
    assert {f.parent.name for f in folder.rglob("*") if f.is_file() and f.stat().st_mtime_ns > stat.st_ctime_ns} <= {
        "data",
        folder.name,  # the output, which we opened ourselves
    }
    assert "Traceback" not in (folder / "output").read_text()


def test_plain_http_to_a_server_of_https_is_refused_and_harms_nothing(served: Any) -> None:
    receiver, *_ = served
    with pytest.raises(requests.ConnectionError):
        requests.get(f"http://{receiver.address}/healthz", timeout=60)
    assert ask(receiver, "/healthz").status_code == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 60 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 9000 + b"\r\n\r\n", 431),
        (b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b\n\rSet-Cookie: y\r\n\r\n", 400),
        (b"\x16\x03\x01 no request\r\n\r\n", 400),
    ],
    ids=["long-line", "many-headers", "long-header", "two-lengths", "smuggling", "folded", "noise"],
)
def test_what_is_no_request_is_refused_before_anything_of_ours_reads_it(
    served: Any, request_bytes: bytes, status: int
) -> None:
    receiver, *_ = served
    host, _, port = receiver.address.rpartition(":")
    trust = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
    plain = socket.create_connection((host, int(port)), timeout=60)
    with trust.wrap_socket(plain, server_hostname="localhost") as wire:
        wire.sendall(request_bytes)
        assert wire.recv(4096).split(b" ", 2)[1] == str(status).encode()


def test_old_versions_of_tls_are_refused(served: Any) -> None:
    receiver, *_ = served
    host, _, port = receiver.address.rpartition(":")
    old = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((host, int(port)), timeout=60) as plain, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(plain, server_hostname="localhost")
