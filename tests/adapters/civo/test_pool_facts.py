"""What Civo's answers say of pools, as far as a configuration may leave it out."""

from typing import Any

import pytest

from receiver.adapters.civo.answers import pool_facts_of
from receiver.core.model.policy import Taint
from receiver.core.model.pool_facts import PoolAtCivo
from receiver.ports import TryLater

SIZE = "an.g1.l40s.kube.x1"
SIZES = [{"name": SIZE, "gpu_count": "1"}, {"name": "g4s.kube.medium", "gpu_count": 0}, {"name": "new"}, {}, None]


def pool(**said: Any) -> PoolAtCivo:
    """What a cluster says that has the pool only among the required ones, as one at zero nodes is."""
    cluster = {"pools": [], "required_pools": [{"id": "p", "count": 0, "size": SIZE, **said}]}
    return pool_facts_of(cluster, SIZES).pools["p"]


def test_labels_and_taints_are_read() -> None:
    found = pool(labels={"gpu": "on-demand"}, taints=[{"key": "gpu", "value": "true", "effect": "NoExecute"}])
    assert found.labels == {"gpu": "on-demand"}
    assert found.taints == (Taint(key="gpu", value="true", effect="NoExecute"),)


@pytest.mark.parametrize("said", [{}, {"labels": None, "taints": None}, {"labels": [], "taints": {}}])
def test_labels_and_taints_that_the_answer_lacks_are_not_called_none(said: dict[str, Any]) -> None:
    assert pool(**said) == PoolAtCivo(size=SIZE, labels=None, taints=None)


def test_empty_labels_are_said_to_be_none() -> None:
    assert pool(labels={}, taints=[]) == PoolAtCivo(size=SIZE, labels={}, taints=())


def test_either_list_of_pools_may_have_them() -> None:
    existing = {"id": "p", "count": 1, "size": SIZE, "labels": {"a": "b"}, "instances": []}
    cluster = {"pools": [existing], "required_pools": [{"id": "p", "count": 1, "taints": []}]}
    assert pool_facts_of(cluster, []).pools == {"p": PoolAtCivo(size=SIZE, labels={"a": "b"}, taints=())}


def test_a_size_without_a_number_of_gpus_has_none() -> None:
    found = pool_facts_of({"required_pools": [{"id": "p", "count": 0}]}, SIZES)
    assert found.gpus == {SIZE: 1, "g4s.kube.medium": 0, "new": None}
    assert found.pools["p"].size == ""


@pytest.mark.parametrize("sizes", [None, {}, "no"])
def test_a_list_of_sizes_that_is_none_is_no_answer(sizes: object) -> None:
    with pytest.raises(TryLater, match="the list of sizes"):
        pool_facts_of({"required_pools": [{"id": "p", "count": 0}]}, sizes)
