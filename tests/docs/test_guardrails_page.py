"""docs/guardrails.md has every rule that speaks and no other, and its tables are those that are tested."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, given, settings

from receiver.core.model.model import Node, Stage
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.pods import PodPhase, Workload
from receiver.core.model.policy import Objective
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.signals import SignalAction
from receiver.core.scaling import waits
from receiver.core.scaling.bounds import topic_of
from receiver.core.scaling.decide import keeps_its_size
from receiver.core.scaling.witness import request_of
from receiver.step import carry_out
from tests.core.builders import (
    ALL_GUARDRAILS,
    GPU,
    HOUR_ENDS_SOON,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_question,
    a_signal,
    a_silence,
    a_state,
    facts,
    run,
)
from tests.core.scaling.tables import SILENT_SOURCES as SOURCES
from tests.core.worlds import NIGHT, World, decided, worlds
from tests.docs.pages import headings, section, table, text_of
from tests.given.requests import buffer_of
from tests.lint import none_of

PAGE = text_of("docs/guardrails.md")
NAMES = [guardrail.name for guardrail in ALL_GUARDRAILS]
OTHERS = headings(section(PAGE, "Other rules"), 3)


def test_every_guardrail_has_its_heading_in_the_order_in_which_they_run() -> None:
    assert headings(section(PAGE, "Guardrails"), 3) == NAMES


def test_a_guardrail_says_once_what_to_do() -> None:
    none_of(name for name in NAMES if section(PAGE, name).count("**What to do:** ") != 1)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_every_rule_that_speaks_in_any_world_has_a_heading(world: World) -> None:
    spoken = {reason.rule for _, _, decision in decided(world) for reason in decision.reasons}
    assert spoken <= {*NAMES, *OTHERS}


def two_half_empty_nodes() -> tuple[Node, ...]:
    """Two nodes of two GPUs with a pod each, both of which may be moved; the paid hour ends soon."""
    pods = {n: a_pod(n, phase=PodPhase.RUNNING, node=n, evictable=True, owner="ReplicaSet/r") for n in ("n1", "n2")}
    return tuple(
        a_busy_node(n, pods=(pod,), allocatable={GPU: 2}, created_at=HOUR_ENDS_SOON) for n, pod in pods.items()
    )


def rules_of_a_few_pools() -> set[str]:
    """Pools that bring every other rule to speak: demand, floor, standby, removal, rest, gangs and all signals."""
    gang = [a_pod(f"rank{n}", gang="ml/big") for n in range(2)]
    half_a_gang = [a_pod("rank0", gang="ml/half", gang_min=2)]
    signals = tuple(a_signal(action, None) for action in SignalAction)
    stuck = a_node(stage=Stage.INSTALLING, created_at=HOUR_ENDS_SOON, idle_since=None)
    hour = timedelta(hours=1)
    pause = Override(id="p", kind=OverrideKind.PAUSE, who="alice", why="load test", at=NOW, until=NOW + hour)
    night = a_pool(windows=(replace(NIGHT, max_nodes=0),))
    told = {topic_of(night.windows[0], night): NOW}
    evictable = replace(a_pod("web", phase=PodPhase.RUNNING), owner="ReplicaSet/web")
    spoken: set[str] = set()
    for state, policy, waiting, firing in (
        (a_state(), a_policy(a_pool(min_nodes=1, standby_nodes=1)), [a_pod(), *gang], signals),
        (a_state(), a_policy(a_pool(min_nodes=1, standby_nodes=1)), [], signals),
        (a_state(), a_policy(a_pool(standby_nodes=1)), [], signals),
        (a_state(), a_policy(a_pool(max_nodes=1)), gang, signals),
        (a_state(), a_policy(), half_a_gang, signals),
        (a_state(a_node(created_at=HOUR_ENDS_SOON)), a_policy(), [], signals),
        (a_state(stuck), a_policy(), [], signals),
        (a_state(*two_half_empty_nodes()), a_policy(a_pool(resources={GPU: 2})), [], ()),
        (a_state(), a_policy(), [], signals),
        (a_state(a_node(kept_until=NOW + hour)), a_policy(), [], ()),
        (a_state(a_busy_node(pods=(evictable,))), a_policy(night), [], ()),
        (a_state(silence=a_silence()), a_policy(), [], ()),
    ):
        asked = (a_question(),)
        found = facts(state, waiting=waiting, signals=firing, overrides=(pause,), told_to_go=told, questions=asked)
        _, decisions = run(found, policy)
        spoken |= {reason.rule for decision in decisions.values() for reason in decision.reasons}
    _, decisions = run(facts(a_state(), requests=(buffer_of("ml/warm", a_pod(), 1),)), a_policy())
    spoken |= {reason.rule for decision in decisions.values() for reason in decision.reasons}
    pod = a_pod()
    refusal = SchedulerRefusal(
        request=request_of(Workload(key=pod.key, pods=(pod,))),
        configured="",
        seen_at=NOW,
        refused_at=NOW,
        until=NOW + hour,
    )
    _, decisions = run(facts(a_state(), waiting=[pod], refusals=(refusal,)), a_policy())
    spoken |= {reason.rule for decision in decisions.values() for reason in decision.reasons}
    followed = facts(a_state(), waiting=[a_pod("one"), a_pod("two")])  # nothing is kept warm in a pause
    _, decisions = run(followed, a_policy(objective=Objective.WAIT))
    spoken |= {reason.rule for decision in decisions.values() for reason in decision.reasons}
    return spoken | {reason.rule for reason in keeps_its_size(a_state(), "ValueError: a bug", NOW).reasons}


def test_every_other_rule_on_the_page_speaks_in_the_code() -> None:
    assert rules_of_a_few_pools() - set(NAMES) == set(OTHERS)
    assert len(OTHERS) == len(set(OTHERS))


def test_the_times_of_what_ends_by_itself_are_those_in_force() -> None:
    told = {(kind.strip("`"), way): long for kind, way, _, long in table(section(PAGE, "What ends by itself"))}
    minute, hour = timedelta(minutes=1), timedelta(hours=1)
    tried, removed, longest = carry_out.FIRST_BACKOFF, carry_out.FIRST_REMOVAL_BACKOFF, carry_out.LONGEST_BACKOFF
    beside = waits.FIRST_BACKOFF_BESIDE_WORKING_NODES
    assert told["backoff", "growth"] == f"{tried // minute} to {longest // minute} minutes"
    stuck = waits.STOPS_FOR // hour
    assert told["backoff", "removal"] == f"{removed // minute} to {longest // minute} minutes, or {stuck} hours"
    assert told["provisioning", "growth"] == f"{beside // minute} minutes to {waits.LONGEST_BACKOFF // hour} hours"
    assert told["undone", "either"] == f"{waits.GIVES_WAY_FOR // hour} hours"
    works = " ".join(section(PAGE, "provisioning_works").split())
    assert f"for {waits.FIRST_BACKOFF // minute} minutes the first time, for {beside // minute} minutes where" in works


def test_the_table_of_sources_is_the_one_that_is_tested() -> None:
    rows = table(section(PAGE, "Sources"))
    answers = {"yes": True, "no": False}
    told = [(s, answers[grow.split(",")[0]], answers[shrink.split(",")[0]]) for s, _, grow, shrink in rows]
    assert told == [(source.value, grows, shrinks) for source, grows, shrinks in SOURCES]
