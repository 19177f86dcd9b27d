"""What holds of every message, of the book and in any world, and of the page that it leads to."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.explain.evidence import with_grounds
from receiver.core.explain.rules import RULES
from receiver.core.explain.rules import guide as guide_of
from receiver.core.model.actions import Decision, Outcome, OutcomeKind
from receiver.core.model.model import Drift, Facts
from receiver.core.model.policy import Policy
from receiver.core.notices import money_notices
from receiver.core.notices.action_notices import Around, ended, instead_of
from receiver.core.notices.grouping import compose
from receiver.core.notices.notice import GUIDES, Cause, Notice, Severity
from receiver.core.notices.people_notices import ran_out, was_set
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all, plan
from receiver.core.scaling.guardrails import GUARDRAILS
from receiver.core.scaling.wanted import Assignment
from tests.core.builders import NOW
from tests.core.notices.book import every_message, generated
from tests.core.notices.cases import CASES, PAGES, PARTS
from tests.core.notices.scene import standing
from tests.core.worlds import LAWS, World, worlds
from tests.docs.pages import anchors
from tests.lint import none_of

MOST_LINES, MOST_CHARACTERS = 12, 900  # one screen of a phone


def test_a_message_fits_on_one_screen_of_a_phone() -> None:
    sizes = {name: (len(text), len(text.splitlines())) for name, text in every_message().items()}
    none_of(
        f"{name}: {characters} characters in {lines} lines"
        for name, (characters, lines) in sizes.items()
        if characters > MOST_CHARACTERS or lines > MOST_LINES
    )


def test_a_message_ends_with_where_to_read_what_to_do() -> None:
    last = {name: text.splitlines()[-1] for name, text in every_message().items()}
    none_of(f"{name}: {line}" for name, line in last.items() if not line.startswith("What to do: "))


def test_a_time_of_day_names_its_zone() -> None:
    time = re.compile(r"\b\d\d:\d\d(?::\d\d)?+(?!Z| UTC).{0,4}")
    notices = {name: case() for name, case in CASES.items()}
    none_of(
        f"{name}: {found}"
        for name, notice in notices.items()
        for found in time.findall(f"{notice.title}\n{notice.body}")
    )


def test_only_what_keeps_work_waiting_or_may_end_it_wakes_a_person() -> None:
    own = {name: case for part in PARTS.values() for name, case in part.items()}
    assert {name for name, case in own.items() if case().severity is Severity.FAILURE} == {
        "held_by_an_alert",
        "held_by_the_budget",
        "held_by_the_price",
        "installation_with_the_same_pool",
        "installation_with_the_same_pools",
        "out_of_stock_everywhere",
        "prometheus_silent",
        "rights_missing",
        "sick",  # while a GPU pod is on it
    }


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
            backoff=state.backoffs.growth,
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
    for override in found.instructions.overrides:
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


ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def written() -> Iterator[str]:
    """The pages that our sources name as ``guide="..."``."""
    for file in (ROOT / "receiver").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "guide" and isinstance(node.value, ast.Constant):
                yield str(node.value.value)


HOLDS = [guide_of(name) for name, rule in RULES.items() if rule.told or name == "gangs_whole"]


def test_the_pages_that_messages_lead_to_exist_with_their_headings() -> None:
    assert [guide for guide in sorted({*GUIDES.values(), *HOLDS, *written()}) if not is_there(guide)] == []


def is_there(guide: str) -> bool:
    """True when the page of *guide* exists, with its heading if it names one."""
    page, _, anchor = guide.partition("#")
    file = DOCS / page
    return file.is_file() and (not anchor or anchor in anchors(file.read_text(encoding="utf-8")))


def test_every_guardrail_can_be_said_in_plain_words() -> None:
    assert {guardrail.name for guardrail in GUARDRAILS} <= {name for name, rule in RULES.items() if rule.plain}


def test_every_kind_of_news_has_a_page() -> None:
    assert set(GUIDES) == set(Cause)


def test_every_message_of_the_book_is_as_it_is_sent() -> None:
    """Also one of `make generate`; here it is near what writes the sentences, where mutants look for their tests."""
    every_message.cache_clear()  # a mutant is planted into a process that may have written them before
    for book, text in generated().items():
        assert book.read_text(encoding="utf-8") == text
