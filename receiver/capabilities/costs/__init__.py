"""What a month costs and who spent it: /costs, `report`, metrics, messages at the end of weeks and months."""

from receiver.terminal.additions import AddedCommand

COMMANDS = {
    "report": AddedCommand("command:report", "Show what a month cost, by owner, and what was idle.", after="budget"),
}
