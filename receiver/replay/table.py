"""The table of a replay, as a terminal shows it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from receiver.core.model.text import brief, some
from receiver.reports.screen import aligned

Column = tuple[str, str, Callable[[Mapping[str, Any]], str]]


def _number(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda policy: "-" if policy.get(name) is None else f"{policy[name]}"


def _hours(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda policy: f"{policy[name]:.0f}"


def _usd(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda policy: "?" if policy[name] is None else f"{Decimal(policy[name]):.0f}"


def _wait(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda policy: brief(policy[name])


COLUMNS: Sequence[Column] = (
    ("", "policy", lambda policy: str(policy["name"])),
    ("GPU-hours", "second", _hours("gpu_hours_second")),
    ("", "hour", _hours("gpu_hours_started")),
    ("node-hours", "second", _hours("node_hours_second")),
    ("", "hour", _hours("node_hours_started")),
    ("USD", "second", _usd("usd_second")),
    ("", "hour", _usd("usd_started")),
    ("in use", "%", lambda policy: f"{100 * policy['utilization']:.0f}"),
    ("wait", "mean", _wait("wait_mean_s")),
    ("", "p50", _wait("wait_p50_s")),
    ("", "p95", _wait("wait_p95_s")),
    ("", "max", _wait("wait_max_s")),
    ("nodes", "started", _number("node_starts")),
    ("", "actions", _number("actions")),
    ("", "kills", _number("kills")),
    ("jobs", "lost", _number("jobs_lost")),
)
BUDGET: Column = (
    "budget",
    "pauses",
    lambda policy: "-" if not policy["budget"] else f"{len(policy['budget']['pauses'])}",
)


def as_table(replayed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines on one trace; *replayed* is its document."""
    pools = ", ".join(
        f"{pool['name']} of up to {some(pool['max_nodes'], 'node')} with {some(pool['gpus_per_node'], 'GPU')}"
        for pool in replayed["pools"]
    )
    yield f"{replayed['trace']}: {some(replayed['jobs'], 'job')}; {pools}"
    yield from circumstances(replayed["setting"])
    yield ""
    policies = replayed["policies"]
    budgets = [(policy["name"], policy["budget"]["sentences"]) for policy in policies if policy["budget"] is not None]
    columns = [*COLUMNS, BUDGET] if budgets else COLUMNS
    rows = [[write(policy) for _, _, write in columns] for policy in policies]
    yield from aligned([[top for top, _, _ in columns], [name for _, name, _ in columns], *rows], "<>")
    compared = [
        policy for policy in policies if policy["against"] is not None and policy["name"] != replayed["against"]
    ]
    if compared:
        paid = "started hours" if replayed["setting"]["billing"] == "hour" else "seconds"
        yield ""
        yield f"by {replayed['against']}: GPU-hours paid ({paid}), mean wait (+1 s), nodes started"
        yield from aligned([[policy["name"], *_ratio(policy["against"])] for policy in compared], "<>")
    for name, sentences in budgets:
        yield ""
        yield f"what the budget held up under {name}:" + ("" if sentences else " nothing")
        yield from (f"  {sentence}" for sentence in sentences)
    wrong = [(policy["name"], said) for policy in policies for said in policy["violations"]]
    yield ""
    if wrong:
        yield from (f"DOES NOT ADD UP: {name}: {said}" for name, said in wrong)
    else:
        yield "checked: no job lost, no GPU held twice, nothing held on a node that was not there, paid >= used"


def as_means(replayed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the geometric means over several traces; *replayed* is the document of all of them."""
    if not replayed["ratios"]:
        return
    traces = some(len(replayed["traces"]), "trace")
    yield f"geometric means over {traces}: GPU-hours paid, mean wait (+1 s), nodes started"
    yield from aligned([[name, *_ratio(found)] for name, found in replayed["ratios"].items()], "<>")


def circumstances(setting: Mapping[str, Any]) -> Iterator[str]:
    """Yield how nodes, money and reactions were set, in words; *setting* as the document has it."""
    spread = f" +-{100 * setting['jitter']:g} %" if setting["jitter"] else ""
    ready, usable = brief(setting["build_s"] + setting["boot_s"]), brief(setting["driver_s"])
    yield (
        f"a node takes {ready} until it is Ready and {usable} more"
        f" until its GPUs are usable{spread}, and {brief(setting['delete_s'])} to go;"
        f" paid by the {'started hour' if setting['billing'] == 'hour' else 'second'}; packing {setting['packing']}"
    )
    told = []
    if setting["watch_s"] is not None:
        told.append(f"{setting['watch_s']:g} s after a pod found no room")
    if setting["scrape_s"] is not None:
        told.append(
            f"when an alert comes (scrape {setting['scrape_s']:g} s, evaluation {setting['evaluation_s']:g} s,"
            f" group_wait {setting['group_wait_s']:g} s)"
        )
    told.append(f"every {setting['tick_s']:g} s")
    yield f"the product looks {', '.join(told)}; a peer at its own interval"


def _ratio(found: Mapping[str, float]) -> list[str]:
    return [f"{found[name]:.3f}" for name in ("cost", "wait", "starts")]
