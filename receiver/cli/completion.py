"""`gpu-autoscaler completion`: the script that lets a shell complete commands and names."""

import click
from click.shell_completion import get_completion_class

from receiver.terminal import PROGRAM

VARIABLE = "_GPU_AUTOSCALER_COMPLETE"  # as click derives it from the program's name


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: eval "$(gpu-autoscaler completion bash)"   in ~/.bashrc
    zsh:  eval "$(gpu-autoscaler completion zsh)"    in ~/.zshrc
    fish: gpu-autoscaler completion fish | source    in ~/.config/fish/config.fish

    Names come from the server at GPU_AUTOSCALER_URL; none are offered if it does not answer within a second. bash must
    be 4.4 or later.
    """
    kind = get_completion_class(shell)
    if kind is None:  # click knows all three
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
