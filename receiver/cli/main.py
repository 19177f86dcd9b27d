"""The command line: `gpu-autoscaler COMMAND`. A command's module is imported when it runs, so that help, version and
completion are quick."""

from typing import Any

import click

from receiver import installed_version
from receiver.adapters.clock import SystemClock
from receiver.capabilities import registry
from receiver.cli.added import behind, value_at, with_additions

# By name: where the command is, and the first sentence of its help.
OWN_DAILY = {
    "status": ("receiver.cli.status:status", "Show pools, budgets, waiting pods and the latest decisions."),
    "explain": ("receiver.cli.explain:explain", "Explain a pool's size, a waiting pod, a node or a decision."),
    "pause": ("receiver.cli.operate:pause", "Change nothing in POOL, or in any pool."),
    "budget": ("receiver.cli.operate:budget", "Show this month's budgets, or set one until the month ends."),
    "doctor": ("receiver.cli.doctor:doctor", "Check a live installation and show how to fix what is wrong."),
    "replay": ("receiver.cli.replay:replay", "Compare the cost and waits of policies on recorded work."),
}
OWN_OTHERS = {
    "check-config": ("receiver.cli.serve:check_config", "Check FILE and show its settings, or the mistakes in it."),
    "completion": ("receiver.cli.completion:completion", "Print the completion script of a shell."),
    "init": ("receiver.cli.init:init", "Write the chart's values for the GPU pools of your cluster."),
    "override": ("receiver.cli.renamed:override", "Override the policy of a pool for a while."),
    "serve": ("receiver.cli.serve:serve", "Run the server in the foreground."),
}


def _with_added_ones() -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
    """The commands that --help lists, and the others, with those of capabilities that are below no other command."""
    daily, others = OWN_DAILY, dict(OWN_OTHERS)
    for name, (place, says, after, former) in registry.commands().items():
        if " " in name or former:
            continue
        if after:
            daily = behind(after, daily, name, (place, says))
        else:
            others[name] = (place, says)
    return daily, dict(sorted(others.items()))


DAILY, OTHERS = _with_added_ones()  # what --help lists, and what with --all
COMMANDS = {**DAILY, **OTHERS}
FORMER = {name: command.place for name, command in registry.commands().items() if command.former}
EVERYTHING = "receiver.cli.main.everything"  # in the context's meta: whether the help lists every command


class LazyGroup(click.Group):
    """The commands of `COMMANDS`, each imported when it is run or its own help is shown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[EVERYTHING] = "--all" in args  # --help is answered before the other options are read
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click passes it)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click passes it)
        place = COMMANDS[cmd_name][0] if cmd_name in COMMANDS else FORMER.get(cmd_name)
        return None if place is None else with_additions(value_at(place), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in DAILY.items()])
        if not ctx.meta.get(EVERYTHING):
            formatter.write("\n`gpu-autoscaler --help --all` lists the other commands.\n")
            return
        with formatter.section("More commands"):
            formatter.write_dl([(name, says) for name, (_, says) in OTHERS.items()])

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
@click.option("--all", is_flag=True, expose_value=False, help="With --help: list every command.")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Scale Civo GPU node pools from Prometheus alerts, within a budget."""
    ctx.obj = ctx.obj or SystemClock()


if __name__ == "__main__":
    main()
