"""Decisions by episode: what stays blocked by one rule, and is tried again meanwhile, is one."""

from datetime import timedelta
from typing import Any

from receiver.core.model.actions import Reason, Verdict
from receiver.ports import DecisionFilter, StoredDecision
from receiver.web.api.episodes import READ, episodes, latest_episodes
from tests.web.builders import A100, NOW, Bench, a_decision
from tests.web.stores import a_store_with


def blocked(number: int, rule: str = "not_backing_off", present: int = 1, **more: Any) -> StoredDecision:
    held = Reason(rule=rule, verdict=Verdict.HOLDS, target=present, cause=f"{rule} says so")
    return made(number, present=present, target=present, reasons=(held,), **more)


def grown(number: int, present: int = 1) -> StoredDecision:
    wanted = Reason(rule="demand", verdict=Verdict.WANTS, target=present + 2)
    return made(number, present=present, target=present + 2, reasons=(wanted,))


def steady(number: int, present: int = 1) -> StoredDecision:
    rule = ("nothing_wanted", "keep_until")[number % 2]  # a store keeps no decision twice in a row
    return made(number, present=present, target=present, reasons=(Reason(rule=rule, verdict=Verdict.NOTES, target=1),))


def made(number: int, **more: Any) -> StoredDecision:
    return a_decision(number, at=NOW + timedelta(minutes=number), evidence={}, **more)


def numbers(*decisions: StoredDecision) -> list[list[int]]:
    """The numbers of the decisions of each episode; *decisions* are the oldest first."""
    return [[stored.id for stored in episode.decisions] for episode in episodes(reversed(decisions))]


def test_a_stock_out_that_is_tried_again_and_again_is_one_episode() -> None:
    tried = (grown(1), blocked(2), grown(3), blocked(4))
    assert numbers(*tried) == [[4, 3, 2, 1]]
    [episode] = episodes(reversed(tried))
    assert (episode.latest.id, episode.tries, episode.since) == (4, 2, NOW + timedelta(minutes=1))


def test_growth_that_came_is_an_episode_of_its_own() -> None:
    assert numbers(grown(1), blocked(2, present=3)) == [[2], [1]]
    [_, growth] = episodes(reversed((grown(1), blocked(2, present=3))))
    assert growth.tries == 0


def test_another_rule_begins_another_episode() -> None:
    assert numbers(blocked(1), blocked(2, "within_maximum"), blocked(3, "within_maximum")) == [[3, 2], [1]]


def test_what_is_steady_ends_an_episode_and_is_none() -> None:
    assert numbers(blocked(1), steady(2), blocked(3)) == [[3], [1]]
    assert numbers(steady(1)) == []


def test_pools_have_their_own_episodes() -> None:
    assert numbers(blocked(1), blocked(2, pool=A100), blocked(3)) == [[3, 1], [2]]


def test_behind_many_steady_decisions_older_changes_are_found() -> None:
    decisions = [grown(1), *(steady(number) for number in range(2, READ + 3))]
    bench = Bench(store=a_store_with(decisions=decisions))
    assert [e.latest.id for e in latest_episodes(bench.parts(), DecisionFilter(), 5)] == [1]
