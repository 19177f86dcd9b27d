"""What is reported about each file of `bad.yaml`."""

import pytest

from tests.config.bad import TABLE, cases, filled
from tests.config.builders import one_pool
from tests.lint import load_yaml, none_of

CASES = list(cases(TABLE.read_text(encoding="utf-8")))


def test_the_table_has_many_cases_and_every_one_is_refused() -> None:
    assert len(CASES) > 200
    none_of(case.name for case in CASES if not case.reported)


def test_every_message_has_a_remedy() -> None:
    messages = [(case.name, line) for case in CASES for line in case.message.splitlines()]
    none_of(f"{name}: {line}" for name, line in messages if "; " not in line)


@pytest.mark.parametrize(
    ("differs", "text"),
    [
        ("  top: |\n    mode: act\n", one_pool(top="mode: act\n")),
        ("  pool: |\n    min_nodes: 2\n", one_pool("min_nodes: 2", top="")),
        ("  pool: |\n    max_nodes: 1\n", one_pool(top="").replace("max_nodes: 8", "max_nodes: 1")),
        ("  without: max_nodes\n", one_pool(top="").replace("    max_nodes: 8\n", "")),
        ("  second_pool: |\n    name: b\n    max_nodes: 2\n", one_pool(top="") + "  - name: b\n    max_nodes: 2\n"),
        ("  file: |\n    - pools\n", "- pools\n"),
    ],
)
def test_a_case_is_a_good_file_with_what_differs(differs: str, text: str) -> None:
    [case] = cases(f"one:\n{differs}")
    assert load_yaml(case.text) == load_yaml(text)


def test_a_case_without_its_message_gets_the_one_that_is_reported() -> None:
    table = "# Cases.\n\na_list:\n  file: |\n    - pools\n"
    message = "the file is not a mapping; start it with keys such as pools:"
    assert filled(table) == f"{table}  message: |\n    {message}\n"
