"""``python -m campaigns.contract``: Schemathesis asks the running server what its own OpenAPI document allows, and
what it does not.

The real process serves a simulated cloud that has nodes, jobs, decisions, overrides and a budget, so that there is
something to find. Whatever is asked, an answer has a status, headers and a body that the document names, and is no 5xx.
Schemathesis is installed from requirements/contract.lock into a folder of its own: no test needs it.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from campaigns.faults.campaign import say
from demo.stack import until_signalled
from tests.e2e.clouds import a_cloud, submit, until_running
from tests.e2e.installing import a_beating_prometheus, installing
from tests.e2e.receivers import OPERATOR_TOKEN, WEBHOOK_TOKEN, Receiver
from tests.payloads import a_payload, heartbeat
from tools.make_venv import BUILD, ROOT, NotMade, install_beside

READER_TOKEN = "SECRET-reader-token-of-the-tests"
LOCK = ROOT / "requirements" / "contract.lock"
DOCUMENT = "/api/v1/openapi.json"


# Refused although the schema takes it: months that have not begun, two fields that contradict each other.
BEYOND_SCHEMAS = r"^/api/v1/(costs|report|budget|overrides)$"
# Where reading takes a token, it takes one to be told that these have no other method.
OPEN = r"^/(healthz|readyz|metrics)$"
CONFIGURATION = f"""
[generation]
database = "none"  # the seed alone says what is asked
[auth.openapi.reader]
bearer = "{READER_TOKEN}"
[auth.openapi.operator]
bearer = "{OPERATOR_TOKEN}"
[auth.openapi.webhook]
bearer = "{WEBHOOK_TOKEN}"
[[operations]]
include-path-regex = '{BEYOND_SCHEMAS}'
checks.positive_data_acceptance.enabled = false
[[operations]]
include-path-regex = '{OPEN}'
checks.unsupported_method.enabled = false
"""


@contextmanager
def a_server(folder: Path) -> Iterator[Receiver]:
    """Yield a receiver that has decided, bought, been told and been overridden."""
    with a_beating_prometheus() as prometheus, a_cloud() as cloud, installing(folder, prometheus) as install:
        said: dict[str, Any] = {"tick": "2s", "budget": {"monthly_usd": 5000}, "web": {"reading": "token"}}
        receiver = install(cloud, "receiver", {"GPU_AUTOSCALER_READER_TOKEN": READER_TOKEN}, **said).serve()
        receiver.deliver(heartbeat())
        receiver.deliver(a_payload())
        submit(cloud)
        until_running(cloud)
        asked = {"pool": "l40s", "kind": "ceiling", "nodes": 7, "who": "ada", "why": "a test", "for": "1h"}
        headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        requests.post(f"{receiver.url}/api/v1/overrides", json=asked, headers=headers, timeout=60).raise_for_status()
        yield receiver


def main() -> int:
    """Run it; the status is Schemathesis' own, or 1 where the server ended or logged an error nobody expects."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.contract", description=__doc__)
    parser.add_argument("--examples", type=int, default=50, help="requests by operation and phase, at most")
    parser.add_argument("--seed", type=int, default=1, help="the same seed asks the same")
    parser.add_argument("--seconds", type=int, default=240, help="how long it may take")
    asked = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    packages = BUILD / "contract"
    try:
        install_beside(LOCK, packages)
    except NotMade as error:
        say(str(error))
        return 1
    with tempfile.TemporaryDirectory(prefix="contract-") as name, a_server(Path(name)) as receiver:
        status = ask(receiver, packages, Path(name), asked)
        healthy = receiver.get("/healthz").status_code == 200
        failures = [line["path"] for line in receiver.log("request failed")]
    if failures or not healthy:
        say(f"the server is {'well' if healthy else 'not well'} and failed at {sorted(set(failures))}")
        return 1
    return status


def ask(receiver: Receiver, packages: Path, folder: Path, asked: argparse.Namespace) -> int:
    """Let Schemathesis ask *receiver*; return its status."""
    config, document = folder / "schemathesis.toml", folder / "openapi.json"
    config.write_text(CONFIGURATION, encoding="utf-8")
    answer = requests.get(receiver.url + DOCUMENT, headers={"Authorization": f"Bearer {READER_TOKEN}"}, timeout=60)
    document.write_text(answer.text, encoding="utf-8")
    command: list[str | Path] = [sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", document]
    command += ["--url", receiver.url, "--request-timeout", "10", "--no-color"]
    command += ["--seed", str(asked.seed), "--max-examples", str(asked.examples), "--max-time", str(asked.seconds)]
    command += ["--phases", "examples,coverage,fuzzing", "--continue-on-failure"]
    command += ["--exclude-checks", "ignored_auth"]  # many wrong tokens make an address wait, and then all is 429
    environ = {**os.environ, "PYTHONPATH": str(packages)}
    return subprocess.run(command, cwd=folder, env=environ).returncode


if __name__ == "__main__":
    sys.exit(until_signalled(main))
