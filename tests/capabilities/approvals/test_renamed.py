"""The former names of `approvals` work, and name the present ones on standard error."""

import pytest

from receiver.core.model.overrides import Answer
from simulator.store import MemoryStore
from tests.cli.renamed import present, run
from tests.docs.commands import taken, words_of
from tests.web.builders import a_question
from tests.web.stores import add_questions, the_question


@pytest.mark.parametrize(
    ("answer", "now"),
    [
        ("approve", "approvals approve q1"),
        ("reject", "approvals reject q1"),
        ("snooze-1h", "approvals reject q1 --for 1h"),
        ("snooze-4h", "approvals reject q1 --for 4h"),
        ("snooze-today", "approvals reject q1 --for today"),
        ("snooze-tomorrow", "approvals reject q1 --for tomorrow"),
        ("pin", "approvals reject q1 --pin"),
    ],
)
def test_each_former_answer_is_given_and_its_present_command_named(
    url: str, full_store: MemoryStore, answer: str, now: str
) -> None:
    add_questions(full_store, a_question("gpu-1"))
    done = run(url, "answer", "q1", answer, "--who", "alice", "--why", "x")
    assert (done.exit_code, present(done, "answer")) == (0, now)
    assert the_question(full_store).answer is Answer(answer)
    assert taken([*words_of(now), "--who", "alice"], whole=True) is None


@pytest.mark.parametrize(
    ("former", "now"), [(("questions",), "approvals"), (("questions", "--all"), "approvals list --all")]
)
def test_the_former_list_of_requests_is_that_of_approvals(
    url: str, full_store: MemoryStore, former: tuple[str, ...], now: str
) -> None:
    add_questions(full_store, a_question("gpu-1"))
    done = run(url, *former)
    assert present(done, "questions") == now
    assert done.stdout == run(url, *words_of(now)).stdout
    assert done.stdout.startswith("q1: ")


def test_no_help_lists_a_former_name(url: str) -> None:
    for former in ("questions", "answer"):
        assert former not in run(url, "--help", "--all").stdout
