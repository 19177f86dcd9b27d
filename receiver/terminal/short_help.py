"""Commands with many options, whose help lists what most people need."""

import click

PROGRAM = "gpu-autoscaler"
EVERYTHING = "receiver.terminal.everything"  # in a context's meta: whether a help with --all lists everything

every_option = click.option("--all", is_flag=True, expose_value=False, help="With --help: list every option.")


class ShortHelp(click.Command):
    """A command whose help lists the options *first* alone, unless --all is given."""

    first: frozenset[str] = frozenset()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[EVERYTHING] = "--all" in args  # --help is answered before the other options are read
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        everything, of_help = ctx.meta.get(EVERYTHING), self.get_help_option(ctx)
        names = {*self.first, "all", of_help and of_help.name}
        listed_options = [option for option in self.get_params(ctx) if everything or option.name in names]
        with formatter.section("Options"):
            formatter.write_dl([record for option in listed_options if (record := option.get_help_record(ctx))])
        if not everything:
            formatter.write(f"\n`{PROGRAM} {ctx.info_name} --help --all` lists the other options.\n")
