"""Approvals: removals and expensive growth wait until a person approves them, by message, page, API or `approvals`."""

from receiver.terminal.additions import AddedCommand

COMMANDS = {
    "approvals": AddedCommand("command:approvals", "List, approve or reject approval requests."),
    "questions": AddedCommand("renamed:questions", "List unanswered approval requests; now `approvals`.", former=True),
    "answer": AddedCommand("renamed:answer", "Answer an approval request; now `approvals approve`.", former=True),
}
