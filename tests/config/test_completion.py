"""What a file leaves out of a pool is read from Civo; what it says stays."""

import pytest

from receiver.config import ConfigError, FileSettings, load_text
from receiver.config.completion import short_name
from receiver.config.show import describe
from receiver.core.model.policy import Pool, Taint
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from tests.config.builders import POOL, QUIET, one_pool

L40S, CPU = "an.g1.l40s.kube.x1", "g4s.kube.medium"
TAINT = Taint(key="gpu", value="true", effect="NoSchedule")
AT_CIVO = PoolAtCivo(size=L40S, labels={"gpu": "on-demand"}, taints=(TAINT,))
FACTS = PoolFacts(
    pools={"5f3c": AT_CIVO, "77aa": PoolAtCivo(size=L40S), "cpu": PoolAtCivo(size=CPU), "dumb": PoolAtCivo()},
    gpus={L40S: 1, "an.g1.h100.kube.x8": 8, CPU: 0, "new.size": None},
)
MINIMAL = "\n  - {civo_pool_id: 5f3c, max_nodes: 8}\n"


def minimal(pools: str = MINIMAL, facts: PoolFacts | None = FACTS) -> FileSettings:
    return load_text(one_pool(pool=pools), facts=facts)


def pool(more: str = "", pool_id: str = "5f3c") -> Pool:
    [found] = minimal(f"\n  - {{civo_pool_id: {pool_id}, max_nodes: 8{more}}}\n").policy.pools
    return found


def mistake(pools: str) -> str:
    with pytest.raises(ConfigError) as refused:
        minimal(pools)
    [found] = refused.value.mistakes
    return str(found)


def test_an_id_and_a_maximum_are_enough() -> None:
    found = pool()
    assert (found.name, found.size, dict(found.resources)) == ("l40s", L40S, {"nvidia.com/gpu": 1})
    assert (dict(found.labels), found.taints) == ({"gpu": "on-demand"}, (TAINT,))
    assert (found.max_nodes, str(found.price_usd_per_hour)) == (8, "1.29")


def test_a_pool_is_the_same_whether_it_is_written_or_read() -> None:
    taints = "taints: [{key: gpu, value: 'true', effect: NoSchedule}]"
    written = load_text(one_pool("labels: {gpu: on-demand}", taints)).policy
    assert minimal().policy == written


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        (", name: gold", "name", "gold"),
        (", size: an.g1.h100.kube.x8", "size", "an.g1.h100.kube.x8"),
        (", resources: {nvidia.com/mig-1g.10gb: 7}", "resources", {"nvidia.com/mig-1g.10gb": 7}),
        (", labels: {}", "labels", {}),
        (", taints: []", "taints", ()),
    ],
)
def test_what_is_written_stays(written: str, field: str, value: object) -> None:
    assert getattr(pool(written), field) == value


def test_the_gpus_are_those_of_the_written_size() -> None:
    found = pool(", size: an.g1.h100.kube.x8")
    assert (found.name, found.gpus_per_node) == ("h100-x8", 8)


def test_another_pool_of_a_size_is_called_by_its_id() -> None:
    pools = minimal(f"{MINIMAL}  - {{civo_pool_id: 77aa, max_nodes: 1}}\n").policy.pools
    assert [p.name for p in pools] == ["l40s", "77aa"]


def test_a_name_that_another_pool_has_is_not_taken() -> None:
    pools = minimal(MINIMAL + "  - {civo_pool_id: 77aa, max_nodes: 1, name: l40s}\n").policy.pools
    assert [p.name for p in pools] == ["5f3c", "l40s"]


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (L40S, "l40s"),
        ("an.g1.h100.kube.x8", "h100-x8"),
        ("g4g.40.kube.small", "a100-40"),
        ("g4g.kube.xlarge", "a100-80-x8"),
        ("an.g1.b200sxm.kube.x8", "b200sxm-x8"),
        ("something.else", "something.else"),
    ],
)
def test_the_short_name_of_a_size_is_what_people_call_its_gpus(size: str, name: str) -> None:
    assert short_name(size) == name


def test_labels_and_taints_that_the_answer_lacks_are_none() -> None:
    found = pool(pool_id="77aa")
    assert (dict(found.labels), found.taints) == ({}, ())


def test_a_cluster_without_pools_has_a_remedy() -> None:
    with pytest.raises(ConfigError, match="has no pool 5f3c; create the pool, or check CIVO_CLUSTER_ID"):
        minimal(facts=PoolFacts())


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        (
            "\n  - {civo_pool_id: lost, max_nodes: 1}\n",
            ("pools[0].civo_pool_id: the cluster has no pool lost; use one of: "
            f"5f3c ({L40S}), 77aa ({L40S}), cpu ({CPU}), dumb (size unknown)"),
        ),
        (
            "\n  - {civo_pool_id: dumb, max_nodes: 1}\n",
            "pools[0].civo_pool_id: Civo does not say the size of pool dumb; write size and resources of the pool",
        ),
        (
            "\n  - {civo_pool_id: cpu, max_nodes: 1}\n",
            (f"pools[0].resources: {CPU}, the size of pool cpu, has no GPU at Civo; "
            "remove the pool, or write the GPUs of one node"),
        ),
        (
            "\n  - {civo_pool_id: 5f3c, max_nodes: 1, size: new.size}\n",
            ("pools[0].resources: Civo gives no number of GPUs for new.size, the size of pool 5f3c; "
            "write the GPUs of one node: {nvidia.com/gpu: 1}"),
        ),
        ("\n  - {max_nodes: 1}\n", ("pools[0].civo_pool_id: is missing; add Civo's id of the pool, which "
         "`civo kubernetes node-pool list` shows, such as civo_pool_id: 5f3c")),
    ],
)  # fmt: skip
def test_an_answer_that_completes_no_pool_is_one_mistake_with_its_remedy(pools: str, said: str) -> None:
    assert mistake(pools) == said


@pytest.mark.parametrize("facts", [FACTS, None])
@pytest.mark.parametrize(
    ("pools", "path"),
    [
        ("\n  - {civo_pool_id: [5f3c], max_nodes: 1}\n", "pools[0].civo_pool_id"),
        ("\n  - {civo_pool_id: 5f3c, max_nodes: 1, name: {a: b}}\n", "pools[0].name"),
        ("\n  - {civo_pool_id: 5f3c, max_nodes: 1, size: [a]}\n", "pools[0].size"),
        ("\n  - {civo_pool_id: 5f3c, max_nodes: 1, size: ''}\n", "pools[0].size"),
        ("\n  - word\n", "pools[0]"),
        (" {a: b}\n", "pools"),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_mistake(pools: str, path: str, facts: PoolFacts | None) -> None:
    with pytest.raises(ConfigError) as refused:
        minimal(pools, facts)
    assert [found.path for found in refused.value.mistakes] == [path]


def test_before_civo_answers_a_pool_is_pending_and_none_is_in_the_policy() -> None:
    found = load_text(one_pool(pool=POOL + MINIMAL.replace("5f3c", "77aa").lstrip("\n")))
    assert found.policy.pools == ()
    assert [p.civo_pool_id for p in found.pending] == ["5f3c", "77aa"]


def test_a_whole_pool_needs_no_answer() -> None:
    found = load_text(one_pool())
    assert (found.pending, [p.name for p in found.policy.pools]) == ((), ["l40s"])


def test_before_civo_answers_every_other_key_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"pools\[0\]\.max_nodes: .*must be at least min_nodes"):
        minimal("\n  - {civo_pool_id: 5f3c, max_nodes: 1, min_nodes: 2}\n", facts=None)


def test_a_filter_by_a_name_that_is_not_known_yet_is_no_mistake() -> None:
    top = QUIET + "notify: {destinations: {pager: {pools: [l40s]}}}\n"
    assert load_text(one_pool(top=top, pool=MINIMAL)).pending
    assert load_text(one_pool(top=top, pool=MINIMAL), facts=FACTS).routes["pager"].pools == {"5f3c"}


def test_people_change_a_pool_by_the_name_that_was_read() -> None:
    assert "name: l40s" in minimal().text
    assert load_text(minimal().text, facts=FACTS).policy == minimal().policy


def test_check_config_says_what_civo_will_say_and_what_it_said() -> None:
    left = "name, size, resources, labels, taints"
    assert f"  Civo     will say {left}" in list(describe(minimal(facts=None)))
    shown = list(describe(minimal()))
    assert f"  Civo     says {left}" in shown
    assert {"pool l40s (5f3c)", "  labels   gpu=on-demand"} <= set(shown)


def test_a_later_answer_changes_labels_and_never_a_size() -> None:
    later = PoolFacts(pools={"5f3c": PoolAtCivo(size="an.g1.h100.kube.x8", labels={"gpu": "spot"})}, gpus={L40S: None})
    found = FACTS.then(later, {"5f3c": L40S})
    assert found.pools["5f3c"] == PoolAtCivo(size=L40S, labels={"gpu": "spot"}, taints=(TAINT,))
    assert (found.gpus[L40S], found.pools.keys()) == (1, FACTS.pools.keys())
    assert FACTS.resized(later, {"5f3c": ""}) == {"5f3c": (L40S, "an.g1.h100.kube.x8")}


@pytest.mark.parametrize("configured", [{}, {"5f3c": "an.g1.h100.kube.x8"}])
def test_another_size_is_taken_where_it_is_written_or_the_pool_is_not_configured(configured: dict[str, str]) -> None:
    later = PoolFacts(pools={"5f3c": PoolAtCivo(size="an.g1.h100.kube.x8")})
    assert FACTS.then(later, configured).pools["5f3c"].size == "an.g1.h100.kube.x8"
    assert FACTS.resized(later, configured) == {}


def test_the_sizes_that_are_configured_are_known_or_empty() -> None:
    assert minimal().configured == {"5f3c": L40S}
    pools = f"{MINIMAL}  - {{civo_pool_id: 77aa, max_nodes: 1, size: {L40S}}}\n"
    assert minimal(pools, facts=None).configured == {"5f3c": "", "77aa": L40S}
