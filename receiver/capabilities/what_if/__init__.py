"""What another configuration would decide now (`what-if`, POST /api/v1/what-if, /what-if), and what would happen if a
node went (`explain node`)."""

from receiver.terminal.additions import AddedCommand

COMMANDS = {
    "what-if": AddedCommand("command:what_if", "Show what another configuration would decide now."),
    "explain node": AddedCommand(
        "command:explain_node", "Show the effects of removing a node, and what blocks it.", after="pool"
    ),
}
