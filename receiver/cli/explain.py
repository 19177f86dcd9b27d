"""`gpu-autoscaler explain`: why a pool has its size, why a pod waits, and what one decision rested on."""

import re
from datetime import datetime
from typing import Any

import click
from click.shell_completion import CompletionItem

from receiver.adapters.clock import SystemClock
from receiver.cli import explain_text
from receiver.cli.client import as_json, server, show
from receiver.cli.completion import decision_numbers, pool_names, pools_like, waiting_pods
from receiver.ports import Clock
from receiver.reports.picture import PoolDocument, WaitingPod
from receiver.web.api.documents import DecisionDocument, ExplainedDecision

POD = re.compile(r"(?P<namespace>[a-z0-9][a-z0-9-]*)/(?P<name>[a-z0-9][a-z0-9.-]*)")


class PoolUnlessNamed(click.Group):
    """What is no subcommand is the name of a pool: ``explain l40s``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand that *args* name, or `pool` with all of them."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            return "pool", self.get_command(ctx, "pool"), args
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the pools beside the subcommands."""
        return [*super().shell_complete(ctx, incomplete), *(CompletionItem(n) for n in pools_like(incomplete))]


@click.group(cls=PoolUnlessNamed, subcommand_metavar="POOL | pod NAMESPACE/NAME | decision ID")
def explain() -> None:
    """Say why a pool has the size it has, why a pod waits, or what a decision rested on.

    `explain l40s` is `explain pool l40s`, which also takes a pool that is called like a command here.
    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080). The exit status is 0 if it could be explained,
    1 if there is no such thing, 2 for a wrong command line, URL or token and 3 if the server cannot be reached.
    """


@explain.command("pod")
@click.argument("pod", metavar="NAMESPACE/NAME", shell_complete=waiting_pods)
@as_json
@click.pass_obj
def explain_pod(clock: Clock | None, pod: str, as_json: bool) -> None:
    """Say what a waiting GPU pod waits for, and what would help it."""
    named = POD.fullmatch(pod)
    if named is None:
        raise click.BadParameter("write NAMESPACE/NAME, such as ml/train-0", param_hint="NAMESPACE/NAME")
    with server(as_json=as_json) as api:
        answer = api.get("waiting", named["namespace"], named["name"])
    pod_seen = WaitingPod.model_validate(answer.document)
    show(as_json, answer.document, explain_text.about_pod(pod_seen, answer.at, _now(clock)))


@explain.command("pool")
@click.argument("name", shell_complete=pool_names)
@as_json
@click.pass_obj
def explain_pool(clock: Clock | None, name: str, as_json: bool) -> None:
    """Say how many nodes a pool has, how many it should have, and every rule that spoke about it."""
    with server(as_json=as_json) as api:
        answer = api.get("pools", name)
        number = answer.document.get("decision")
        decision: Any = api.get("decisions", str(number)).document if number is not None else None
    latest = None if decision is None else DecisionDocument.model_validate(decision)
    lines = explain_text.about_pool(PoolDocument.model_validate(answer.document), latest, answer.at, _now(clock))
    show(as_json, {"pool": answer.document, "decision": decision}, lines)


@explain.command("decision")
@click.argument("number", metavar="ID", shell_complete=decision_numbers)
@as_json
@click.pass_obj
def explain_decision(clock: Clock | None, number: str, as_json: bool) -> None:
    """Say what a decision rested on, as it was made: every rule, what was known, what would have changed it."""
    with server(as_json=as_json) as api:
        answer = api.get("decisions", number)
    decision = ExplainedDecision.model_validate(answer.document)
    show(as_json, answer.document, explain_text.about_decision(decision, _now(clock)))


def _now(clock: Clock | None) -> datetime:
    return (clock or SystemClock()).now()
