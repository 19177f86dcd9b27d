"""Answers of Civo in which something lacks: repaired from the other list, or that one pool's trouble alone."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from receiver.adapters.civo.answers import cloud_pools
from receiver.ports import CloudPool, TryLater, WontWork
from tests.adapters.civo.answers import POOL, SIZE, a_cluster, a_pool, an_instance

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OTHER = "90010000-0000-4000-8000-000000000002"
COMPLETE = an_instance(9)
ID, HOST = an_instance(1)["id"], an_instance(1)["hostname"]


def look(cluster: Mapping[str, Any], listed: object = ()) -> Mapping[str, CloudPool]:
    return cloud_pools(cluster, lambda: listed, NOW)


def beside(pool: Mapping[str, Any], required: object = 1) -> dict[str, Any]:
    """A cluster of the pool in question and a complete one."""
    cluster = a_cluster({POOL: 1, OTHER: 1}, (pool, a_pool(COMPLETE, pool=OTHER)))
    cluster["required_pools"][0] = {"id": POOL, "size": SIZE, **({} if required == "absent" else {"count": required})}
    return cluster


def the_other(pools: Mapping[str, CloudPool]) -> CloudPool:
    """The complete pool, which everything below must leave as it is."""
    return pools[OTHER]


COMPLETE_POOL = look(a_cluster({OTHER: 1}, (a_pool(COMPLETE, pool=OTHER),)))[OTHER]


# --- what one pool lacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pool", "lacks"),
    [
        pytest.param(a_pool(an_instance(1, id=None)), f"the id of instance {HOST} is missing", id="no id"),
        pytest.param(a_pool({"status": "ACTIVE"}), "the id of instance (unnamed) is missing", id="no id and no name"),
        pytest.param(a_pool(an_instance(1, id=7)), f"the id of instance {HOST} is missing", id="a number as id"),
        pytest.param(a_pool(instances="none"), "its list of instances is malformed", id="instances are text"),
        pytest.param(a_pool(instance_names={}), "its list of instances is malformed", id="names are an object"),
        pytest.param(a_pool(instances=["none"]), "an instance is malformed", id="an instance is text"),
        pytest.param(a_pool(instances=[None]), "an instance is malformed", id="an instance is null"),
        pytest.param(a_pool(instances=None, count=2), "its list of instances is missing", id="instances are null"),
        pytest.param(
            a_pool(instance_names=["gone"]), "the id of instance gone is missing", id="a name that no list knows"
        ),
        pytest.param(a_pool(an_instance(1), id=7), "an entry of pools has no id", id="the pool's id is a number"),
        pytest.param(
            a_pool(an_instance(1), COMPLETE), f"instance {COMPLETE['id']} is listed in 2 pools", id="another's instance"
        ),
    ],
)
def test_what_lacks_of_one_pool_makes_that_pool_alone_unreadable(pool: Mapping[str, Any], lacks: str) -> None:
    pools = look(beside(pool))
    assert pools[POOL].unreadable == lacks
    if "2 pools" not in lacks:
        assert the_other(pools) == COMPLETE_POOL


@pytest.mark.parametrize("count", [None, "absent", "two", -1, "-1", 1.5, True, 2**63, "9" * 5000, [], float("inf")])
def test_a_count_that_says_nothing_is_unknown_and_never_zero(count: object) -> None:
    pools = look(beside(a_pool(an_instance(1)), count))
    assert pools[POOL].unreadable == "its count in required_pools is missing or malformed"
    assert [i.id for i in pools[POOL].instances] == [ID]
    assert the_other(pools) == COMPLETE_POOL


@pytest.mark.parametrize(("count", "read"), [("2", 2), (2.0, 2), (0, 0), (2, 2)])
def test_a_count_that_is_a_number_in_another_dress_is_read(count: object, read: int) -> None:
    pool = look(beside(a_pool(an_instance(1)), count))[POOL]
    assert (pool.required, pool.unreadable) == (read, "")


@pytest.mark.parametrize("instances", [(), (an_instance(1, status="DELETING"),)], ids=["none", "one that goes"])
def test_a_count_that_go_dropped_is_zero_where_no_instance_lives(instances: Sequence[Mapping[str, Any]]) -> None:
    pool = look(beside(a_pool(*instances), "absent"))[POOL]
    assert (pool.required, pool.unreadable) == (0, "")


def test_a_pool_required_twice_with_two_counts_is_unreadable() -> None:
    cluster = a_cluster({POOL: 1, OTHER: 1}, (a_pool(COMPLETE, pool=OTHER),))
    cluster["required_pools"].append({"id": POOL, "size": SIZE, "count": 3})
    pools = look(cluster)
    assert pools[POOL].unreadable
    assert the_other(pools) == COMPLETE_POOL


def test_a_pool_with_living_instances_that_is_not_required_is_unreadable() -> None:
    pools = look(a_cluster({OTHER: 1}, (a_pool(an_instance(1)), a_pool(COMPLETE, pool=OTHER))))
    assert pools[POOL].unreadable == "the pool is missing from required_pools"
    assert the_other(pools) == COMPLETE_POOL


def test_a_required_pool_without_an_entry_has_its_nodes_still_to_come() -> None:
    pools = look(a_cluster({POOL: 2, OTHER: 1}, (a_pool(COMPLETE, pool=OTHER),)))
    assert (pools[POOL].required, pools[POOL].instances, pools[POOL].unreadable) == (2, (), "")


def test_entries_that_name_no_pool_are_passed_over() -> None:
    cluster = a_cluster({OTHER: 1}, (a_pool(COMPLETE, pool=OTHER),))
    cluster["required_pools"] += [{"size": SIZE, "count": 2}, None, "none"]
    assert look(cluster) == {OTHER: COMPLETE_POOL}


def test_an_instance_listed_twice_in_its_pool_is_one() -> None:
    assert len(look(a_cluster({POOL: 1}, (a_pool(an_instance(1), an_instance(1)),)))[POOL].instances) == 1


# --- what the other list repairs --------------------------------------------------------------------------


@pytest.mark.parametrize("lacks", ["id", "status", "created_at"])
@pytest.mark.parametrize("value", [None, "", 7], ids=["absent", "empty", "a number"])
def test_the_instance_list_adds_what_the_pool_lacks(lacks: str, value: object) -> None:
    pools = look(beside(a_pool(an_instance(1, **{lacks: value}))), [an_instance(2), an_instance(1)])
    whole = look(beside(a_pool(an_instance(1))))
    assert pools == whole


@pytest.mark.parametrize("zero", ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "yesterday", "9999-99-99"])
def test_a_time_that_is_none_is_taken_from_the_list_or_left_out(zero: str) -> None:
    raw = an_instance(1, created_at=zero)
    cluster = beside(a_pool(raw))
    assert look(cluster, [an_instance(1)])[POOL].instances[0].created_at == datetime(2026, 11, 20, 10, tzinfo=UTC)
    pools = look(cluster, [raw])
    assert (pools[POOL].instances[0].created_at, pools[POOL].unreadable) == (None, "")
    assert the_other(pools) == COMPLETE_POOL


@pytest.mark.parametrize(
    ("pool_says", "list_says", "believed"),
    [
        pytest.param("RESIZING", "ACTIVE", "ACTIVE", id="a documented word outranks another"),
        pytest.param("ACTIVE", "DELETING", "ACTIVE", id="the pool outranks the list"),
        pytest.param("", "SHUTOFF", "SHUTOFF", id="a word outranks none"),
        pytest.param("RESIZING", "SHUTOFF", "RESIZING", id="the pool's own word outranks the list's"),
        pytest.param("active", "DELETING", "ACTIVE", id="the case of letters says nothing"),
        pytest.param("Running", "Running", "RUNNING", id="a word that neither list explains"),
        pytest.param(None, None, "", id="no word anywhere"),
    ],
)
def test_the_status_is_the_pools_where_civo_documents_it(
    pool_says: str | None, list_says: str | None, believed: str
) -> None:
    pools = look(beside(a_pool(an_instance(1, status=pool_says))), [an_instance(1, status=list_says)])
    assert pools[POOL].instances[0].status == believed


def raising(error: Exception) -> Callable[[], object]:
    def listing() -> object:
        raise error

    return listing


@pytest.mark.parametrize(
    "listing",
    [
        raising(TryLater("no answer")),
        raising(WontWork("refused")),
        lambda: "text",
        lambda: [None, "text", {}],
        lambda: None,
    ],
    ids=["no answer", "refused", "text", "odd entries", "null"],
)
def test_a_list_that_cannot_be_had_leaves_what_the_pools_say(listing: Callable[[], object]) -> None:
    pools = cloud_pools(beside(a_pool(an_instance(1, status=None))), listing, NOW)
    assert (pools[POOL].instances[0].status, pools[POOL].unreadable) == ("", "")
    assert the_other(pools) == COMPLETE_POOL


# --- what is no answer at all -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cluster",
    [None, [], "text", {}, {"required_pools": {}}, {**a_cluster({POOL: 1}), "pools": "none"}],
    ids=["null", "a list", "text", "empty", "required pools are an object", "pools are text"],
)
def test_an_answer_that_is_no_list_of_pools_is_no_answer(cluster: Any) -> None:
    with pytest.raises(TryLater) as caught:
        look(cluster)
    assert caught.value.code == "malformed"
