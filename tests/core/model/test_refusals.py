"""What kube-scheduler's message says of every node at once."""

import pytest

from receiver.core.model.refusals import LONGEST_OBSTACLE, is_of_no_node, obstacles

PREEMPTION = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            f'0/3 nodes are available: persistentvolumeclaim "data" not found.{PREEMPTION}',
            {"persistentvolumeclaim # not found"},
        ),
        ("0/3 nodes are available: 3 node(s) exceed max volume count.", {"node(s) exceed max volume count"}),
        (
            "0/4 nodes are available: 4 Insufficient hugepages-2Mi, 3 Insufficient nvidia.com/gpu.",
            {"Insufficient hugepages-#Mi"},
        ),
        ("0/4 nodes are available: 1 node(s) had untolerated taint {a: b, c}, 3 Insufficient nvidia.com/gpu.", set()),
        ("0/2 nodes are unavailable: 2 Insufficient rdma/hca.", {"Insufficient rdma/hca"}),
        ("running PreBind plugin: no such volume 7", {"running PreBind plugin: no such volume #"}),
        ("no nodes available to schedule pods", set()),
        ("", set()),
    ],
)  # fmt: skip
def test_a_reason_counts_that_holds_for_every_node(message: str, expected: set[str]) -> None:
    assert obstacles(message) == expected


def test_names_and_numbers_make_no_other_obstacle() -> None:
    first, other = (f'0/{n} nodes are available: persistentvolumeclaim "data-{n}" not found.' for n in (3, 4))
    assert obstacles(first) == obstacles(other)


def test_an_obstacle_is_bounded() -> None:
    [only] = obstacles(f"0/3 nodes are available: {'x' * 100_000}")
    assert len(only) == LONGEST_OBSTACLE


@pytest.mark.parametrize(
    ("message", "looked_at_none"),
    [
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", True),
        ("0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims.", False),
        ("0/3 nodes are available: ", False),
        ("waits for its group", False),
    ],
)
def test_a_reason_without_a_count_comes_before_any_node_is_looked_at(message: str, looked_at_none: bool) -> None:
    assert is_of_no_node(message) is looked_at_none
