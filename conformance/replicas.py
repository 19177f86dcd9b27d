"""Two replicas on one PostgreSQL."""

import time
from contextlib import ExitStack

from conformance.scenario import Seen, UnavailableError, UnmetError, scenario
from conformance.stage import Stage
from demo.postgres import postgres_programs, postgres_server

TAKEOVER = 150.0  # seconds


@scenario(
    "two replicas",
    "one leads and acts; killed while Civo holds its answer, the other takes over and buys nothing twice",
)
def two_replicas(stage: Stage) -> Seen:
    """Where PostgreSQL's programs are installed."""
    programs = postgres_programs()
    if programs is None:
        raise UnavailableError("PostgreSQL's initdb is not installed")
    with ExitStack() as ends:
        url = ends.enter_context(postgres_server(programs))
        first = stage.serve("first", url)
        ends.callback(first.stop)
        second = stage.serve("second", url)
        ends.callback(second.stop)
        loops = sorted((first.loop(), second.loop()))
        if loops != ["leading", "waiting"]:
            raise UnmetError(f"the two loops are {loops}")
        leader, other = (first, second) if first.loop() == "leading" else (second, first)
        stage.civo_lever.hold("PUT", r"/pools/[^/]+\?", 30.0)
        stage.cluster.pod("train")
        stage.until(lambda: stage.civo.required() == 1, "the effect of the leader's PUT")
        leader.kill()
        died = time.monotonic()
        stage.civo_lever.release()
        stage.product = other
        stage.until(lambda: other.loop() == "leading", "another leader", TAKEOVER)
        over = time.monotonic() - died
        stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
        stage.holds(lambda: stage.civo.required() == 1 == len(stage.bought), "1 node", 5.0)
    return Seen(said=f"takeover in {over:.1f} s, 1 node", figures={"takeover_after": over})
