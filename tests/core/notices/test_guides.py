"""Every page that a message leads to is there, with the heading that it names."""

import ast
from collections.abc import Iterator
from pathlib import Path

from receiver.core.explain.rules import RULES
from receiver.core.explain.rules import guide as guide_of
from receiver.core.notices.notice import GUIDES, Cause
from receiver.core.scaling.guardrails import GUARDRAILS
from tests.docs.pages import anchors

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
    assert {guardrail.__name__ for guardrail in GUARDRAILS} <= {name for name, rule in RULES.items() if rule.plain}


def test_every_kind_of_news_has_a_page() -> None:
    assert set(GUIDES) == set(Cause)
