"""A command loads what it needs: what the server alone needs takes longer to load than an answer to come."""

import subprocess
import sys

import pytest

SERVERS = {"flask", "werkzeug", "prometheus_client", "sqlalchemy", "kubernetes", "apprise", "jinja2"}
COMMANDS = {
    "": "receiver.cli.main",
    "status": "receiver.cli.status",
    "explain": "receiver.cli.explain",
    "pause, override, budget": "receiver.cli.operate",
    "report": "receiver.capabilities.costs.command",
    "what-if": "receiver.capabilities.what_if.command",
    "approvals": "receiver.capabilities.approvals.command",
    "replay": "receiver.cli.replay",
    "check-config": "receiver.cli.serve",
    "doctor": "receiver.cli.doctor",
}


@pytest.mark.parametrize("module", COMMANDS.values(), ids=COMMANDS)
def test_a_command_that_asks_the_server_loads_nothing_that_serves(module: str) -> None:
    program = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert SERVERS & set(done.stdout.split()) == set()


def test_help_and_version_load_no_models() -> None:
    program = "import receiver.cli.main, sys; print('pydantic' in sys.modules, 'requests' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]
