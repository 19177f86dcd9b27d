"""What a step publishes, stored as JSON, and read by API, pages, commands and metrics. Null is what was not known.

Durations are seconds, money is USD, ratios are 0 to 1.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Self

from receiver.config.model import Mode
from receiver.core.explain.explain import State
from receiver.core.model.actions import ActionKind, Change, Verdict, VictimStage
from receiver.core.model.charges import EXPLAINED, Comparison, DifferenceCause
from receiver.core.model.model import CordonedBy, Source, Stage
from receiver.core.model.overrides import Asks, OverrideKind, Standing
from receiver.core.model.policy import Scope
from receiver.core.model.rights import Rights
from receiver.core.money.budget import BudgetStage, BudgetView
from receiver.core.notices.notice import Level
from receiver.core.scaling.waits import Direction, WaitKind
from receiver.ports import ShownStore
from receiver.reports.document import (
    Cents,
    Count,
    Listed,
    Moment,
    Month,
    Positive,
    Price,
    Published,
    Ratio,
    Usd,
    says,
    word,
)
from receiver.reports.observed import ObservedDocument
from receiver.reports.state import ScalingState, StateWord, scaling_state

MOST_DIFFERENCES = 200  # between ledger and charges that are listed; differences_total counts all


class NodeDocument(Published):
    """A node of a pool."""

    sometimes = ("note", "kept_until", "kept_for", "kept_by")
    name: Annotated[str | None, says("its name in Kubernetes")] = None
    instance: Annotated[str | None, says("Civo's id of its instance")] = None
    stage: Annotated[str, word(Stage)] = ""
    note: Annotated[str | None, says("what the stage alone does not say, such as a startup taint that is left")] = None
    created_at: Moment | None = None
    idle_since: Annotated[Moment | None, says("since when it has had no GPU pod")] = None
    pods: Annotated[Listed[str], says("its GPU pods, as namespace/name")] = ()
    kept_until: Annotated[Moment | None, says("until when a workload keeps it")] = None
    kept_for: Annotated[str | None, says("the pod that asked for that")] = None
    paid_until: Annotated[Moment | None, says("the end of its paid unit of time")] = None
    kept_by: Annotated[Listed[str], says("pods without a GPU that keep the node, each with its reason")] = ()
    cordoned_by: Annotated[str, word(CordonedBy)] | None = None


class WaitDocument(Published):
    """What holds one direction of a pool for a while."""

    direction: Annotated[str, word(Direction)] = ""
    kind: Annotated[str, word(WaitKind)] = ""
    until: Moment | None = None
    reason: str = ""
    failures: Annotated[Count, says("in a row")] = 0
    nodes: Annotated[Listed[str], says("the nodes that it holds, where it does not hold all")] = ()


class OverrideInForce(Published):
    """An override that is in force for a pool."""

    id: str = ""
    kind: Annotated[str, word(OverrideKind)] = ""
    nodes: Count | None = None
    who: str = ""
    why: str = ""
    at: Moment | None = None
    until: Moment | None = None
    every_pool: Annotated[bool, says("whether it is for every pool")] = False


class OpenVictim(Published):
    """A node that an action removes."""

    node: str | None = None
    stage: Annotated[str, word(VictimStage)] = ""


class OpenAction(Published):
    """The action under way."""

    id: str = ""
    kind: Annotated[str, word(ActionKind)] = ""
    from_count: Annotated[Count, says("nodes before", alias="from")] = 0
    to_count: Annotated[Count, says("nodes after", alias="to")] = 0
    opened_at: Moment | None = None
    victims: Listed[OpenVictim] = ()
    last_error: Annotated[str, says("empty without one")] = ""


class SilenceDocument(Published):
    """The Alertmanager silence that pauses a pool."""

    id: Annotated[str, says("Alertmanager's id of it")] = ""
    by: Annotated[str, says("who set it")] = ""
    until: Moment | None = None
    comment: str = ""
    more: Annotated[Count, says("further silences of the pool")] = 0


class QuestionInShort(Published):
    """What every document on a request for approval has."""

    id: Annotated[str, says("what it is answered by")] = ""
    asks: Annotated[str, word(Asks)] = ""
    from_count: Annotated[Count, says("nodes before", alias="from")] = 0
    to_count: Annotated[Count, says("nodes after", alias="to")] = 0
    nodes: Annotated[Listed[str], says("those that would go; empty for growth")] = ()
    state: Annotated[str, word(Standing)] = ""
    said: Annotated[str, says("how it stands, in a sentence")] = ""
    wait_ends: Annotated[Moment | None, says("until when an answer is waited for")] = None
    expires_at: Annotated[Moment | None, says("until when an answer counts")] = None


class PoolsQuestion(QuestionInShort):
    """A question about a pool that stands."""

    wanted: Annotated[bool, says("whether the change is still wanted")] = True


class ReasonDocument(Published):
    """What one rule said."""

    rule: Annotated[str, says("its name in docs/guardrails.md")] = ""
    verdict: Annotated[str, word(Verdict)] = ""
    target: Annotated[Count, says("the nodes that it left")] = 0
    detail: str = ""
    cause: Annotated[str, says("what keeps the pool from changing, as a clause; else empty")] = ""


class RemedyDocument(Published):
    """What would change the answer."""

    rule: str = ""
    text: str = ""
    at: Annotated[Moment | None, says("when it comes about by itself")] = None


class Provisioning(Published):
    """Nodes that never became usable."""

    until: Moment | None = None
    reason: str = ""
    failures: Annotated[Count, says("in a row")] = 0


class Unfit(Published):
    """A waiting pod that no pool can hold."""

    pod: str = ""
    why_not: Annotated[str | None, says("why this pool cannot")] = None
    detail: str = ""


class PoolDocument(Published):
    """A pool as the last step found it. Before the first step only the required fields are there."""

    name: Annotated[str, says("what people call it")] = ""
    pool: Annotated[str, says("Civo's id of it")] = ""
    required: Annotated[Count | None, says("nodes that Civo was asked for")] = None
    ready: Annotated[Count | None, says("nodes whose GPUs Kubernetes can hand out")] = None
    building: Annotated[Count | None, says("nodes on their way")] = None
    busy: Annotated[Count | None, says("ready nodes with a GPU pod")] = None
    idle: Annotated[Count | None, says("ready nodes without one")] = None
    unknown: Annotated[Count | None, says("nodes whose state is not known")] = None
    pending_gpus: Annotated[Count | None, says("GPUs that waiting pods ask of this pool")] = None
    wanted: Annotated[Count | None, says("nodes that demand, floors, standby, headroom and buffers ask for")] = None
    mode: Annotated[str, word(Mode)] = ""
    sick: Annotated[Count | None, says("nodes with a GPU that failed, ready or not")] = None
    size: Annotated[str, says("Civo's name of its nodes' size")] = ""
    min_nodes: Annotated[Count | None, says("as in force now")] = None
    max_nodes: Annotated[Count | None, says("as in force now")] = None
    windows: Annotated[Listed[str], says("the names of the windows that are open")] = ()
    gpus_per_node: Count | None = None
    price_usd_per_hour: Annotated[Price | None, says("of one node")] = None
    held_gpus: Annotated[Positive | None, says("GPUs that pods hold on ready nodes; a slice or share is a part")] = None
    utilization: Annotated[Ratio | None, says("mean of its GPUs")] = None
    utilization_high: Ratio | None = None
    utilization_low: Ratio | None = None
    because: Annotated[str, says("the latest decision in a sentence")] = ""
    held_by: Annotated[Listed[str], says("the rules that took something from it")] = ()
    reasons: Annotated[Listed[ReasonDocument], says("the rules that spoke in the last step, in order")] = ()
    what_would_change: Annotated[Listed[RemedyDocument], says("what would have led to another answer")] = ()
    verdict: Annotated[str, word(Change)] = ""
    decision: Annotated[Count | None, says("its number")] = None
    reconsider_at: Annotated[Moment | None, says("the first moment at which it can change by itself")] = None
    would: Annotated[str | None, says("what act mode would do first, empty for nothing; null in act mode")] = None
    waits: Listed[WaitDocument] = ()
    provisioning: Provisioning | None = None
    awaited_since: Annotated[Moment | None, says("since when its oldest node on the way is awaited")] = None
    ready_in_seconds: Annotated[Positive | None, says("how long a node of it usually takes")] = None
    uncounted: Annotated[Count, says("nodes that were removed and that Civo still counts")] = 0
    drifts: Annotated[Count, says("how often the count was changed by others in the last day")] = 0
    silenced_by: Annotated[str | None, says("who paused it in Alertmanager, until when and why, in a sentence")] = None
    silence: SilenceDocument | None = None
    overrides: Listed[OverrideInForce] = ()
    questions: Annotated[Listed[PoolsQuestion], says("those that stand")] = ()
    open_action: OpenAction | None = None
    nodes: Listed[NodeDocument] = ()
    fits_nowhere: Annotated[Listed[Unfit], says("the first waiting pods that no pool can hold; of one pool alone")] = ()
    messages_to: Annotated[Listed[str], says("where messages go, without secrets; of one pool alone")] = ()

    @property
    def wants(self) -> str:
        """What asks for another size of a pool that is blocked, whose cause stands beside it; else what settled the
        latest decision."""
        if self.state.word is not StateWord.BLOCKED or not self.state.blocked_because:
            return self.because
        return "; ".join(reason.detail for reason in self.reasons if reason.verdict == Verdict.WANTS)

    @property
    def state(self) -> ScalingState:
        """The pool's state in a word, for pages."""
        under_way = bool(self.open_action or self.building)
        counted = self.required is not None and self.pending_gpus is not None
        unseen = not counted or any(node.stage == Stage.UNKNOWN for node in self.nodes)
        return scaling_state(
            self.verdict, self.reasons, self.mode, present=self.required, under_way=under_way, unseen=unseen
        )


PoolDocument.sometimes = tuple(PoolDocument.model_fields)[11:]


class FitDocument(Published):
    """Whether a pool's nodes can hold a pod."""

    pool: str = ""
    name: str = ""
    why_not: Annotated[str | None, says("null: its nodes can hold the pod")] = None


class GangDocument(Published):
    """Pods that must run together."""

    waiting: Count = 0
    least: Annotated[Count, says("how many must run together; 0: all")] = 0
    bound: Annotated[Count, says("how many are bound to a node")] = 0


class WaitingPod(Published):
    """A pod that waits for GPUs."""

    namespace: str = ""
    name: str = ""
    state: Annotated[str, word(State)] = ""
    detail: Annotated[str, says("what becomes of it, in a sentence")] = ""
    what_to_do: Annotated[str, says("what a person can do")] = ""
    pool: Annotated[str | None, says("the pool that it waits for; null when no pool fits")] = None
    pool_name: str | None = None
    since: Moment | None = None
    gpus: Count = 0
    resources: Annotated[dict[str, Count], says("what it asks for, by resource name", default_factory=dict)]
    fits: Listed[FitDocument] = ()
    owner: Annotated[str, says("what created it, such as Job/train; empty for a pod of its own")] = ""
    workload: str | None = None
    gang: GangDocument | None = None
    priority: float | int = 0
    rule: Annotated[str | None, says("the rule that holds it")] = None
    decision: Annotated[Count | None, says("the pool's latest decision")] = None
    node: Annotated[str | None, says("the node that it waits for")] = None
    nodes: Annotated[Count | None, says("how many nodes are bought")] = None
    expected_at: Annotated[Moment | None, says("when it starts with a chance of a half")] = None
    expected_by: Annotated[Moment | None, says("when it starts with a chance of nine in ten")] = None
    held_until: Annotated[Moment | None, says("when what holds it ends by itself")] = None
    promised_at: Annotated[Moment | None, says("the first promise to it, for a chance of a half")] = None
    promised_by: Annotated[Moment | None, says("the first promise to it, for a chance of nine in ten")] = None
    scheduler_says: Annotated[str, says("the scheduler's own sentence")] = ""


WaitingPod.sometimes = tuple(WaitingPod.model_fields)[11:]


class SetBy(Published):
    """The author of this month's allowance."""

    who: str = ""
    why: str = ""
    at: Moment | None = None
    month: Month = ""


class ScopedBudget(Published):
    """One budget."""

    paths: ClassVar = {
        "monthly_usd": "monthly",
        "spent_usd": "spent",
        "reserved_usd": "reserved",
        "forecast_usd": "forecast.usd",
        "burn_usd_per_hour": "forecast.burn",
        "forecast_since": "forecast.since",
        "set_by": "change",
    }
    month: Month | None = None
    monthly_usd: Annotated[Usd | None, says("the allowance")] = None
    spent_usd: Annotated[Usd | None, says("null: not known")] = None
    reserved_usd: Annotated[Usd | None, says("kept aside for what was decided")] = None
    ratio: Annotated[Ratio | None, says("of the allowance")] = None
    stage: Annotated[str, word(BudgetStage)] | None = None
    warn_at: Ratio | None = None
    hold_at: Ratio | None = None
    stop_at: Ratio | None = None
    unpriced: Annotated[Listed[str], says("sizes whose nodes have no price and are not counted")] = ()
    scope: Annotated[str, word(Scope)] = ""
    name: Annotated[str, says("of the pool or team, else empty")] = ""
    title: Annotated[str, says("what people call it")] = ""
    unknown: Annotated[str, says("why its spend is not known, else empty")] = ""
    uncounted: Annotated[Listed[str], says("charges without a price")] = ()
    forecast_usd: Annotated[Cents | None, says("the month's cost, if its burn goes on; null: not known yet")] = None
    burn_usd_per_hour: Annotated[Cents | None, says("the mean since forecast_since; null before a day of it")] = None
    forecast_since: Annotated[Moment | None, says("when the month or the ledger began, whichever is later")] = None
    set_by: SetBy | None = None

    @classmethod
    def of_view(cls, view: BudgetView) -> Self:
        unknown = {"spent_usd": None, "ratio": None} if view.unknown else {}
        return cls.of(view, name=view.shown or view.name, **unknown)


class KeptOut(Published):
    """A place where new GPU work is kept out."""

    place: Annotated[str, says("a namespace, or ClusterQueue and its name")] = ""
    since: Moment | None = None


class UnpricedCharge(Published):
    """Charges under a code without a price."""

    code: str = ""
    hours: Positive = 0.0


class ChargedSize(Published):
    """The ledger's hours of a size beside those that Civo charged."""

    size: str = ""
    ledger_hours: float = 0.0
    charged_hours: float = 0.0
    difference_hours: Annotated[float, says("charged less ledger")] = 0.0
    lives: Count = 0
    records: Count = 0
    equal: Annotated[Count, says("within an hour")] = 0


class ChargeDifference(Published):
    """A node whose hours differ."""

    size: str = ""
    name: str = ""
    ledger_hours: float = 0.0
    charged_hours: float = 0.0
    cause: Annotated[str, word(DifferenceCause)] = ""
    why: str = ""
    usd: Annotated[Usd | None, says("charged less ledger")] = None


class ChargesDocument(Published):
    """What Civo charged this month beside the ledger. All is null before Civo was first asked."""

    within = ("charged",)
    month: Month | None = None
    asked_at: Moment | None = None
    answered_at: Annotated[Moment | None, says("when the records were read")] = None
    failure: Annotated[str | None, says("why the last question had no answer, else empty")] = None
    records: Count | None = None
    unreadable: Annotated[tuple[str, ...] | None, says("what is wrong with each record that could not be read")] = None
    account_usd: Annotated[Usd | None, says("what the whole account has cost")] = None
    unpriced: tuple[UnpricedCharge, ...] | None = None
    sizes: tuple[ChargedSize, ...] | None = None
    differences: tuple[ChargeDifference, ...] | None = None
    differences_total: Annotated[Count | None, says("of which at most 200 are listed")] = None

    @classmethod
    def of_comparison(cls, compared: Comparison) -> Self:
        return cls.of(
            compared,
            records=len(compared.charged.records),
            unpriced=[{"code": code, "hours": hours} for code, hours in compared.unpriced],
            differences=[
                ChargeDifference.of(difference, why=EXPLAINED[difference.cause])
                for difference in compared.differences[:MOST_DIFFERENCES]
            ],
            differences_total=len(compared.differences),
        )


class SourceDocument(Published):
    """Whether a source answered in the last step."""

    sometimes = ("since",)
    source: Annotated[str, word(Source)] = ""
    up: bool = False
    at: Moment | None = None
    since: Annotated[Moment | None, says("since when it is so")] = None
    detail: str = ""
    configured: bool = True

    @property
    def down(self) -> bool:
        """True for a source that should answer and does not."""
        return self.configured and not self.up


class RightsDocument(Published):
    """What Kubernetes says of the rights that a removal needs; null in observe mode and without a cluster."""

    lacking: Annotated[
        tuple[str, ...] | None, says("those that are refused, such as `patch nodes`; null while it never answered")
    ] = None
    since: Annotated[Moment | None, says("since when it is so")] = None
    asked_at: Annotated[Moment | None, says("null: it was never asked")] = None
    detail: Annotated[str, says("why the last question got no answer, or empty")] = ""
    said: str = ""
    holds_growth: Annotated[bool, says("whether pools may not grow because of it")] = False

    @classmethod
    def of_rights(cls, rights: Rights, now: datetime) -> Self:
        return cls.of(rights, said=str(rights), holds_growth=rights.holds_growth(now))


class SignalDocument(Published):
    """A firing alert that asks for something."""

    alertname: str = ""
    action: str = ""
    pool: str | None = None
    starts_at: Moment | None = None
    fingerprint: str = ""


class MisfitDocument(Published):
    """A workload that no pool can hold."""

    workload: str = ""
    gpus: Count = 0
    detail: str = ""


class ConcernDocument(Published):
    """Something that needs a person; *what* is a clause, behind the pool's name where it is about a *pool* (an id)."""

    kind: str = ""
    level: str = Level.WARN.value
    what: str = ""
    pool: str = ""
    since: Moment | None = None
    why: str = ""
    whose: Annotated[str, says("the work that it is about, with its teams")] = ""
    doing: str = ""
    todo: str = ""
    guide: str = ""
    page: str = ""
    decision: int | None = None
    question: str | None = None
    rule: Annotated[str, says("the guardrail that keeps work waiting")] = ""
    also: Annotated[Listed[str], says("what else keeps the same pool from growing, as clauses")] = ()


class Picture(Published):
    """One step's facts and decisions. Before the first step nothing in it is set."""

    at: Moment | None = None
    mode: str | None = None
    pools: Listed[PoolDocument] = ()
    budget: ScopedBudget | None = None
    budgets: Listed[ScopedBudget] = ()
    kept_out: tuple[KeptOut, ...] | None = None
    rights: RightsDocument | None = None
    sources: Listed[SourceDocument] = ()
    charges: ChargesDocument | None = None
    signals: Listed[SignalDocument] = ()
    misfits: Listed[MisfitDocument] = ()
    waiting: Listed[WaitingPod] = ()
    waiting_total: Count | None = None
    concerns: Listed[ConcernDocument] = ()
    observed: Annotated[ObservedDocument | None, says("what act mode would have cost; null in act mode")] = None

    def pool(self, pool_id: str) -> PoolDocument | None:
        """Return the pool with that id, None where the step did not find it."""
        return next((p for p in self.pools if p.pool == pool_id), None)


def kept_picture(store: ShownStore) -> tuple[Picture, datetime | None]:
    """Return the picture that *store* keeps and the time of its step, None before the first. Raises TryLater."""
    snapshot = store.snapshot()
    return (Picture(), None) if snapshot is None else (Picture.model_validate(snapshot[0]), snapshot[1])
