"""The output of a replay: the document that `--json` prints, and the table and page data made from it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.policy import Pool
from receiver.core.model.text import brief, dollars, lasting, some
from receiver.core.money.cost import amount
from receiver.replay.contest import Result
from receiver.replay.figures import Ratio, by_hour, over_all, ratio
from receiver.replay.play import Setting
from receiver.replay.traces.trace import Trace
from receiver.reports.screen import aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A trace and its results. *pools* are those of the first policy; *against* names the policy that the others are
    compared with, *objectives* has the objectives of policies that differ in nothing else, by name."""

    trace: Trace
    pools: Sequence[Pool]
    setting: Setting
    results: Sequence[Result]
    against: str | None = None
    objectives: Mapping[str, str] = field(default_factory=dict)


def document(replayed: Replayed) -> dict[str, Any]:
    """Return the JSON of *replayed*."""
    base = next((r.figures for r in replayed.results if r.name == replayed.against), None)
    by_the_hour = replayed.setting.by_the_hour

    def policy(result: Result) -> dict[str, Any]:
        comparison = None if base is None else ratio(result.figures, base, by_the_hour=by_the_hour)
        return {
            **result.figures.document(),
            "kind": result.kind,
            "objective": replayed.objectives.get(result.name),
            "against": None if comparison is None else asdict(comparison),
            "violations": list(result.violations),
            "budget": None if result.delays is None else result.delays.document(),
        }

    return {
        "trace": replayed.trace.source,
        "policies": [policy(result) for result in replayed.results],
        "against": replayed.against,
        "jobs": len(replayed.trace.jobs),
        "begins": _moment(replayed.setting.start),
        "last_submission": _moment(max(job.submit_at for job in replayed.trace.jobs)),
        "pools": [
            {
                "name": pool.name,
                "size": pool.size,
                "gpus_per_node": pool.gpus_per_node,
                "max_nodes": pool.max_nodes,
                "usd_per_node_hour": None if pool.price_usd_per_hour is None else amount(pool.price_usd_per_hour),
            }
            for pool in replayed.pools
        ],
        "setting": _setting(replayed.setting),
        "left_out": [str(trouble) for trouble in replayed.trace.left_out],
        "not_counted": dict(replayed.trace.uncounted),
        "notes": list(replayed.trace.notes),
    }


def page_document(replayed: Replayed) -> dict[str, Any]:
    """Return the document with the conclusion and the waits by hour of day of each policy, which the page shows."""
    played = {result.name: result.played for result in replayed.results if result.played is not None}
    return {
        **(trace_document := document(replayed)),
        "paid_by": paid_by(trace_document["setting"]),
        "unit": started_unit(trace_document["setting"]),
        "conclusion": conclusion([document(replayed)]),
        "by_hour": {name: by_hour(run) for name, run in played.items()},
    }


def several(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the documents of several traces as one, with the geometric means of each policy's ratios."""
    ratios: dict[str, list[Ratio]] = {}
    for trace_document in documents:
        for policy in trace_document["policies"]:
            if policy["against"] is not None:
                ratios.setdefault(policy["name"], []).append(Ratio(**policy["against"]))
    mean_ratios = {name: asdict(over_all(of)) for name, of in ratios.items() if len(of) == len(documents)}
    return {"traces": list(documents), "ratios": mean_ratios}


def _moment(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _setting(setting: Setting) -> dict[str, Any]:
    """Return the setting with durations in seconds, without `start`."""
    setting_document: dict[str, Any] = {}
    for each in fields(setting):
        value = getattr(setting, each.name)
        if each.name in LENGTHS:
            setting_document[f"{each.name}_s"] = value.total_seconds() if isinstance(value, timedelta) else None
        elif each.name != "start":
            setting_document[each.name] = value
    return setting_document


LENGTHS = frozenset(
    {
        "build", "boot", "driver", "delete", "image_pull", "tick", "watch", "scrape", "evaluation", "group_wait",
        "granularity",
    }
)  # fmt: skip


def _whole(value: float) -> str:
    return f"{value:.0f}"


Column = tuple[str, str, str, Callable[[Any], str]]  # two lines of its header, its field, and how that is shown
COLUMNS: Sequence[Column] = (
    ("", "policy", "name", str),
    ("GPU-hours", "second", "gpu_hours_second", _whole),
    ("", "hour", "gpu_hours_started", _whole),
    ("node-hours", "second", "node_hours_second", _whole),
    ("", "hour", "node_hours_started", _whole),
    ("cost", "second", "usd_second", dollars),
    ("", "hour", "usd_started", dollars),
    ("in use", "%", "utilization", lambda ratio: f"{100 * ratio:.0f}"),
    ("wait", "mean", "wait_mean_s", brief),
    ("", "p50", "wait_p50_s", brief),
    ("", "p95", "wait_p95_s", brief),
    ("", "max", "wait_max_s", brief),
    ("nodes", "started", "node_starts", str),
    ("", "actions", "actions", str),
    ("", "kills", "kills", str),
    ("jobs", "lost", "jobs_lost", str),
    ("", "unstarted", "jobs_unstarted", str),
)
HOUR_S = 3600
CHECKED = "no GPU held twice, no pod on a node that did not exist, paid >= used"
SAME_COST = Decimal("0.01")  # shares of a cost that are noise
BUDGET: Column = ("budget", "pauses", "budget", lambda budget: f"{len(budget['pauses'])}" if budget else "-")


def conclusion(replayed: Sequence[Mapping[str, Any]]) -> str:
    """Return what the first policy would have cost on all traces together, and the longest wait, beside the policy that
    the others are compared with; *replayed* are the documents of the traces."""
    ours = [trace["policies"][0] for trace in replayed]
    name = replayed[0]["against"]
    theirs = [policy for trace in replayed for policy in trace["policies"] if policy["name"] == name]
    paid, other_paid = _together(ours), _together(theirs) if theirs else None
    subject = f"Over {some(len(ours), 'trace')} this" if len(ours) > 1 else "This"
    unpriced = "an unknown amount"
    sentence = f"{subject} policy would have cost {dollars(paid, unpriced)}"
    if other_paid is not None:
        change = f" ({round(100 * (paid / other_paid - 1)):+d}%)" if paid is not None and other_paid else ""
        sentence += f" instead of {dollars(other_paid)} under {name}{change}"
    sentence += f", with the longest wait {_longest(ours)}"
    if theirs and theirs[0]["kind"] != "bound":  # nothing waits under a bound
        sentence += f" instead of {_longest(theirs)}"
    sentence += "".join(f"; {words}" for words in [_lost(ours)] if words)
    sentence += "".join(f". {words}" for words in [_objectives(replayed)] if words)
    return (
        f"{sentence}."
        if not any(p["violations"] for p in ours + theirs)
        else f"{sentence}. It DOES NOT ADD UP: see below."
    )


def _objectives(replayed: Sequence[Mapping[str, Any]]) -> str:
    """Return which objective costs the same as the cheapest and waits less, or what less waiting costs, without a full
    stop; empty where no objectives are compared or not all have a price."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for policy in (policy for trace in replayed for policy in trace["policies"] if policy["objective"]):
        runs.setdefault(policy["objective"], []).append(policy)
    paid = {objective: cost for objective, of in runs.items() if (cost := _together(of))}
    if not paid or len(paid) < len(runs):
        return ""
    waited = {objective: sum(policy["wait_mean_s"] * policy["jobs"] for policy in of) for objective, of in runs.items()}
    cheapest = min(paid, key=lambda each: (paid[each], waited[each]))
    same = [each for each in paid if paid[each] <= paid[cheapest] * (1 + SAME_COST)]
    best, quickest = min(same, key=waited.__getitem__), min(paid, key=waited.__getitem__)
    of_cheapest = waited[cheapest] or 1.0  # where nothing waits, nothing waits less
    less = {each: round(100 * (waited[cheapest] - waited[each]) / of_cheapest) for each in (best, quickest)}
    if less[best] > 0:
        return f"Objective {best} costs the same as {cheapest}, and jobs wait {less[best]} % less"
    if less[quickest] > 0:
        more = round(100 * (paid[quickest] / paid[cheapest] - 1))
        return f"Objective {cheapest} costs least; under {quickest} jobs wait {less[quickest]} % less for {more} % more"
    return f"Objective {cheapest} costs least, and under no other do jobs wait less"


def _lost(policies: Sequence[Mapping[str, Any]]) -> str:
    """Return how many jobs did not finish under *policies*; empty when all did."""
    lost, unstarted = (sum(policy[key] for policy in policies) for key in ("jobs_lost", "jobs_unstarted"))
    never = f", {'all' if unstarted == lost else unstarted} of which never started" if unstarted else ""
    return f"{some(lost, 'job')} did not finish{never}" if lost else ""


def started_unit(setting: Mapping[str, Any]) -> str:
    """Return the unit that is paid once it started, under the *setting* of a document: ``hour``, ``5m``."""
    return "hour" if setting["granularity_s"] == HOUR_S else lasting(timedelta(seconds=setting["granularity_s"]))


def paid_by(setting: Mapping[str, Any]) -> str:
    """Return what a node is billed by: ``started hour``, ``started 5m``, ``second``."""
    return f"started {started_unit(setting)}" if setting["billing"] == "hour" else "second"


def _together(policies: Sequence[Mapping[str, Any]]) -> Decimal | None:
    amounts = [policy["usd"] for policy in policies]
    return None if None in amounts else sum(map(Decimal, amounts), Decimal(0))


def _longest(policies: Sequence[Mapping[str, Any]]) -> str:
    longest = brief(max(policy["wait_max_s"] for policy in policies))
    return f"more than {longest}" if any(policy["jobs_unstarted"] for policy in policies) else longest


def as_table(replayed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the conclusion and the table of one trace; *replayed* is its document."""
    yield conclusion([replayed])
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
    rows = [[show(policy[field]) for _, _, field, show in columns] for policy in policies]
    unit = started_unit(replayed["setting"])
    below = [unit if word == "hour" else word for _, word, _, _ in columns]
    yield from aligned([[column[0] for column in columns], below, *rows], "<>")
    compared = [
        policy for policy in policies if policy["against"] is not None and policy["name"] != replayed["against"]
    ]
    if compared:
        paid = f"{paid_by(replayed['setting'])}s"
        yield ""
        yield f"by {replayed['against']}: GPU-hours paid ({paid}), mean wait (+1 s), nodes started"
        yield from aligned([[policy["name"], *_ratio(policy["against"])] for policy in compared], "<>")
    for name, sentences in budgets:
        yield ""
        yield f"delayed by the budget under {name}:" + ("" if sentences else " nothing")
        yield from (f"  {sentence}" for sentence in sentences)
    wrong = [(policy["name"], problem) for policy in policies for problem in policy["violations"]]
    lost = [(policy["name"], problem) for policy in policies if (problem := _lost([policy]))]
    yield ""
    yield from (f"NOT FINISHED: {name}: {problem}" for name, problem in lost)
    if wrong:
        yield from (f"DOES NOT ADD UP: {name}: {problem}" for name, problem in wrong)
    else:
        yield f"checked: {CHECKED if lost else f'no job lost, {CHECKED}'}"


def as_means(replayed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the geometric means over several traces; *replayed* is their document."""
    if not replayed["ratios"]:
        return
    traces = some(len(replayed["traces"]), "trace")
    yield f"geometric means over {traces}: GPU-hours paid, mean wait (+1 s), nodes started"
    yield from aligned([[name, *_ratio(ratios)] for name, ratios in replayed["ratios"].items()], "<>")


def circumstances(setting: Mapping[str, Any]) -> Iterator[str]:
    """Yield the `setting` of a document in words."""
    spread = f" +-{100 * setting['jitter']:g}%" if setting["jitter"] else ""
    ready, usable = brief(setting["build_s"] + setting["boot_s"]), brief(setting["driver_s"])
    yield (
        f"a node is Ready after {ready}, its GPUs are usable after {usable} more{spread},"
        f" and it is gone {brief(setting['delete_s'])} after its deletion;"
        f" billed by the {paid_by(setting)}; packing {setting['packing']}"
    )
    steps = []
    if setting["watch_s"] is not None:
        steps.append(f"{setting['watch_s']:g} s after a pod found no node")
    if setting["scrape_s"] is not None:
        steps.append(
            f"when an alert arrives (scrape {setting['scrape_s']:g} s, evaluation {setting['evaluation_s']:g} s,"
            f" group_wait {setting['group_wait_s']:g} s)"
        )
    steps.append(f"every {setting['tick_s']:g} s")
    yield f"steps run {', '.join(steps)}; baselines at their own interval"


def _ratio(ratios: Mapping[str, float]) -> list[str]:
    return [f"{ratios[name]:.3f}" for name in ("cost", "wait", "starts")]
