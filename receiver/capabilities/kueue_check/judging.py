"""Workloads that Kueue admits once the budgets cover them: the answers to AdmissionCheck ``gpu-autoscaler.io/budget``.

Each is placed on trial, after the work that waits already. Nothing is bought for it: its pods become demand once Kueue
has admitted it. Only money is judged: the quota of Kueue says how much may run at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

from receiver.core.model.devices import UNJUDGED, UNKNOWN
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Policy
from receiver.core.model.room_requests import NO_GPU, RoomAnswer, RoomRequest
from receiver.core.model.text import dollars, listed, some
from receiver.core.money.budget import BudgetStage, BudgetView, Refusal, passes_hold, teams_of
from receiver.core.money.cost import unit_price
from receiver.core.scaling.capacity import Allowance, Tally
from receiver.core.scaling.demand import missing_pods
from receiver.core.scaling.gangs import checkpoint, new_nodes, place_gang, place_parts
from receiver.core.scaling.market import Matching
from receiver.core.scaling.wanted import Draft

KIND = "kueue_check"
# Terms of a request: it has the answer and no pods yet; it is rejected where it is too large for every budget or pool.
READY, REJECTS = "ready", "rejects"
MOST_AT_ONCE = 200  # Workloads answered in a step, about half a second beside 1,000 nodes; others follow in the next
MOST_READY = 800  # beside those, with an answer and no pods yet
RETRY_AFTER = timedelta(minutes=5)  # Kueue reserves quota again after this time at the earliest
NOTHING_TO_COVER = (
    "it requests no GPU, runs already or in another cluster (MultiKueue), or its ProvisioningRequest is judged"
)


class CheckState(StrEnum):
    """The states of an AdmissionCheck, in Kueue's words."""

    PENDING = "Pending"  # not judged yet; the quota stays reserved
    READY = "Ready"
    RETRY = "Retry"  # Kueue gives the quota to others, and reserves it again later
    REJECTED = "Rejected"  # Kueue deactivates the Workload


Part = tuple[Workload, Sequence[Tally]]  # pods of a Workload, and the pools that fit all of them


def answer_checks(draft: Draft) -> None:
    """Answer the candidates that are not ready. Their cost stays subtracted where the budgets cover it, so that nothing
    of a lower rank takes it; the tallies are as before."""
    candidates = draft.facts.other_work.of_kind(KIND)
    if not candidates:
        return
    allowance, tallies = draft.allowance, tuple(draft.tallies.values())
    undo, shared = checkpoint(tallies), allowance.mark()
    matching = draft.matching(tallies)
    answers: list[RoomAnswer] = []
    # Those that are ready first: their cost was promised. They may wait for other checks for hours, beside the others.
    ranked = sorted(candidates, key=_rank)
    ready, others = [c for c in ranked if READY in c.terms], [c for c in ranked if READY not in c.terms]
    for candidate in (*ready[:MOST_READY], *others[:MOST_AT_ONCE]):
        answer = _judged(candidate, draft.policy, matching, allowance)
        answers += [] if READY in candidate.terms else [answer]
    budgets_left = dict(allowance.left)
    undo()
    allowance.return_to(shared)
    allowance.left = budgets_left
    draft.answer(answers)


def _rank(candidate: RoomRequest) -> tuple[object, ...]:
    first = [(-pod.priority, pod.created_at) for pod in candidate.pods[:1]]  # they are of one age and priority
    return first, candidate.key


def _judged(candidate: RoomRequest, policy: Policy, matching: Matching, allowance: Allowance) -> RoomAnswer:
    def said(state: CheckState, message: str) -> RoomAnswer:
        return RoomAnswer(kind=KIND, key=candidate.key, state=state, message=message)

    problem = "" if candidate.problem == NO_GPU else candidate.problem
    if not candidate.pods and not problem:
        return said(CheckState.READY, NOTHING_TO_COVER)
    pods = tuple(pod for pod in candidate.pods if matching.fitting(pod))
    if unknown := problem or _unknown(candidate, matching):
        return said(CheckState.PENDING, f"not judged: {unknown}")
    if not pods:
        return said(CheckState.READY, "it asks no GPU pool for anything that a budget must cover")
    least = pods[0].gang_min or 0
    work = Workload(key=candidate.key, pods=pods, gang=True, least=least)
    if missing_pods(work):
        return said(CheckState.PENDING, f"it has more GPU pods than are judged at once ({len(candidate.pods)})")
    if closed := _closed(work, policy, allowance):
        return said(CheckState.RETRY, _held(closed, f"at its {closed.stage} line", policy))
    parts = _parts(work, matching)
    before = {tally.pool.id: tally.counts["demand"] for _, fitting in parts for tally in fitting}
    if _placed(parts, work, matching, allowance):
        opened = {t: n for _, fitting in parts for t in fitting if (n := t.counts["demand"] - before[t.pool.id])}
        return said(CheckState.READY, _covered(opened))
    if too_large := _too_large(parts, policy, allowance):
        return said(CheckState.REJECTED if REJECTS in candidate.terms else CheckState.RETRY, too_large)
    refused = _refused(parts, policy, allowance)
    if refused is None:
        return said(CheckState.READY, "the budgets cover it; it waits for room in its pool")
    refusal, short = refused
    if refusal.rule != "within_budget":
        return said(CheckState.PENDING, f"waiting: {refusal.why}")
    if not short.is_finite():
        return said(CheckState.PENDING, "waiting: a pool that it fits has no price")
    closed_to = refusal.view.closed_to(passing=refusal.passing)
    shortfall = f"at its {refusal.view.stage} line" if closed_to else f"{dollars(short)} short"
    return said(CheckState.RETRY, _held(refusal.view, shortfall, policy))


def _unknown(candidate: RoomRequest, matching: Matching) -> str:
    """Why it is not known what pods cost that claim devices; empty where it is known."""
    for pod in candidate.pods:
        if pod.claiming.words and not matching.fitting(pod):
            refusals = matching.refusals(pod).items()
            reasons = [f"{pool}: {reason}" for pool, reason in refusals if reason.endswith((UNKNOWN, UNJUDGED))]
            if reasons:
                return "; ".join(reasons)
    return ""


def _parts(work: Workload, matching: Matching) -> list[Part]:
    """*work* with the pools that fit all of it or, without one, its pods by the pools that fit them."""
    groups: dict[tuple[str, ...], list[Pod]] = {}
    pools: dict[tuple[str, ...], Sequence[Tally]] = {}
    for pod in work.pods:
        fitting = matching.fitting(pod)
        key = tuple(tally.pool.id for tally in fitting)
        groups.setdefault(key, []).append(pod)
        pools[key] = fitting
    first, *others = pools.values()
    common = [tally for tally in first if all(tally in other for other in others)]
    if common:
        return [(work, common)]
    return [(replace(work, pods=tuple(pods)), pools[key]) for key, pods in groups.items()]


def _placed(parts: Sequence[Part], work: Workload, matching: Matching, allowance: Allowance) -> bool:
    if len(parts) == 1:
        return place_gang(work, parts[0][1], matching, allowance)
    return place_parts(work, [matching.fitting(pod) for pod in work.pods], matching, allowance)


def _refused(parts: Sequence[Part], policy: Policy, allowance: Allowance) -> tuple[Refusal, Decimal] | None:
    """The first budget that does not cover the new nodes of all *parts*, each in its cheapest pool that is covered, and
    the USD that it lacks; None if no budget is the reason."""
    before = allowance.mark()
    try:
        for part, fitting in parts:
            able = [tally for tally in fitting if not _beyond(part, tally, policy, allowance)]
            counts = ((tally, new_nodes(part, tally)) for tally in able)
            needs = sorted(((tally, count) for tally, count in counts if count is not None), key=_price)
            if not needs:
                return None
            refusals = [allowance.refusing(tally, count, part) for tally, count in needs]
            place = refusals.index(None) if None in refusals else 0
            (tally, count), refusal = needs[place], refusals[place]
            if refusal is not None:
                return refusal, allowance.short_of(refusal.view, tally, count)
            allowance.charge(tally, count, part)
        return None
    finally:
        allowance.return_to(before)


def _too_large(parts: Sequence[Part], policy: Policy, allowance: Allowance) -> str:
    """Why some part starts in none of its pools, even empty ones in a new month; empty where one can hold it."""
    for part, fitting in parts:
        whys = [_beyond(part, tally, policy, allowance) for tally in fitting]
        if all(whys):
            return "; ".join(dict.fromkeys(whys))
    return ""


def _beyond(part: Workload, tally: Tally, policy: Policy, allowance: Allowance) -> str:
    pool, count = tally.pool, new_nodes(part, tally, empty=True)
    if count is None:
        return f"its pods must share a node, and none of pool {pool.name} holds all of them"
    if count > pool.max_nodes:
        return f"needs {some(count, 'node')}; pool {pool.name} may have {pool.max_nodes}"
    usd = count * unit_price(pool.price_usd_per_hour or Decimal(0), policy.billing)
    for view in allowance.budgets.touched(pool.id, teams_of(part, policy, allowance.budgets)):
        whole = view.monthly * view.stop_at
        if usd > whole:
            return f"needs {dollars(usd)} at once; the {view.title} has {dollars(whole)} for a whole month"
    return ""


def _covered(opened: Mapping[Tally, int]) -> str:
    if not opened:
        return "it fits nodes that exist or are on their way"
    nodes = listed([f"{some(count, 'new node')} in pool {tally.pool.name}" for tally, count in opened.items()])
    usd = sum((tally.saved_by(count) for tally, count in opened.items()), Decimal(0))
    if not usd.is_finite():
        return f"no budget: {nodes}, of which a price is missing"
    return f"the budgets cover it: {nodes} at {dollars(usd)} per hour"


def _closed(work: Workload, policy: Policy, allowance: Allowance) -> BudgetView | None:
    """The budget at its hold or stop line that keeps *work* out, even where it fits free nodes: they would stay."""
    teams, passing = teams_of(work, policy, allowance.budgets), passes_hold(work, policy)
    for view in allowance.budgets.touched(pool="", teams=teams):
        if view.stage in (BudgetStage.HOLD, BudgetStage.STOP) and view.closed_to(passing=passing):
            return view
    return None


def _held(view: BudgetView, shortfall: str, policy: Policy) -> str:
    """``held by the budget of team vision: $12.00 short, resumes 1 Dec``."""
    assert view.ends_at is not None  # the views of a step have it
    at = view.ends_at.astimezone(ZoneInfo(policy.timezone))
    return f"held by the {view.title}: {shortfall}, resumes {at.day} {at:%b}"


def _price(need: tuple[Tally, int]) -> Decimal:
    return need[0].cost_of(need[1])  # an unknown price is infinite
