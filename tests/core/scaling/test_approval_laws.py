"""Laws of asking first, over random worlds: it only ever holds, and nothing goes that nobody let go."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from receiver.core.model.model import Stage
from receiver.core.model.overrides import Answer, Asks, OverrideKind, Question
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Approval, Unanswered
from tests.core.builders import (
    GPU,
    HOUR_ENDS_SOON,
    HOURLY,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_question,
    a_state,
    facts,
)
from tests.core.scaling.approvals import APPROVED, HOLD, an_asking_policy, decide, due_questions
from tests.core.worlds import ASKING, LAWS, RARE, World, decided, worlds

SIZES = (OverrideKind.PIN, OverrideKind.CEILING)


@LAWS
@given(worlds())
def test_being_asked_only_holds_back_what_would_happen_without_it(world: World) -> None:
    found, policy = world
    free = replace(policy, pools=tuple(replace(p, approval=None) for p in policy.pools))
    for (_, _, with_it), (_, _, without) in zip(decided(world), decided((found, free)), strict=True):
        low, high = sorted((without.present, without.target))
        assert low <= with_it.target <= high


@LAWS
@given(worlds())
def test_an_approval_never_makes_a_change_smaller(world: World) -> None:
    found, _ = world
    approved = tuple(replace(q, answer=Answer.APPROVE) for q in found.questions)
    more = decided((replace(found, questions=approved), world[1]))
    for (_, _, before), (_, _, after) in zip(decided(world), more, strict=True):
        assert abs(after.target - after.present) >= abs(before.target - before.present)
        assert (after.target - after.present) * (before.target - before.present) >= 0


@RARE
@given(worlds(asking=[a for a in ASKING if a is not None]))
def test_where_removals_are_asked_about_no_node_goes_that_nobody_let_go(world: World) -> None:
    found, policy = world
    said = tuple(o for o in found.overrides if o.kind not in SIZES)
    calm = replace(policy, budget=None, pools=tuple(replace(p, windows=()) for p in policy.pools))
    for _, state, decision in decided((replace(found, overrides=said), calm)):
        for instance in decision.candidates[: max(0, decision.present - decision.target)]:
            node = next(n for n in state.nodes if n.instance == instance)
            mine = [q for q in found.questions if instance in q.instances and q.is_approved(NOW)]
            kinds = {q.asks for q in mine}
            assert node.stage is not Stage.USABLE or Asks.EMPTYING in kinds or (Asks.REMOVAL in kinds and not node.pods)


@LAWS
@given(first_is_busy=st.booleans(), about=st.lists(st.sampled_from([None, Asks.REMOVAL, Asks.EMPTYING]), max_size=4))
def test_exactly_the_nodes_go_that_were_asked_about_as_what_they_are(
    first_is_busy: bool, about: list[Asks | None]
) -> None:
    """A focused law: the paid hour of all nodes ends but one, which has room, and all that was asked is approved."""
    there, questions, free = [a_busy_node("stays", allocatable={GPU: 8})], [], set()
    for number, asks in enumerate(about):
        name = f"n{number}"
        busy = first_is_busy and number == 0
        pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, node=name, evictable=True, owner="ReplicaSet/r")
        node = a_busy_node(name, pods=(pod,)) if busy else a_node(name)
        there.append(replace(node, created_at=HOUR_ENDS_SOON, allocatable={GPU: 8}))
        if asks:
            questions.append(a_question(node.instance, id=name, asks=asks, **APPROVED))
        if asks is Asks.EMPTYING or (asks is Asks.REMOVAL and not busy):
            free.add(node.instance)
    decision = decide(facts(a_state(*there), questions=tuple(questions)), an_asking_policy(resources={GPU: 8}))
    assert set(decision.candidates[: decision.present - decision.target]) == free


@LAWS
@given(
    pods=st.integers(1, 8),
    under_way=st.integers(0, 3),
    limit=st.integers(0, 12),
    approved=st.integers(0, 8),
)
def test_growth_that_costs_much_comes_exactly_as_far_as_it_was_approved(
    pods: int, under_way: int, limit: int, approved: int
) -> None:
    """A focused law: nothing but the want of an answer holds this pool back."""
    coming = [a_node(f"n{n}", stage=Stage.BUILDING, idle_since=None, allocatable={}) for n in range(under_way)]
    policy = an_asking_policy(Approval(growth_above_usd_per_hour=Decimal(limit)), max_nodes=20)
    waiting = [a_pod(f"p{n}") for n in range(pods + under_way)]
    question = a_question(to_count=approved, **APPROVED)
    decision = decide(facts(a_state(*coming), waiting=waiting, questions=(question,)), policy)
    wanted = pods + under_way
    new = wanted - min(under_way, approved)
    cheap = new * Decimal("1.29") <= limit
    assert decision.target == (wanted if cheap else max(under_way, min(wanted, approved)))


@settings(LAWS, max_examples=10)  # each is two paid hours of steps
@example(minutes=50, idle=0, unanswered=Unanswered.PROCEED)  # too late to be asked a whole wait before its hour ends
@given(minutes=st.integers(0, 59), idle=st.integers(0, 59), unanswered=st.sampled_from(list(Unanswered)))
def test_a_node_goes_without_an_answer_only_after_a_whole_wait_and_never_where_the_policy_holds(
    minutes: int, idle: int, unanswered: Unanswered
) -> None:
    """A focused law: a node idles through its paid hour, stepped minute by minute."""
    node = a_node(created_at=NOW - minutes * MINUTE, idle_since=NOW - min(idle, minutes) * MINUTE)
    policy = replace(an_asking_policy(Approval(removals=True, unanswered=unanswered)), billing=HOURLY)
    questions: tuple[Question, ...] = ()
    for step in range(125):
        found = facts(a_state(node), at=NOW + step * MINUTE, questions=questions)
        questions += due_questions(found, policy)
        if decide(replace(found, questions=questions), policy).target == 0:
            assert unanswered is Unanswered.PROCEED
            assert any(q.asked_at + 15 * MINUTE <= found.at < q.expires_at for q in questions)
            return
    assert unanswered is HOLD
    assert 2 <= len(questions) <= 3
