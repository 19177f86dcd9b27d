"""Real Alertmanagers beside a receiver, with the routes that we ship, and amtool."""

import subprocess
from pathlib import Path

import yaml

from demo.configs import ROOT, alertmanager_config, plain_environment
from demo.plan import Places, StackPlan
from demo.processes import Process, answers
from demo.stack import binary
from tests.e2e.receivers import WEBHOOK_TOKEN, Receiver


def an_alertmanager(number: int, port: int, receiver: Receiver, folder: Path) -> Process:
    """Return an Alertmanager without peers that sends to *receiver* with the routes that we ship."""
    places = Places(folder=folder, ports={"receiver": int(receiver.address.rpartition(":")[2])})
    places.token_file.write_text(WEBHOOK_TOKEN, encoding="utf-8")
    config = places.config(f"alertmanager-{number}")
    config.write_text(yaml.safe_dump(alertmanager_config(StackPlan(pools=()), places)), encoding="utf-8")
    command = (
        binary("alertmanager"),
        f"--config.file={config}",
        f"--storage.path={folder / f'data-{number}'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    )
    ready = answers(f"http://127.0.0.1:{port}/-/ready")
    return Process(f"alertmanager-{number}", command, ready, folder / f"log-{number}", plain_environment(), ROOT)


def amtool(url: str, *arguments: str) -> str:
    """Run amtool against the Alertmanager at *url* as a person does; return what it says. Raises CalledProcessError."""
    command = [binary("amtool"), f"--alertmanager.url={url}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
