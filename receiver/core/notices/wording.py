"""Facts in the words of a message, which is read on a phone at 3 a.m.: what is not in the title, why, for whom, what it
costs and what happens next, each on a line of its own."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy, Pool, Scope
from receiver.core.model.text import cut, dollars, listed, minute, some, with_names
from receiver.core.money.budget import Budgets, BudgetStage, BudgetView, team_of

LONGEST_SENTENCE = 280  # characters of a text from outside: Civo, a scheduler, a person


def worded(*what: str, why: str = "", whose: str = "", cost: str = "", after: str = "", do: str = "") -> str:
    """Return the lines of a message; empty parts are left out.

    *after* is what happens next, and when; *do* is where to look or what to run, written as it is.
    """
    parts = (("Why", why), ("For", whose), ("Cost", cost), ("Next", after))
    lines = [capital(sentence(line)) for line in what if line]
    lines += [f"{name}: {sentence(part)}" for name, part in parts if part]
    return "\n".join([*lines, do] if do else lines)


def sentence(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """*text* on one line with a full stop, cut where it goes on for too long."""
    line = cut(" ".join(text.split()), longest)
    return line if line.endswith((".", "!", "?")) else f"{line}."


def capital(text: str) -> str:
    """*text* with a capital letter, unless it begins with a name such as ``l40s-2``."""
    first = text.split(maxsplit=1)[0] if text else ""
    return text[:1].upper() + text[1:] if first.rstrip(".,:;").isalpha() else text


def named(text: str, policy: Policy) -> str:
    """*text* of another system with the names of pools in place of their ids."""
    return with_names(text, {pool.id: pool.name for pool in policy.pools})


moment = minute


def minutes(length: timedelta) -> int:
    """*length* in whole minutes, at least 1."""
    return max(1, round(length / timedelta(minutes=1)))


def an_hour(pool: Pool | None, nodes: int, before: int | None = None) -> str:
    """What *nodes* nodes of *pool* cost an hour, and what it was with *before* nodes."""
    if pool is None or pool.price_usd_per_hour is None:
        return "the price of a node is not known"
    was = "" if before is None else f" (before: {dollars(pool.price_usd_per_hour * before)})"
    return f"{dollars(pool.price_usd_per_hour * nodes)} an hour{was}"


def tightest(budgets: Budgets, pool: str, teams: Collection[str] = ()) -> BudgetView | None:
    """The budget with the least money left of those that bind *pool* and work of *teams*; None without any."""
    binding = budgets.touched(pool, frozenset(teams))
    return min(binding, key=lambda view: view.monthly - view.spent, default=None)


def money_left(view: BudgetView | None) -> str:
    """What *view* leaves for the month."""
    if view is None:
        return "no budget is set"
    if view.unknown:
        return f"budget left: not known, because {view.unknown}"
    remaining = view.monthly - view.spent
    stage = "" if view.stage is BudgetStage.OK else f", past its {view.stage} line"
    name = "" if view.scope is Scope.CLUSTER and not stage else f" ({view.title}{stage})"
    over = f"budget overspent by {dollars(-remaining)}" if remaining < 0 else f"budget left: {dollars(remaining)}"
    return f"{over} of {dollars(view.monthly)} for {view.month}{name}"


def costs(
    pool: Pool | None, budgets: Budgets, nodes: int, before: int | None = None, teams: Collection[str] = ()
) -> str:
    """What *pool* costs an hour at *nodes* nodes, and what the tightest of its budgets leaves."""
    each = an_hour(pool, nodes, before)
    return each if pool is None else f"{each}; {money_left(tightest(budgets, pool.id, teams))}"


# Pods and GPUs by what people know their workload by (``Job ml/train``, or ``pod ml/train-0`` where nothing owns it)
# and by its team.
Asking = Mapping[tuple[str, str], tuple[int, int]]


def asked_by(pods: Iterable[Pod], policy: Policy) -> Asking:
    """The owners of *pods*, which ask for nodes."""
    return _together((p.key, p.owner, team_of(p, policy), 1, p.gpus) for p in pods)


def asked_in(workloads: Iterable[Mapping[str, Any]]) -> Asking:
    """The owners in the evidence of a decision (its ``workloads``), in the words of `asked_by`."""
    return _together((w["workload"], w["owner"], w["team"], w["pods"], w["gpus"]) for w in workloads)


def _together(rows: Iterable[tuple[str, str, str, int, int]]) -> Asking:
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for key, owner, team, pods, gpus in rows:
        kind, _, name = owner.partition("/")
        known_as = f"{kind} {key.partition('/')[0]}/{name}" if name else f"pod {key}"
        before = sums.get((known_as, team), (0, 0))
        sums[known_as, team] = before[0] + pods, before[1] + gpus
    return sums


def whose(asking: Asking) -> str:
    """Who asked: ``Job ml/train of team vision (2 pods, 2 GPUs)``."""
    askers = []
    for (workload, team), (pods, gpus) in asking.items():
        demand = some(gpus, "GPU") if pods == 1 else f"{pods} pods, {some(gpus, 'GPU')}"
        askers.append(f"{workload}{f' of team {team}' if team else ', no team label'} ({demand})")
    return listed(askers, 2)


def teams_asking(asking: Asking) -> frozenset[str]:
    """The teams among those who ask."""
    return frozenset(team for _, team in asking if team)
