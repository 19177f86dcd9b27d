"""`gpu-autoscaler questions` and `answer`, asked of a server that really listens."""

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.overrides import Answer
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.clocks import FixedClock
from tests.web.builders import NOW, OPERATOR, TOKEN, a_question
from tests.web.stores import add_questions, the_question


def run(url: str, *arguments: str, token: str | None = OPERATOR) -> Result:
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token}
    return CliRunner(env=env).invoke(main, arguments, obj=FixedClock(NOW))


@pytest.fixture
def two_questions(store: MemoryStore) -> None:
    add_questions(store, a_question("gpu-0", id="q0", expires_at=NOW), a_question("gpu-1"))


@pytest.mark.usefixtures("two_questions")
def test_what_is_open_is_listed_with_the_one_deadline_that_its_message_has(url: str) -> None:
    asked = "approval requested until 14:40 UTC: remove gpu-1; without an answer it is removed"
    shown = run(url, "questions").stdout.splitlines()
    assert shown == [f"q1: GPU pool l40s: {asked}"]
    assert len(run(url, "questions", "--all").stdout.splitlines()) == 2


@pytest.mark.usefixtures("two_questions")
def test_an_empty_list_says_so(url: str, store: MemoryStore) -> None:
    store.forget()
    assert run(url, "questions").stdout == "no open approval requests\n"


@pytest.mark.usefixtures("two_questions")
def test_an_answer_is_sent_with_who_and_why(url: str, store: MemoryStore) -> None:
    done = run(url, "answer", "q1", "approve", "--who", "alice", "--why", "demo is over")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "q1: GPU pool l40s: alice approved: remove gpu-1",
        "the next step acts on it; see `gpu-autoscaler explain pool l40s`",
    ]
    kept = the_question(store)
    assert (kept.answer, kept.who, kept.why) == (Answer.APPROVE, "alice", "demo is over")


@pytest.mark.usefixtures("two_questions")
def test_a_rejection_says_that_it_set_no_override(url: str, store: MemoryStore) -> None:
    assert "no override" in run(url, "answer", "q1", "reject", "--who", "alice").stdout
    assert the_question(store).answer is Answer.REJECT


@pytest.mark.usefixtures("two_questions")
def test_a_snooze_names_where_its_override_is(url: str) -> None:
    assert "override list" in run(url, "answer", "q1", "snooze-4h", "--who", "alice").stdout


@pytest.mark.usefixtures("two_questions")
@pytest.mark.parametrize(
    ("arguments", "token", "code", "said"),
    [
        (("q9", "approve"), OPERATOR, 1, "no question has this id"),
        (("q0", "approve"), OPERATOR, 2, "nothing was changed"),
        (("q1", "yes"), OPERATOR, 2, "snooze-tomorrow"),
        (("q1", "approve"), TOKEN, 2, "token"),
        (("q1", "approve"), None, 2, "GPU_AUTOSCALER_OPERATOR_TOKEN"),
    ],
)
def test_what_cannot_be_done_ends_with_its_status_and_a_reason(
    url: str, arguments: tuple[str, ...], token: str | None, code: int, said: str
) -> None:
    done = run(url, "answer", *arguments, "--who", "alice", token=token)
    assert done.exit_code == code
    assert said in done.stderr


def test_a_server_that_cannot_be_reached_ends_with_3() -> None:
    assert run(unused_url(), "questions").exit_code == 3
