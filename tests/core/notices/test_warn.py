"""What is told to people because they have to look: when, with which words, and nothing when all is well."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given

from receiver.core.model.model import Backoff, CordonedBy, Drift, Facts, Node, PoolState, Source, SourceState, Stage
from receiver.core.model.pods import PodPhase, Toleration
from receiver.core.model.policy import Policy, Taint
from receiver.core.notices.action_notices import removals_stop
from receiver.core.notices.notice import Notice, Severity
from receiver.core.notices.unplaced_concerns import NO_WORDS
from receiver.core.scaling.assign import assign
from receiver.core.scaling.packing import IDLE
from tests.core.builders import GPU, MINUTE, NOW, a_busy_node, a_node, a_pod, a_policy, a_pool, a_state, all_up, facts
from tests.core.notices.scene import standing
from tests.core.worlds import LAWS, World, worlds

LABELLED = a_pool(labels={"gpu": "l40s"})


def told(found: Facts, policy: Policy | None = None, drifts: Mapping[str, Drift] | None = None) -> list[Notice]:
    policy = policy or a_policy()
    return [n for n in standing(found, policy, drifts) if not n.topic.startswith(("held:", "misfit:"))]


def the_one(found: Facts, policy: Policy | None = None, drifts: Mapping[str, Drift] | None = None) -> Notice:
    [notice] = told(found, policy, drifts)
    return notice


def ago(minutes: float) -> datetime:
    return NOW - minutes * MINUTE


def never_up(name: str = "n1", **changes: Any) -> Node:
    given: dict[str, Any] = {"stage": Stage.BOOTING, "idle_since": None, "allocatable": {}, "created_at": ago(21)}
    return a_node(name, **{**given, **changes})


def lost(minutes: float, **changes: Any) -> Node:
    return never_up(**{"stage": Stage.BROKEN, "was_usable": True, "lost_at": ago(minutes), **changes})


def test_nothing_is_told_when_all_is_well() -> None:
    state = a_state(a_node("idle"), a_busy_node("busy"), never_up("coming", created_at=NOW))
    assert told(facts(state)) == []


# --- silent sources ---------------------------------------------------------------------------------------


def source(*, up: bool, minutes: float, **changes: Any) -> Facts:
    state = SourceState(source=Source.DCGM, up=up, at=NOW, since=ago(minutes), detail="no answer", **changes)
    return facts(a_state(), sources={**all_up(), Source.DCGM: state})


def test_a_source_that_is_silent_for_two_minutes_is_told_once() -> None:
    notice = the_one(source(up=False, minutes=2))
    title = "DCGM (GPU telemetry) does not answer: pods alone decide whether a node is busy or idle"
    assert (notice.topic, notice.title, notice.severity) == ("source:dcgm", title, Severity.WARNING)
    assert notice.body.splitlines()[:2] == ["Since 11:58 UTC.", "Why: no answer."]
    assert the_one(replace(source(up=False, minutes=2), at=NOW + MINUTE)).key == notice.key


def test_its_return_is_told_for_five_minutes_and_only_after_its_silence() -> None:
    notice = the_one(source(up=True, minutes=4.9))
    assert (notice.topic, notice.all_clear) == ("source:dcgm", True)
    assert notice.title == "DCGM (GPU telemetry) answers again"
    assert notice.body == "Since 11:55 UTC.\nNext: changes that waited for it resume."


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(source(up=False, minutes=1.9), id="silent for a moment"),
        pytest.param(source(up=True, minutes=5), id="back for a while"),
        pytest.param(source(up=False, minutes=9, configured=False), id="never asked for"),
        pytest.param(facts(a_state(), sources=all_up(Source.DCGM)), id="silent since nobody knows when"),
    ],
)
def test_a_source_is_no_news_that_is(found: Facts) -> None:
    assert told(found) == []


# --- nodes that are stuck, unknown or otherwise than configured -------------------------------------------


@pytest.mark.parametrize(
    ("state", "names"),
    [
        pytest.param(a_state(never_up()), "n1", id="a node that never came up"),
        pytest.param(
            a_state(required=2, required_since=ago(21)), "2 nodes that Civo does not list", id="nodes never built"
        ),
        pytest.param(a_state(never_up(protected=True)), "n1", id="one that may not be removed"),
    ],
)
def test_what_did_not_become_usable_in_time_is_told(state: PoolState, names: str) -> None:
    notice = the_one(facts(state))
    assert notice.title == f"GPU pool l40s: not usable after 20m: {names}"
    assert "Next: these nodes are deleted if no GPU pod runs on them." in notice.body
    assert (notice.topic, notice.key, notice.pool, notice.severity) == (
        "stuck:l40s-id",
        names,
        "l40s-id",
        Severity.WARNING,
    )


def test_nodes_that_did_not_become_usable_are_told_anew_once_they_keep_work_waiting() -> None:
    calm = facts(a_state(never_up()))
    before, after = the_one(calm), the_one(replace(calm, waiting=(a_pod(),)))
    assert (before.severity, after.severity) == (Severity.WARNING, Severity.FAILURE)
    assert before.topic != after.topic  # the outbox drops what has the last key of its topic


def test_a_node_that_broke_is_told_with_those_that_never_came_up() -> None:
    topics = {n.topic: n for n in told(facts(a_state(never_up(), lost(21, name="n2"))))}
    assert topics["stuck:l40s-id"].key == "n1,n2"


@pytest.mark.parametrize(
    ("node", "what"),
    [
        pytest.param(
            a_node(unknown_since=ago(15)),
            (
                "cannot tell whether n1 is idle\n\nWhy: its GPUs have been in"
                " use since 11:45 UTC, but no GPU pod holds them."
            ),
            id="used without a pod",
        ),
        pytest.param(
            lost(15, pods=(a_pod(),)),
            (
                "n1 is broken and still runs GPU pods\n\nWhy: it has not been"
                " Ready, or has lacked its GPUs, since 11:45 UTC."
            ),
            id="broken under a pod",
        ),
    ],
)
def test_a_node_of_which_nobody_can_tell_is_told_after_a_quarter_of_an_hour(node: Node, what: str) -> None:
    notice = the_one(facts(a_state(node)))
    assert f"{notice.title}\n\n{notice.body}".startswith(f"GPU pool l40s: {what}")
    assert (notice.topic, notice.key) == ("unknown:i-n1", ago(15).isoformat())
    assert told(facts(a_state(node)), a_policy(unknown_after=16 * MINUTE)) == []


def test_a_node_that_breaks_under_work_is_told_when_its_time_to_recover_is_over_at_the_latest() -> None:
    policy = a_policy(unknown_after=120 * MINUTE)  # its provision_timeout is 20 minutes
    [notice] = told(facts(a_state(lost(20, pods=(a_pod(),)))), policy)
    assert notice.title == "GPU pool l40s: n1 is broken and still runs GPU pods"
    assert told(facts(a_state(lost(19.9, pods=(a_pod(),)), a_node("n2", unknown_since=ago(20)))), policy) == []


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(a_node(unknown_since=ago(14.9)), id="in use for a moment"),
        pytest.param(lost(14.9), id="broken for a moment"),
        pytest.param(lost(15, stage=Stage.UNKNOWN), id="not looked at"),
        pytest.param(a_node(unknown_since=ago(60), stage=Stage.DELETING), id="being deleted"),
        pytest.param(a_node(idle_since=ago(14.9), cordoned_by=CordonedBy.SOMEONE), id="cordoned for a moment"),
        pytest.param(a_node(idle_since=None, cordoned_by=CordonedBy.SOMEONE), id="cordoned and busy"),
        pytest.param(a_node(idle_since=ago(20), cordoned_by=CordonedBy.US), id="cordoned by us"),
    ],
)
def test_nothing_is_told_of_a_node_that_is(node: Node) -> None:
    assert told(facts(a_state(node))) == []


def test_a_node_that_offers_other_gpus_than_configured_is_told() -> None:
    pool = a_pool(resources={GPU: 2, "nvidia.com/mig-1g.10gb": 1})
    notice = the_one(facts(a_state(a_node(allocatable={GPU: 1, "cpu": 8}))), a_policy(pool))
    assert notice.title == "GPU pool l40s: n1 offers other GPUs than configured"
    assert notice.body.splitlines()[0] == (
        "Why: it offers 1 nvidia.com/gpu, 0 nvidia.com/mig-1g.10gb;"
        " the configuration says 2 nvidia.com/gpu, 1 nvidia.com/mig-1g.10gb."
    )
    assert (notice.topic, notice.key) == ("offers:i-n1", "1 nvidia.com/gpu, 0 nvidia.com/mig-1g.10gb")


def test_other_resources_of_a_node_are_none_of_our_business() -> None:
    assert told(facts(a_state(a_node(allocatable={GPU: 1, "cpu": 8})))) == []


def test_nodes_of_no_instance_are_told_while_an_instance_has_no_node() -> None:
    state = a_state(never_up(created_at=NOW, registered=False), unjoined=("k3s-a", "k3s-b"))
    notice = the_one(facts(state))
    assert notice.title == "GPU pool l40s: 2 nodes match no Civo instance"
    assert notice.body.startswith("Why: the providerID of k3s-a, k3s-b matches no Civo instance")
    assert notice.key == "k3s-a,k3s-b"


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(a_state(never_up(created_at=NOW, registered=False)), id="no node is left over"),
        pytest.param(a_state(never_up(created_at=NOW), unjoined=("k3s-a",)), id="every instance has its node"),
        pytest.param(
            a_state(never_up(created_at=NOW, registered=False, stage=Stage.BUILDING), unjoined=("k3s-a",)),
            id="the instance is being built",
        ),
    ],
)
def test_who_is_who_is_certain_when(state: PoolState) -> None:
    assert told(facts(state)) == []


# --- pods that do not start, or are not placed ------------------------------------------------------------


def starting(**changes: Any) -> Facts:
    """A pod that has been starting for twenty minutes on a node that has been usable for an hour."""
    usable_since = changes.pop("usable_since", ago(60))
    given: dict[str, Any] = {"phase": PodPhase.STARTING, "node": "n1", "created_at": ago(20)}
    pod = a_pod(**{**given, **changes})
    return facts(a_state(a_busy_node(pods=(pod,), usable_since=usable_since)))


def test_a_pod_that_has_its_node_and_does_not_start_is_told() -> None:
    notice = the_one(starting())
    assert notice.title == "ml/train has a GPU and does not start"
    assert notice.body.splitlines() == [
        "Why: it was given n1 of GPU pool l40s and is not running after 20m.",
        "For: pod ml/train, no team label (1 GPU).",
        "Cost: $1.29 an hour.",
        "Next: the node is kept for it.",
        "Look at: kubectl describe pod -n ml train (image, volume, init container)",
    ]
    assert (notice.topic, notice.key) == ("starting:uid-train", "i-n1")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"phase": PodPhase.RUNNING}, id="it runs"),
        pytest.param({"created_at": ago(19.9)}, id="it was created a moment ago"),
        pytest.param({"usable_since": ago(19.9)}, id="its node became usable a moment ago"),
        pytest.param({"daemon": True}, id="it belongs to a DaemonSet"),
        pytest.param({"leaves_at": NOW}, id="it is being deleted"),
    ],
)
def test_a_pod_that_starts_is_no_news_when(changes: dict[str, Any]) -> None:
    assert told(starting(**changes)) == []


def ignored(pod: dict[str, Any] | None = None, **node: Any) -> Facts:
    """A pod that has waited for two minutes beside a node that is as configured and idle for as long."""
    waits = a_pod(**{"created_at": ago(2), **(pod or {})})
    shows: dict[str, Any] = {"labels": {"gpu": "l40s"}, "idle_since": ago(2)}
    return facts(a_state(a_node(**{**shows, **node})), waiting=[waits])


ANY = Toleration(key="", operator="Exists", value="", effect="")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(ignored(), NO_WORDS, id="without a word"),
        pytest.param(
            ignored({"scheduler_says": "0/1 nodes: Insufficient cpu. "}),
            "the scheduler says: 0/1 nodes: Insufficient cpu",
            id="the scheduler knows why",
        ),
        pytest.param(
            ignored({"scheduler_says": "no"}, taints=(IDLE, Taint(key="a", effect="PreferNoSchedule"))),
            "the scheduler says: no",
            id="a taint that keeps no pod away is no reason",
        ),
        pytest.param(
            ignored({"scheduler_says": "no", "tolerations": (ANY,)}, taints=(Taint(key="a", value="b"),)),
            "the scheduler says: no",
            id="nor one that it tolerates",
        ),
        pytest.param(
            ignored({"scheduler_says": f"0/1 nodes are available: {'x' * 9000}"}),
            f"the scheduler says: 0/1 nodes are available: {'x' * 211} ...",
            id="at some length",
        ),
    ],
)
def test_a_pod_that_waits_beside_a_node_for_it_is_told_with_the_words_of_the_scheduler(found: Facts, why: str) -> None:
    notice = the_one(found, a_policy(LABELLED))
    assert notice.title == "ml/train is pending although n1 of GPU pool l40s should fit it"
    assert notice.body.splitlines()[0].rstrip(".") == f"Why: {why}".rstrip(".")
    assert (notice.topic.split("#")[0], notice.key) == ("refused:ml/train/", "1")


@pytest.mark.parametrize(
    ("key", "why", "remedy"),
    [
        pytest.param("maintenance", "", "kubectl taint nodes n1 maintenance:NoSchedule-", id="by a person"),
        pytest.param(
            "ToBeDeletedByClusterAutoscaler",
            "; another autoscaler sets ToBeDeletedByClusterAutoscaler on a node that it is about to delete, and may"
            " leave it behind",
            "kubectl taint nodes n1 ToBeDeletedByClusterAutoscaler:NoSchedule-",
            id="left behind",
        ),
    ],
)
def test_an_idle_node_with_a_taint_that_keeps_work_away_is_told_with_the_command_that_removes_it(
    key: str, why: str, remedy: str
) -> None:
    found = ignored(taints=(Taint(key=key, value="x"),))
    notice = the_one(found, a_policy(LABELLED))
    assert notice.title == "GPU pool l40s: idle and tainted: n1"
    assert notice.body.splitlines()[0] == (
        f"Why: it has {key}=x:NoSchedule, which pool l40s is not configured with{why}."
    )
    assert remedy in notice.body
    assert (notice.topic, notice.key) == ("tainted:i-n1", f"{key}=x:NoSchedule")


def test_a_taint_is_no_news_where_waiting_work_tolerates_it() -> None:
    found = ignored({"tolerations": (ANY,)}, taints=(Taint(key="a", value="b"),))
    assert [n.topic.split("#")[0] for n in told(found, a_policy(LABELLED))] == ["refused:ml/train/"]


@pytest.mark.parametrize(
    "node",
    [
        pytest.param({"taints": (Taint(key="a", value="b", effect="PreferNoSchedule"),)}, id="a soft taint"),
        pytest.param({"taints": (Taint(key="a", value="b"),), "idle_since": None}, id="a node in use"),
        pytest.param({"taints": (Taint(key="a", value="b"),), "idle_since": ago(1.9)}, id="idle for a moment"),
    ],
)
def test_a_taint_is_no_news_on(node: dict[str, Any]) -> None:
    assert not [n for n in told(ignored(**node), a_policy(LABELLED)) if n.topic.startswith("tainted:")]


@pytest.mark.parametrize(
    "minutes, closed_for, titles",
    [
        pytest.param(1.9, None, 0, id="nodes were opened a moment ago"),
        pytest.param(2.0, None, 1, id="a while ago"),
        pytest.param(9.0, "cluster budget 2026-11", 0, id="this one is not open yet"),
    ],
)
def test_a_pod_that_waited_for_a_closed_node_gets_a_moment_after_it_is_opened(
    minutes: float, closed_for: str | None, titles: int
) -> None:
    found, policy = ignored(closed_for=closed_for), a_policy(LABELLED)
    news = standing(found, policy, reopened={LABELLED.id: ago(minutes)})
    assert len([n for n in news if n.topic.startswith("refused:")]) == titles


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(ignored({"created_at": ago(1.9)}), id="it waits for a moment"),
        pytest.param(ignored(idle_since=ago(1.9)), id="the node is free for a moment"),
        pytest.param(ignored({"node_selector": {"gpu": "h100"}}), id="it fits no pool"),
    ],
)
def test_a_pod_that_waits_is_no_news_when(found: Facts) -> None:
    assert told(found, a_policy(LABELLED)) == []


@pytest.mark.parametrize(
    ("usable_since", "topics"),
    [(None, []), (ago(1.9), []), (ago(2), ["refused:ml/train/"])],
    ids=["nobody knows since when", "for a moment", "for two minutes"],
)
def test_beside_a_busy_node_with_a_free_gpu_it_counts_how_long_the_node_is_usable(
    usable_since: datetime | None, topics: list[str]
) -> None:
    node = a_busy_node(allocatable={GPU: 2}, usable_since=usable_since)
    found = facts(a_state(node), waiting=[a_pod(created_at=ago(60))])
    policy = a_policy(a_pool(resources={GPU: 2}))
    assert assign(found, policy).pools["l40s-id"].placed == (("ml/train", "i-n1"),)
    assert [n.topic.split("#")[0] for n in told(found, policy)] == topics


# --- other hands ------------------------------------------------------------------------------------------


def test_a_count_that_somebody_else_changed_is_told() -> None:
    drift = Drift(at=NOW, from_count=1, to_count=3)
    notice = the_one(facts(a_state(required=1)), drifts={"l40s-id": drift})
    assert notice.title == "GPU pool l40s: node count changed outside the autoscaler, 1 -> 3"
    assert "Cost: $3.87 an hour (before: $1.29)" in notice.body
    assert "Next: the new count is kept; idle nodes are removed in their time." in notice.body
    assert (notice.topic, notice.key) == ("drift:l40s-id:1:3", f"{NOW:%Y-%m-%dT%H}")


def reverts(to_count: int, *hours: float) -> tuple[Drift, ...]:
    """Others took our change back that long ago."""
    return tuple(Drift(at=ago(h * 60), from_count=2, to_count=to_count, undoes=True) for h in hours)


def stops(*seen: Drift, **state: Any) -> list[Notice]:
    found = told(facts(a_state(required=1, drifts=seen, **state)), drifts={"l40s-id": seen[-1]})
    return [n for n in found if n.topic.startswith("undone:")]


@pytest.mark.parametrize(
    ("to_count", "stays"), [(1, "does not grow"), (3, "does not shrink")], ids=["lowered", "raised"]
)
def test_the_third_revert_says_until_when_the_count_is_left_alone(to_count: int, stays: str) -> None:
    [notice] = stops(*reverts(to_count, 2, 1, 0))
    assert notice.title == f"GPU pool l40s: {stays} before 2026-11-21 12:00 UTC"
    assert f"last 2 -> {to_count} at 12:00 UTC" in notice.body
    assert "ignore_changes" in notice.body


def test_a_stop_is_told_whatever_was_told_of_the_same_counts_in_the_same_hour() -> None:
    """The outbox drops a message whose topic and key it has sent: those of the stop are its own."""
    first, second, third = reverts(1, 0.5, 0.3, 0.1)
    before = told(facts(a_state(required=1, drifts=(first, second))), drifts={"l40s-id": second})
    after = told(facts(a_state(required=1, drifts=(first, second, third))), drifts={"l40s-id": third})
    assert not {(n.topic, n.key) for n in after} & {(n.topic, n.key) for n in before}


def test_a_stop_is_told_although_no_step_saw_its_last_revert() -> None:
    """A crash between the look and the message: the drift is stored by then."""
    found = told(facts(a_state(required=1, drifts=reverts(1, 2, 1, 0))))
    assert [n.title for n in found] == ["GPU pool l40s: does not grow before 2026-11-21 12:00 UTC"]


def test_a_change_the_other_way_beside_a_stop_is_told_as_a_change() -> None:
    raised = Drift(at=NOW, from_count=1, to_count=2)
    found = told(facts(a_state(required=2, drifts=(*reverts(1, 2, 1, 0.5), raised))), drifts={"l40s-id": raised})
    assert sorted(n.topic for n in found) == ["drift:l40s-id:1:2", "undone:l40s-id:grow"]


@pytest.mark.parametrize(("pool", "name"), [("l40s-id", "l40s"), ("gone-id", "gone-id")])
def test_removals_that_stop_cost_money_and_do_not_wake_a_person(pool: str, name: str) -> None:
    backoff = Backoff(failures=1, until=NOW, reason="the count of 3 did not fall")
    notice = removals_stop(a_state(pool=pool), backoff, a_policy(), NOW)
    assert notice.title == f"GPU pool {name}: removals stop until 2026-11-20 12:00 UTC"
    assert notice.body.startswith("Why: the count of 3 did not fall.\n")
    assert (notice.severity, notice.key) == (Severity.WARNING, NOW.isoformat())


# --- law --------------------------------------------------------------------------------------------------


@LAWS
@given(worlds())
def test_what_is_told_in_one_step_has_one_key_for_each_topic(world: World) -> None:
    """The outbox drops what it told last of a topic: two keys in one step would be told again at every step."""
    found, policy = world
    topics = [n.topic for n in told(found, policy)]
    assert len(topics) == len(set(topics))
