"""`gpu-autoscaler approvals`: list, approve or reject approval requests."""

from typing import Any

import click

from receiver.capabilities.approvals.documents import QuestionDocument
from receiver.core.model.overrides import Answer
from receiver.terminal.client import acting_token, as_json, completion, explaining, option_who, server, show

SNOOZES = {
    "1h": Answer.SNOOZE_1H,
    "4h": Answer.SNOOZE_4H,
    "today": Answer.SNOOZE_TODAY,
    "tomorrow": Answer.SNOOZE_TOMORROW,
}
request_ids = completion("questions", lambda question: str(question.get("id")))

every_request = click.option("--all", "everything", is_flag=True, help="Include answered and expired requests.")
why_answered = click.option("--why", default="", help="The reason, shown to everyone.")


@click.group(invoke_without_command=True)
@click.pass_context
def approvals(ctx: click.Context) -> None:
    """List, approve or reject approval requests.

    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080); answers need the token in
    GPU_AUTOSCALER_OPERATOR_TOKEN. The exit status is 0 if the answer was accepted, 1 if there is no such request, 2 if
    the request already has another answer or has expired, for a wrong command line or token, and 3 if the server cannot
    be reached.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_requests)


@approvals.command("list")
@every_request
@as_json
def list_requests(everything: bool, as_json: bool) -> None:
    """List unanswered requests."""
    print_requests(everything=everything, as_json=as_json)


def print_requests(*, everything: bool, as_json: bool) -> None:
    """Print the open approval requests; *everything*: all of them."""
    with server(as_json=as_json) as api:
        documents = [q for q in api.get_list("questions") if everything or q.get("state") == "open"]
    lines = [_question(QuestionDocument.model_validate(question)) for question in documents]
    show(as_json, documents, lines or ["no open approval requests"])


@approvals.command()
@click.argument("number", metavar="ID", shell_complete=request_ids)
@option_who("approves it")
@why_answered
@as_json
def approve(number: str, who: str, why: str, as_json: bool) -> None:
    """Approve the request ID."""
    send_answer(number, Answer.APPROVE, who=who, why=why, as_json=as_json)


@approvals.command()
@click.argument("number", metavar="ID", shell_complete=request_ids)
@click.option("--for", "length", type=click.Choice(list(SNOOZES)), help="Ask again only then.")
@click.option("--pin", is_flag=True, help="Keep the pool at its present size.")
@option_who("rejects it")
@why_answered
@as_json
def reject(number: str, length: str | None, pin: bool, who: str, why: str, as_json: bool) -> None:
    """Reject the request ID."""
    if length and pin:
        raise click.UsageError("give --for or --pin, not both")
    answer = SNOOZES[length] if length else Answer.PIN if pin else Answer.REJECT
    send_answer(number, answer, who=who, why=why, as_json=as_json)


def send_answer(number: str, answer: Answer, *, who: str, why: str, as_json: bool) -> None:
    """Answer the approval request *number* and print what follows."""
    token = acting_token()
    body: dict[str, Any] = {"answer": answer.value, "who": who, **({"why": why} if why else {})}
    with server(as_json=as_json) as api:
        document = api.post("questions", number, body=body, token=token).document
    question = QuestionDocument.model_validate(document)
    then = "it set an override; see `gpu-autoscaler override list`"
    if question.answer == Answer.APPROVE:
        then = f"the next step acts on it; see `{explaining(question.pool_name)}`"
    if question.answer == Answer.REJECT:
        then = f"it set no override; see `{explaining(question.pool_name)}`"
    show(as_json, document, [_question(question), then])


def _question(question: QuestionDocument) -> str:
    """A line on *question*, with its deadline."""
    return f"{question.id}: GPU pool {question.pool_name}: {question.said}"
