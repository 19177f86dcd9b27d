"""The options `explain decision --bundle` and `replay --decision`; the modules that load the store,
which is slow, are imported when one is given."""

import sys
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from receiver.ports import WontWork
from receiver.terminal.additions import AddedOptions
from receiver.terminal.client import UNUSABLE, decision_numbers, print_lines, server, tell_renamed

if TYPE_CHECKING:
    from receiver.step.parts import Additions

A_FILE = click.Path(path_type=Path, dir_okay=False)


def write_bundle(bundle: Path, additions: "Additions") -> None:
    """Write the bundle of the decision that `explain decision` is about. Exits with 2 if it cannot be written."""
    from receiver.capabilities.bundles.bundle import NotFaithfulError, write

    parameters = click.get_current_context().params
    number = parameters["number"]
    with server(as_json=parameters["as_json"]) as api:
        decision, grounds = api.get("decisions", number).document, api.get("decisions", number, "grounds").document
    try:
        write(bundle, decision, grounds, additions)
        return
    except NotFaithfulError:
        problem = f"not written: with names replaced, decision {decision['id']} would have a different result"
    except (OSError, WontWork) as error:
        problem = f"cannot write {bundle}: {error}"
    print_lines([problem, f"what to do: gpu-autoscaler replay --decision {decision['id']}"], err=True)
    sys.exit(UNUSABLE)


def repeat_decision(decision: str | None, bundle: Path | None, additions: "Additions") -> None:
    """Repeat the stored decision with the number *decision*, or the one in a file: *decision* where it is no number, or
    *bundle*. Then exit: no trace is replayed."""
    from receiver.capabilities.bundles.repetition import decide_again, replay_bundle

    parameters = click.get_current_context().params
    as_json = parameters["as_json"]
    if bundle is not None:
        tell_renamed("replay --bundle", "replay --decision FILE")
    elif decision is not None and not decision.isalnum():  # of a file at least its dot
        bundle = Path(decision)
    if bundle is not None:
        _refuse_others({"bundle", "decision", "as_json"}, "a file of --decision can be combined with --json only.")
        sys.exit(replay_bundle(bundle, additions, as_json=as_json))
    if decision is not None:
        _refuse_others({"decision", "config", "as_json"}, "--decision can be combined with --config and --json only.")
        sys.exit(decide_again(decision, parameters["config"], additions, as_json=as_json))


def _refuse_others(allowed: Set[str], sentence: str) -> None:
    """Raise UsageError with *sentence* if an option is given that is not *allowed*: it would be ignored."""
    context = click.get_current_context()
    typed_options = {
        name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if typed_options - allowed:
        raise click.UsageError(sentence)


WRITE_BUNDLE = AddedOptions(
    options=(click.Option(["--bundle"], type=A_FILE, metavar="FILE", help="Write it and its inputs, without names."),),
    after="number",
    says="--bundle writes a file from which `replay --decision` repeats the decision on any machine. Names in the "
    "file are replaced.",
    run=write_bundle,
)
REPEAT_DECISION = AddedOptions(
    options=(
        click.Option(
            ["--decision"],
            metavar="ID|FILE",
            shell_complete=decision_numbers,
            help="Repeat a decision instead of a trace.",
        ),
        click.Option(["--bundle"], type=A_FILE, hidden=True),
    ),
    after="traces",
    says="--decision reads the decision from the server at GPU_AUTOSCALER_URL (default http://127.0.0.1:8080), as "
    "`explain` does, or without a server from the file that `explain decision --bundle` wrote. The exit status is "
    "then 0 for the same decision, 1 for a different one, 2 if the decision or its facts are not stored, and 3 if the "
    "server cannot be reached.",
    run=repeat_decision,
)
