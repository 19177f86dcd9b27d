"""`gpu-autoscaler completion`: the script with which a shell completes our commands."""

import click
from click.shell_completion import get_completion_class

PROGRAM = "gpu-autoscaler"
VARIABLE = "_GPU_AUTOSCALER_COMPLETE"  # as click derives it from the program's name


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, pools, pods, decisions and overrides behind TAB.

    \b
    bash: gpu-autoscaler completion bash > ~/.local/share/bash-completion/completions/gpu-autoscaler
    zsh:  gpu-autoscaler completion zsh > "${fpath[1]}/_gpu-autoscaler"
    fish: gpu-autoscaler completion fish > ~/.config/fish/completions/gpu-autoscaler.fish

    Names come from the server that GPU_AUTOSCALER_URL names; where it does not answer within a second, none are
    offered. bash must be 4.4 or later.
    """
    kind = get_completion_class(shell)
    if kind is None:  # click knows all three
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
