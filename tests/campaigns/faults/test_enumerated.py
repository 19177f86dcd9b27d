"""The table of enumerated faults is complete, and a slice of it holds. `make faults ENUMERATED=1` makes all of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from campaigns.faults.enumerated import drive
from campaigns.faults.enumerated.drive import Recorded, live, record
from campaigns.faults.enumerated.matrix import BY_NAME, PUBLISHED, Trial, attempt, published_sites
from campaigns.faults.enumerated.sites import REQUESTS, WITHOUT_A_TOUR, Site, port_writes, requests, sites
from campaigns.faults.enumerated.tap import ANSWER_LOST, CRASH_AFTER, FAULTS, FORMER_LEADER, Blow, Tap
from receiver.adapters.store import SqlStore
from receiver.replay.ports import WorldCloud
from simulator.cluster_port import SimulatedCluster
from tests.stores import empty

TOUR = "orphaned cordon"
LIFTED = Site("cluster.uncordon", "step.chores.node_upkeep.undo_orphaned_cordons")
KEPT = Site("store.keep_control", "step.act.act")


@pytest.fixture(scope="module")
def known(real: SqlStore) -> dict[str, Recorded]:
    """The short tour without a fault."""
    empty(real)
    return {TOUR: record(BY_NAME[TOUR], real)}


def test_every_write_site_has_its_row() -> None:
    published = published_sites(PUBLISHED.read_text(encoding="utf-8"))
    missing, former = sites() - published - WITHOUT_A_TOUR.keys(), (published | WITHOUT_A_TOUR.keys()) - sites()
    told = [f"without a row: {s}" for s in sorted(missing)] + [f"is no more: {s}" for s in sorted(former)]
    remedy = "let a tour in campaigns/faults/enumerated/tours.py pass it, then: make faults ENUMERATED=1"
    assert not told, "\n".join([*told, remedy])


def test_every_cell_of_the_table_holds() -> None:
    head, *rows = [line.split(",") for line in PUBLISHED.read_text(encoding="utf-8").splitlines()]
    assert head[3:] == list(FAULTS)
    held = {(*row[:2], fault): cell for row in rows for fault, cell in zip(FAULTS, row[3:], strict=True)}
    assert {key: cell for key, cell in held.items() if not cell.isdigit() or cell == "0"} == {}


def test_every_request_of_the_adapters_that_is_no_get_belongs_to_a_site() -> None:
    assert requests() == REQUESTS.keys()
    assert {verb for verbs in REQUESTS.values() for verb in verbs} == {
        site.verb for site in sites() if not site.verb.startswith("store.")
    }


def test_a_tour_passes_sites_that_the_source_has(known: dict[str, Recorded]) -> None:
    assert known[TOUR].passed.keys() <= sites()
    assert known[TOUR].passed[LIFTED] == 1


def test_every_write_of_a_step_passes_the_tap(real: SqlStore) -> None:
    empty(real)
    assert drive.Tried(BY_NAME[TOUR], real).untapped() == []


@pytest.mark.parametrize("name", ["cloud", "cluster", "store", "telemetry"])
def test_a_port_that_bypasses_the_tap_is_seen(name: str, real: SqlStore) -> None:
    empty(real)
    run = drive.Tried(BY_NAME[TOUR], real)
    beside: dict[str, Any] = {"cloud": WorldCloud(run.world), "cluster": SimulatedCluster(run.world)}
    run._sources = replace(run._sources, **{name: beside.get(name, real)})
    assert run.untapped() == [f"Sources.{name}"]


def test_every_port_that_can_write_has_its_sites() -> None:
    assert port_writes() == port_writes("Cloud", "Cluster", "WorkGate")


@pytest.mark.parametrize("fault", [CRASH_AFTER, ANSWER_LOST, "Kubernetes 5 old", FORMER_LEADER])  # of each way one
def test_a_cordon_that_outlived_its_removal_is_lifted_whatever_becomes_of_the_write(
    fault: str, known: dict[str, Recorded], real: SqlStore
) -> None:
    assert attempt(Trial(TOUR, Blow(LIFTED, 1, fault)), known, real) == ""


def test_a_life_that_ends_otherwise_is_seen(
    known: dict[str, Recorded], real: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "CALM_STEPS", 5)
    empty(real)
    other = replace(known[TOUR].end, there={**known[TOUR].end.there, "counts": {"l40s-id": 2}})
    assert "counts: {'l40s-id': 1} instead of {'l40s-id': 2}" in live(BY_NAME[TOUR], real, None, other)


def test_a_former_leader_that_may_still_store_is_seen(
    known: dict[str, Recorded], real: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = Tap.boot

    def without_a_fence(tap: Tap) -> Callable[[object], None]:
        boot(tap)
        return lambda _connection: None

    monkeypatch.setattr(Tap, "boot", without_a_fence)
    violation = attempt(Trial(TOUR, Blow(KEPT, 2, FORMER_LEADER)), known, real)
    assert violation.startswith("4 former leader")
