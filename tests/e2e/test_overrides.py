"""An override set by the command line reaches the cloud without tick or alert, and survives the end of the server."""

import json

from click.testing import CliRunner, Result

from receiver.cli.main import main
from simulator.server import Simulator
from tests.e2e.clouds import required
from tests.e2e.receivers import OPERATOR_TOKEN, WEBHOOK_TOKEN, Receiver
from tests.e2e.waiting import until


def override(receiver: Receiver, *arguments: str, token: str = OPERATOR_TOKEN) -> Result:
    """Run `gpu-autoscaler override` against *receiver*."""
    env = {"GPU_AUTOSCALER_URL": receiver.url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token}
    return CliRunner(env=env).invoke(main, ["override", *arguments])


def test_a_pin_wakes_the_loop_grows_the_pool_and_is_still_there_after_a_kill(
    cloud: Simulator, receiver: Receiver
) -> None:
    said = ("--for", "1h", "--why", "load test", "--who", "alice")
    assert override(receiver, "set", "l40s", "--exactly", "1", *said, token=WEBHOOK_TOKEN).exit_code == 2
    assert required(cloud) == 0

    done = override(receiver, "set", "l40s", "--exactly", "1", *said, "--json")
    assert done.exit_code == 0, done.output
    name = json.loads(done.stdout)["id"]
    until(lambda: required(cloud) == 1, "a node asked for")
    until(lambda: [o["id"] for o in receiver.pool()["overrides"]] == [name], "the pin on the pool")
    assert "pin of 1 node by alice" in receiver.pool()["because"]

    receiver.terminate(20)
    receiver.serve()
    assert [o["id"] for o in receiver.pool()["overrides"]] == [name]
    assert override(receiver, "end", name, "--who", "bob").exit_code == 0
    until(lambda: receiver.pool()["overrides"] == [], "no pin on the pool")
    assert required(cloud) == 1  # its hour is paid
    assert [d["ended_by"] for d in receiver.get("/api/v1/overrides?ended=true").json()] == ["bob"]
