"""The command line: `gpu-autoscaler COMMAND`. A command's module is imported when it runs, so that help, version and
completion are quick."""

from importlib import import_module
from typing import Any

import click

from receiver import installed_version
from receiver.adapters.clock import SystemClock

# By name: where the command is in `receiver.cli`, and the first sentence of its help.
COMMANDS = {
    "answer": ("operate:answer", "Answer an approval request."),
    "budget": ("operate:budget", "Show this month's budgets, or set one until the month ends."),
    "check-config": ("serve:check_config", "Check FILE and show its settings, or the mistakes in it."),
    "completion": ("client:completion", "Print the completion script of a shell."),
    "doctor": ("doctor:doctor", "Check a live installation and show how to fix what is wrong."),
    "explain": ("explain:explain", "Explain a pool's size, a waiting pod, a node or a decision."),
    "init": ("init:init", "Write the chart's values for the GPU pools of your cluster."),
    "override": ("operate:override", "Override policy: pin, floor, ceiling, pause or snooze."),
    "questions": ("operate:questions", "List unanswered approval requests."),
    "replay": ("replay:replay", "Compare the cost and waits of policies on recorded work."),
    "report": ("report:report", "Show what a month cost, by owner, and what was idle."),
    "serve": ("serve:serve", "Run the server in the foreground."),
    "status": ("status:status", "Show pools, budgets, waiting pods and the latest decisions."),
    "what-if": ("what_if:what_if", "Show what another configuration would decide now."),
}


class LazyGroup(click.Group):
    """The commands of `COMMANDS`, each imported when it is run or its own help is shown."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click passes it)
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"receiver.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=COMMANDS[name][1]) for name in names]


def _version(ctx: click.Context, _param: click.Parameter, flag: bool) -> None:
    if flag and not ctx.resilient_parsing:
        click.echo(f"gpu-autoscaler, version {installed_version()}")
        ctx.exit()


# The names are what click suggests from; `get_command` has the commands.
@click.group(
    cls=LazyGroup,
    commands={name: click.Command(name) for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Scale Civo GPU node pools from Prometheus alerts, within a budget."""
    ctx.obj = ctx.obj or SystemClock()


if __name__ == "__main__":
    main()
