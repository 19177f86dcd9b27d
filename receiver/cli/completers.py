"""What the shell offers behind TAB: names that the server knows. Where it does not answer at once, nothing."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import click

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.adapters.http.sessions import quick_session
from receiver.config import ConfigError, reading_token, server_url
from receiver.ports import TryLater

TIMEOUT_SECONDS = 1.0  # a person has pressed a key and waits

Names = Callable[[click.Context, click.Parameter, str], list[str]]


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
