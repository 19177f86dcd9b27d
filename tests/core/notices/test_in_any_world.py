"""Whatever world a step meets, what it tells fits on a screen and holds nothing that only a program can read."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Decision, Outcome, OutcomeKind
from receiver.core.model.model import Drift, Facts
from receiver.core.model.policy import Policy
from receiver.core.notices import money_notices
from receiver.core.notices.action_notices import Around, ended, instead_of
from receiver.core.notices.grouping import compose
from receiver.core.notices.notice import Cause, Notice
from receiver.core.notices.people_notices import ran_out, was_set
from receiver.core.scaling.assign import Assignment, assign
from receiver.core.scaling.decide import decide_all, plan
from tests.core.builders import NOW
from tests.core.notices.cases import PAGES
from tests.core.notices.scene import standing
from tests.core.worlds import LAWS, World, worlds

OF_PROGRAMS = re.compile(
    r"\bNone\b|\bTrue\b|\bFalse\b|Decimal\(|datetime|timedelta|<[A-Z]\w+[.:]|\{'|\['|\d+\.\d{5,}|\d:\d\d:\d\d(?! UTC)"
)


def of_actions(
    found: Facts, assignment: Assignment, decisions: dict[str, Decision], policy: Policy, kind: OutcomeKind
) -> Iterator[Notice]:
    for pool in policy.pools:
        state, decision = found.pool(pool.id), decisions[pool.id]
        action = plan(decision, state, policy)
        if action is None:
            continue
        around = Around(
            policy=policy,
            budgets=assignment.budgets,
            decision=decision,
            state=state,
            backoff=state.backoff,
            instead=instead_of(pool, assignment.pools[pool.id], found, policy),
        )
        yield ended(action, Outcome(kind=kind, at=NOW, detail="out_of_capacity: Civo has none"), around)


def every_notice(world: World, kind: OutcomeKind) -> Iterable[Notice]:
    """What one step on *world* may tell, its actions ending as *kind*."""
    found, policy = world
    assignment = assign(found, policy)
    decisions = decide_all(found, assignment, policy, explained_by=with_grounds)
    drifts = {p.id: Drift(at=NOW, from_count=1, to_count=2) for p in policy.pools}
    yield from of_actions(found, assignment, decisions, policy, kind)
    silent = {s: replace(state, since=NOW - timedelta(minutes=3)) for s, state in found.sources.items()}
    yield from standing(replace(found, sources=silent), policy, drifts)
    yield from money_notices.budget_lines(assignment.budgets, {}, NOW)
    for override in found.overrides:
        yield from (was_set(override, policy), ran_out(override, policy))


@settings(LAWS, max_examples=60)
@given(worlds(), st.sampled_from(list(OutcomeKind)))
def test_a_message_of_any_world_is_short_and_in_words(world: World, kind: OutcomeKind) -> None:
    for notice in every_notice(world, kind):
        message = compose(notice, PAGES)
        text = f"{message.title}\n{message.body}"
        assert notice.cause in set(Cause)
        assert len(message.title) <= 100
        assert len(message.body) <= 1500
        assert OF_PROGRAMS.search(text) is None, text
