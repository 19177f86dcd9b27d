"""Three replicas on one PostgreSQL: one acts, any answers, and another takes over from a leader that freezes or is told
to stop. `python -m campaigns.replicas` plays many more rounds, with leaders that die while they write."""

import random
import re
from collections.abc import Iterator

import pytest
import requests

from campaigns.replicas.replica_set import PATIENCE, ReplicaSet, Storm, replica_set
from campaigns.replicas.rounds import Round, a_server, frozen_before_it_buys, hand_over, partitioned, play
from tests.adapters.store.builders import postgres_programs
from tests.e2e.receivers import OPERATOR_TOKEN, POOL
from tests.e2e.waiting import until

pytestmark = pytest.mark.skipif(postgres_programs() is None, reason="PostgreSQL's initdb is not installed")


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    """Three replicas, one of which leads."""
    with a_server() as server, replica_set(server, tmp_path_factory.mktemp("replicas")) as found:
        yield found


@pytest.fixture
def a_round(replicas: ReplicaSet) -> Round:
    """What breaks something, however long a takeover takes on this machine: `make replicas` measures that."""
    return Round(replicas, random.Random("suite"), slack=PATIENCE)


def test_every_replica_says_who_leads_and_one_of_them_does(replicas: ReplicaSet) -> None:
    def told() -> list[tuple[str, bool]]:
        """Of each replica its loop, and whether its metric says that it leads."""
        metrics = [receiver.get("/metrics").text for receiver in replicas.receivers]
        leads = [
            bool(re.search(r'^gpu_autoscaler_leader\{process=".+"\} 1.0$', text, re.MULTILINE)) for text in metrics
        ]
        return [(r.health()["loop"], led) for r, led in zip(replicas.receivers, leads, strict=True)]

    def wanted() -> list[tuple[str, bool]]:
        leader = replicas.until_led()
        return [("leading", True) if n == leader else ("waiting", False) for n in range(len(replicas.receivers))]

    until(lambda: len({r.health()["leader"] for r in replicas.receivers}) == 1, "one leader for all")
    until(lambda: told() == wanted(), "replicas that all say which of them leads")


def test_what_a_person_says_to_a_replica_that_waits_is_done_by_the_one_that_leads(replicas: ReplicaSet) -> None:
    other = next(n for n in range(3) if n != replicas.until_led())
    asked = {"pool": POOL, "kind": "ceiling", "nodes": 7, "who": "ada", "why": "a test", "for": "1h"}
    headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    url = f"{replicas.receivers[other].url}/api/v1/overrides"
    answer = requests.post(url, json=asked, headers=headers, timeout=60)
    assert answer.status_code == 201, answer.text
    until(lambda: replicas.receivers[other].pool()["max_nodes"] == 7, "the ceiling in force")


def test_a_leader_that_freezes_before_it_buys_is_replaced_and_does_nothing_when_it_wakes(
    replicas: ReplicaSet, a_round: Round
) -> None:
    with Storm(replicas.receivers, pause=0.4) as storm:
        play(a_round, storm, frozen_before_it_buys, rest=1.0)
    assert a_round.wrong == []
    assert replicas.violations(storm.accepted) == []
    assert len(storm.accepted) > 5
    assert replicas.effects.bought >= 1


def test_a_leader_that_reaches_civo_and_not_the_database_writes_nothing_more(
    replicas: ReplicaSet, a_round: Round
) -> None:
    before = replicas.effects.bought
    with Storm(replicas.receivers, pause=0.4) as storm:
        play(a_round, storm, partitioned, rest=0.0)
    assert a_round.wrong == []
    assert a_round.takeover is not None
    assert replicas.violations(storm.accepted) == []
    assert replicas.effects.bought > before


def test_a_leader_that_is_told_to_stop_gives_up_the_lead(replicas: ReplicaSet, a_round: Round) -> None:
    hand_over(a_round)
    assert a_round.wrong == []
    assert replicas.violations(()) == []
