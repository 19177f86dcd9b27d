"""The former names of `approvals`. Each works for one release more and names the present one on standard error."""

import click

from receiver.capabilities.approvals.command import SNOOZES, every_request, print_requests, send_answer, why_answered
from receiver.core.model.overrides import Answer
from receiver.terminal.client import as_json, option_who, tell_renamed


@click.command(hidden=True)
@every_request
@as_json
def questions(everything: bool, as_json: bool) -> None:
    """List unanswered approval requests; now `approvals`."""
    tell_renamed("questions", "approvals list --all" if everything else "approvals")
    print_requests(everything=everything, as_json=as_json)


@click.command(hidden=True)
@click.argument("number", metavar="ID")
@click.argument("word", metavar="ANSWER", type=click.Choice([answer.value for answer in Answer]))
@option_who("answers")
@why_answered
@as_json
def answer(number: str, word: str, who: str, why: str, as_json: bool) -> None:
    """Answer an approval request; now `approvals approve` and `approvals reject`."""
    chosen = Answer(word)
    lengths = {snooze: length for length, snooze in SNOOZES.items()}
    present = f"approve {number}" if chosen is Answer.APPROVE else f"reject {number}"
    present += f" --for {lengths[chosen]}" if chosen in lengths else " --pin" if chosen is Answer.PIN else ""
    tell_renamed("answer", f"approvals {present}")
    send_answer(number, chosen, who=who, why=why, as_json=as_json)
