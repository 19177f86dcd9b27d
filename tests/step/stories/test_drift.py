"""Stories of two hands on one count: seen, told once, adopted, and never fought."""

from collections.abc import Callable

import pytest

from receiver.core.notices.notice import Notice
from receiver.ports import Store
from tests.core.builders import HOUR, MINUTE
from tests.expect import bought, living, removed, told
from tests.given import lives
from tests.given.life import POOL, START, Life, a_job
from tests.given.pods import bound


def of_drift(life: Life) -> list[Notice]:
    return [n for n in told(life) if n.topic.startswith("drift")]


def raises(life: Life) -> None:
    life.world.resize(POOL, 4)


def lowers(life: Life) -> None:
    life.world.resize(POOL, 1)


def deletes_a_node(life: Life) -> None:
    life.world.delete_instance(POOL, living(life)[-1].id)


@pytest.mark.parametrize("somebody", [raises, lowers, deletes_a_node])
def test_a_count_that_somebody_else_changes_is_told_once_and_adopted(
    store: Store, somebody: Callable[[Life], None]
) -> None:
    """kube-green #259, cluster-turndown #49, Dynamo #4420: two controllers put the number back in turns, or the
    one that was not asked went blind."""
    life = lives.idle_nodes(store, 2)
    life.world.add_pod(bound("works", life.world.lives[0].hostname))
    life.run(5 * MINUTE)
    assert of_drift(life) == []
    somebody(life)
    theirs = life.required()
    life.run(30 * MINUTE)
    assert life.writes() == []
    assert life.required() == theirs
    [notice] = of_drift(life)
    assert notice.pool == POOL
    [seen] = life.steps[-1].facts.pool(POOL).count.drifts
    assert (seen.from_count, seen.to_count) == (2, theirs)


def test_every_change_of_theirs_is_told(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.run(MINUTE)
    for count in (2, 3, 5):
        life.world.resize(POOL, count)
        life.run(5 * MINUTE)
    assert len(of_drift(life)) == 3
    assert life.writes() == []


def test_our_own_growth_and_removal_are_nobody_elses(store: Store) -> None:
    life = lives.at_zero(store)
    life.run(MINUTE)
    life.submit(a_job("one"), a_job("two", duration=70 * MINUTE))
    life.run(3 * HOUR, tick=MINUTE)
    assert bought(life) == 2
    assert living(life) == []
    assert of_drift(life) == []


def test_a_count_that_is_put_back_after_each_removal_stops_removals_for_a_day(store: Store) -> None:
    """GitOps, Terraform: what we remove comes back as a new node within minutes, each time for a paid hour."""
    life = lives.idle_nodes(store)

    def terraform_for(hours: int) -> None:
        for _ in range(hours * 6):
            life.run(10 * MINUTE, tick=10 * MINUTE)
            if life.required() == 0:
                life.world.resize(POOL, 1)

    life.run(MINUTE)
    terraform_for(20)
    assert removed(life) == 3
    assert bought(life) == 4
    assert living(life)
    [stop] = [n for n in told(life) if n.topic.startswith("undone")]
    assert "does not shrink before" in stop.title
    assert life.writes("resize") == []
    before = len(told(life))
    terraform_for(6)  # 26 hours: more than a day after the first, not after the third
    assert removed(life) == 3
    assert len(told(life)) == before
    terraform_for(6)
    assert removed(life) > 3


def test_growth_for_work_goes_on_from_their_number(store: Store) -> None:
    life = lives.at_zero(store)
    life.run(MINUTE)
    life.submit(*(a_job(f"j{n}", duration=2 * HOUR) for n in range(2)))
    life.run(6 * MINUTE)
    life.world.resize(POOL, 3)
    life.run(10 * MINUTE)
    life.submit(*(a_job(f"more{n}", duration=2 * HOUR) for n in range(2)))
    life.run(10 * MINUTE)
    assert [args for _, args in life.writes("resize")] == [(POOL, 2), (POOL, 4)]
    assert life.now - START < HOUR
