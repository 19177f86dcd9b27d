"""Completion in a shell: `gpu-autoscaler completion` prints its script, and the names behind TAB come from the server.

Where the server does not answer at once, no names are offered.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import click
from click.shell_completion import get_completion_class

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.adapters.http.sessions import quick_session
from receiver.config import ConfigError, reading_token, server_url
from receiver.ports import TryLater

PROGRAM = "gpu-autoscaler"
VARIABLE = "_GPU_AUTOSCALER_COMPLETE"  # as click derives it from the program's name
TIMEOUT_SECONDS = 1.0  # a person has pressed a key and waits

Names = Callable[[click.Context, click.Parameter, str], list[str]]


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


def _listed(path: str, name: Callable[[Mapping[str, Any]], str], incomplete: str) -> list[str]:
    """The names that begin with *incomplete* of what ``/api/v1/PATH`` lists; none when it cannot be asked."""
    session = quick_session(repeats=0)
    try:
        api = ServerApi(server_url(os.environ), TIMEOUT_SECONDS, session, reader=reading_token(os.environ))
        found = [name(entry) for entry in api.get_list(path)]
    except (ConfigError, NotThereError, RefusedError, TryLater):
        return []
    finally:
        session.close()
    return [each for each in found if each.startswith(incomplete)]


def _completion(path: str, name: Callable[[Mapping[str, Any]], str]) -> Names:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 (as click calls it)
        return _listed(path, name, incomplete)

    return complete


def pools_like(incomplete: str) -> list[str]:
    """Return the names of the pools that begin with *incomplete*."""
    return _listed("pools", lambda pool: str(pool.get("name")), incomplete)


pool_names = _completion("pools", lambda pool: str(pool.get("name")))
waiting_pods = _completion("waiting", lambda pod: f"{pod.get('namespace')}/{pod.get('name')}")
decision_numbers = _completion("decisions", lambda decision: str(decision.get("id")))
override_ids = _completion("overrides", lambda override: str(override.get("id")))
