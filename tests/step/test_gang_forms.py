"""A whole life with a gang in each form: nodes for all of it are bought at once, or none, and are given back."""

from datetime import timedelta
from typing import Any

import pytest

from campaigns.faults.grouped import FORMS, LEADER_READY, Leaders, formed, object_of
from receiver.core.model.policy import Objective
from receiver.ports import Store
from tests.core.builders import a_pool
from tests.given import lives
from tests.given.life import HOUR, Life, a_job

pytestmark = pytest.mark.chores(False)

EVERY_FORM = ["annotation", *dict.fromkeys(FORMS)]


def begun(store: Store, form: str, pods: int, **policy: Any) -> tuple[Life, Leaders]:
    """A life in which a gang of so many *pods* of one GPU has just come, of at most 8 nodes of one GPU."""
    life = lives.at_zero(store, a_pool(standby_nodes=policy.pop("standby", 0)), **policy)
    what = {"id": "train", "form": form, "pods": pods}
    job, leaders, found = formed(a_job(pods=pods, gang=True), what), Leaders(life.world), object_of(what, life.now)
    if found is not None:
        life.world.group_objects[found[0]] = [found[1]]
    if form == LEADER_READY:
        leaders.expect(job, what)
    life.submit(job)
    return life, leaders


@pytest.mark.parametrize("form", EVERY_FORM)
def test_a_gang_is_bought_whole_at_once_and_given_back(store: Store, form: str) -> None:
    life, leaders = begun(store, form, pods=4)
    life.run(3 * HOUR, each=leaders.follow)
    assert [args[-1] for _, args in life.writes("resize")] == [4]
    assert sum(job.gpus for job in life.world.finished) == 4
    assert (life.required(), life.world.kills) == (0, [])


@pytest.mark.parametrize("form", EVERY_FORM)
def test_nothing_is_bought_for_a_gang_beyond_the_maximum(store: Store, form: str) -> None:
    life, leaders = begun(store, form, pods=9, standby=2, objective=Objective.WAIT)
    life.run(timedelta(minutes=30), each=leaders.follow)
    assert life.writes("resize") == []


@pytest.mark.parametrize("form", EVERY_FORM)
def test_an_idle_node_is_all_that_a_part_of_a_gang_beyond_the_maximum_gets(store: Store, form: str) -> None:
    """The scheduler may start a lone leader on it; nothing is bought for the rest."""
    life, leaders = begun(store, form, pods=9)
    life.world.resize("l40s-id", 1)
    life.run(timedelta(minutes=30), each=leaders.follow)
    assert life.writes("resize") == []
