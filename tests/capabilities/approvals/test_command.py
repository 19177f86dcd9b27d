"""`gpu-autoscaler approvals`, asked of a server that really listens."""

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.overrides import Answer
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.clocks import FixedClock
from tests.web.builders import NOW, OPERATOR, TOKEN, a_question
from tests.web.stores import add_questions, the_question


def operate(url: str, *arguments: str, token: str | None = OPERATOR) -> Result:
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token}
    return CliRunner(env=env).invoke(main, arguments, obj=FixedClock(NOW))


@pytest.fixture
def two_questions(full_store: MemoryStore) -> None:
    add_questions(full_store, a_question("gpu-0", id="q0", expires_at=NOW), a_question("gpu-1"))


@pytest.mark.usefixtures("two_questions")
def test_what_is_open_is_listed_with_the_one_deadline_that_its_message_has(url: str) -> None:
    asked = "approval requested until 14:40 UTC: remove gpu-1; without an answer it is removed"
    shown = operate(url, "approvals").stdout.splitlines()
    assert shown == [f"q1: GPU pool l40s: {asked}"]
    assert len(operate(url, "approvals", "list", "--all").stdout.splitlines()) == 2


@pytest.mark.usefixtures("two_questions")
def test_no_open_approval_requests_is_said(url: str, full_store: MemoryStore) -> None:
    full_store.forget()
    assert operate(url, "approvals").stdout == "no open approval requests\n"


@pytest.mark.usefixtures("two_questions")
def test_an_answer_is_sent_with_who_and_why(url: str, full_store: MemoryStore) -> None:
    done = operate(url, "approvals", "approve", "q1", "--who", "alice", "--why", "demo is over")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "q1: GPU pool l40s: alice approved: remove gpu-1",
        "the next step acts on it; see `gpu-autoscaler explain pool l40s`",
    ]
    kept = the_question(full_store)
    assert (kept.answer, kept.who, kept.why) == (Answer.APPROVE, "alice", "demo is over")


@pytest.mark.usefixtures("two_questions")
def test_a_rejection_says_that_it_set_no_override(url: str, full_store: MemoryStore) -> None:
    assert "no override" in operate(url, "approvals", "reject", "q1", "--who", "alice").stdout
    assert the_question(full_store).answer is Answer.REJECT


@pytest.mark.usefixtures("two_questions")
@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--for", "1h"), Answer.SNOOZE_1H),
        (("--for", "4h"), Answer.SNOOZE_4H),
        (("--for", "today"), Answer.SNOOZE_TODAY),
        (("--for", "tomorrow"), Answer.SNOOZE_TOMORROW),
        (("--pin",), Answer.PIN),
    ],
)
def test_a_rejection_for_longer_names_where_its_override_is(
    url: str, full_store: MemoryStore, options: tuple[str, ...], answer: Answer
) -> None:
    assert "override list" in operate(url, "approvals", "reject", "q1", *options, "--who", "alice").stdout
    assert the_question(full_store).answer is answer


@pytest.mark.usefixtures("two_questions")
@pytest.mark.parametrize(
    ("arguments", "token", "code", "said"),
    [
        (("approve", "q9"), OPERATOR, 1, "no question has this id"),
        (("approve", "q0"), OPERATOR, 2, "nothing was changed"),
        (("reject", "q1", "--for", "9h"), OPERATOR, 2, "tomorrow"),
        (("reject", "q1", "--for", "1h", "--pin"), OPERATOR, 2, "give --for or --pin, not both"),
        (("approve", "q1"), TOKEN, 2, "token"),
        (("approve", "q1"), None, 2, "GPU_AUTOSCALER_OPERATOR_TOKEN"),
    ],
)
def test_an_answer_that_is_not_taken_ends_with_its_status_and_a_reason(
    url: str, arguments: tuple[str, ...], token: str | None, code: int, said: str
) -> None:
    done = operate(url, "approvals", *arguments, "--who", "alice", token=token)
    assert done.exit_code == code
    assert said in done.stderr


def test_a_server_that_cannot_be_reached_ends_with_3() -> None:
    assert operate(unused_url(), "approvals").exit_code == 3
