"""What is reported about each trace of `bad.yaml`."""

from tests.lint import none_of
from tests.replay.traces.bad import TABLE, cases

CASES = list(cases(TABLE.read_text(encoding="utf-8")))


def test_the_table_has_many_traces_and_every_one_is_refused() -> None:
    assert len(CASES) > 40
    none_of(case.name for case in CASES if not case.reported)


def test_every_message_has_a_place_and_a_remedy() -> None:
    messages = [(case.name, line) for case in CASES for line in str(case.fields["message"]).splitlines()]
    none_of(
        f"{name}: {line}"
        for name, line in messages
        for problem, _, remedy in [line.partition("; ")]
        if ": " not in problem or not remedy
    )
