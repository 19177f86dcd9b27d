"""The questions that newcomers ask, in docs/README.md: each is answered within two clicks from README.md."""

import re

from tests.docs.pages import section, table, text_of
from tests.lint import none_of

ROWS = table(section(text_of("docs/README.md"), "Questions"))


def test_each_question_has_a_short_answer_and_the_page_that_has_the_long_one() -> None:
    assert len(ROWS) > 5
    none_of(question for question, answer in ROWS if not question.endswith("?") or len(answer.split()) > 45)
    none_of(question for question, answer in ROWS if not re.search(r": \[[^]]+\]\([\w-]+\.md(#[\w-]+)?\)\.$", answer))


def test_the_readme_leads_to_the_questions() -> None:
    assert "](docs/README.md#questions)" in text_of("README.md")
