"""What the API answers and takes beside the picture of a step, one model per noun (docs/http-api.md)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, ConfigDict

from receiver.config.model import Mode
from receiver.core.explain.explain import State, what_to_do
from receiver.core.explain.rules import binding, why
from receiver.core.model.actions import ActionKind, Change, OutcomeKind, Verdict, VictimStage
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Scope
from receiver.core.money.cost import amount
from receiver.ports import StoredDecision, StoredOverride
from receiver.reports.document import (
    Count,
    Instant,
    Listed,
    Month,
    Positive,
    Published,
    Usd,
    says,
    word,
)
from receiver.reports.observed import ObservedDocument
from receiver.reports.picture import (
    ConcernDocument,
    KeptOut,
    Picture,
    PoolDocument,
    ReasonDocument,
    RemedyDocument,
    RightsDocument,
    ScopedBudget,
    SourceDocument,
    WaitingPod,
)
from receiver.reports.state import ScalingState, WatchState, scaling_state, unseen

if TYPE_CHECKING:  # it loads Flask, which the command line does not need
    from receiver.web.parts import WebParts

LONGEST_TEXT = 500  # characters of a name or a reason
WORDS = {"minLength": 1, "maxLength": LONGEST_TEXT, "pattern": r"\S"}
Reason = Annotated[str, says("the reason", json_schema_extra=WORDS)]
Person = Annotated[str, says("the person", json_schema_extra=WORDS)]


def plain(value: object) -> object:
    """Return stored *value* with nothing in it that JSON does not know, and no amount of USD with an exponent."""
    match value:
        case datetime():
            return value.isoformat()
        case Decimal():
            return amount(value)
        case Mapping():
            return {str(key): _usd(item) if "usd" in str(key) else plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value


def _usd(value: object) -> object:
    """An amount as older versions stored it, without its exponent (``0E-29``)."""
    return amount(Decimal(value)) if isinstance(value, str) and "E" in value else plain(value)


POD_WORDS: Mapping[str, str] = {
    State.FITS_FREE_NODE: "fits a free node",
    State.ROOM_ENDS: "waits for a pod to end",
    State.ON_ITS_WAY: "node on its way",
    State.BUYING: "node requested",
    State.MAY_WAIT: "may wait",
    State.HELD: "blocked",
    State.GANG_INCOMPLETE: "gang incomplete",
    State.FITS_NOWHERE: "fits no pool",
    State.NOT_DEMAND: "not counted",
}


def pod_word(state: str | None) -> str:
    """Return the words for the *state* of a waiting pod; one of another version as it is."""
    return POD_WORDS.get(state or "") or (state or "unknown").replace("_", " ")


def mode_of(picture: Picture, parts: "WebParts") -> str:
    """Return the mode of the step that *picture* shows, before the first step the configured one."""
    return picture.mode or parts.mode


class VictimDocument(Published):
    """A node that an action removes."""

    instance: str = ""
    node: str | None = None
    stage: Annotated[str, word(VictimStage)] = ""
    since: Instant | None = None
    why: Annotated[str, says("why it was spared, or what its removal waits for; else empty")] = ""


class OutcomeDocument(Published):
    """What became of an action."""

    kind: Annotated[str, word(OutcomeKind)] = ""
    at: Instant | None = None
    detail: str = ""


class ActionDocument(Published):
    """What was done about a decision."""

    within = ("action",)
    id: str = ""
    pool: str = ""
    pool_name: str = ""
    kind: Annotated[str, word(ActionKind)] = ""
    from_count: Annotated[Count, says("nodes at Civo", alias="from")] = 0
    to_count: Annotated[Count, says("", alias="to")] = 0
    opened_at: Instant | None = None
    victims: Listed[VictimDocument] = ()
    decision: Count | None = None
    reserved_usd: Annotated[Usd, says("what the budget keeps aside for it")] = Decimal(0)
    attempts: Count = 0
    retry_at: Instant | None = None
    last_error: Annotated[str, says("empty without one")] = ""
    outcome: Annotated[OutcomeDocument | None, says("null while it is open")] = None


class DecisionLine(Published):
    """A decision in a line."""

    id: Count = 0
    at: Instant | None = None
    pool: str = ""
    pool_name: str = ""
    from_count: Annotated[Count, says("nodes before", alias="from")] = 0
    to_count: Annotated[Count, says("nodes wanted", alias="to")] = 0
    verdict: Annotated[str, word(Change)] = ""
    because: Annotated[str, says("the reasons that settled it, in a sentence")] = ""
    cause: Annotated[str, says("what kept the pool from changing, as a clause; else empty")] = ""


class DecisionDocument(DecisionLine):
    """One decision, as it was made."""

    mode: Annotated[str, word(Mode)] | None = None
    version: Annotated[str | None, says("of the program that made it")] = None
    reasons: Annotated[Listed[ReasonDocument], says("every rule that spoke, in order")] = ()
    what_would_change: Annotated[Listed[RemedyDocument], says("what would have let the change happen, or kept it")] = ()
    candidates: Annotated[Listed[str], says("instances that may go, soonest first")] = ()
    evicted: Annotated[Listed[str], says("those of them whose pods are evicted")] = ()
    evidence: Annotated[dict[str, Any], says("what was known; docs/http-api.md names its parts", default_factory=dict)]
    reconsider_at: Annotated[Instant | None, says("the first moment at which this answer can change by itself")] = None

    @property
    def state(self) -> ScalingState:
        seen = unseen(self.evidence)
        return scaling_state(self.verdict, self.reasons, self.mode, present=self.from_count, unseen=seen)

    @property
    def wants(self) -> str:
        """What asked for another size of a pool whose cause stands beside it; else what settled the decision."""
        if not self.state.blocked_because:
            return self.because
        return "; ".join(reason.detail for reason in self.reasons if reason.verdict == Verdict.WANTS)

    @classmethod
    def of_stored(cls, stored: StoredDecision, parts: "WebParts", **extra_fields: object) -> Self:
        """Return a decision with the words and names that were stored with it, else with today's."""
        decision, evidence = stored.decision, dict(stored.decision.evidence)
        name = pool.get("name") if isinstance(pool := evidence.get("pool"), Mapping) else None
        return cls.of(
            decision,
            id=stored.id,
            pool_name=name or parts.pool_name(decision.pool),
            from_count=decision.present,
            to_count=decision.target,
            verdict=decision.change,
            because=evidence.pop("because", None) or why(decision),
            cause=next((r.cause for r in [binding(decision)] if r is not None), ""),
            **{name: evidence.pop(name, None) for name in ("what_would_change", "mode", "version")},
            evidence=plain(evidence),
            **extra_fields,
        )


class ExplainedDecision(DecisionDocument):
    """One decision with what followed, and its neighbours in the history of its pool."""

    actions: Annotated[Listed[ActionDocument], says("that it led to")] = ()
    previous: Annotated[Count | None, says("the decision before it that is kept")] = None
    next: Annotated[Count | None, says("and the one after it")] = None


def explained(stored: StoredDecision, parts: "WebParts") -> ExplainedDecision:
    """Return a decision with what followed from it and its neighbours in the history of its pool."""
    previous, following = parts.store.beside(stored)
    document = ExplainedDecision.of_stored(stored, parts, previous=previous, next=following)
    actions = tuple(ActionDocument.of(a, pool_name=document.pool_name) for a in parts.store.followed(stored.id))
    return document.model_copy(update={"actions": actions})


# --- overrides


class OverrideDocument(Published):
    """A temporary override of policy."""

    within = ("override",)
    id: Annotated[str, says("what ends it")] = ""
    kind: Annotated[str, word(OverrideKind)] = ""
    pool: Annotated[str | None, says("null: every pool")] = None
    pool_name: str | None = None
    nodes: Annotated[Count | None, says("null for pause and snooze")] = None
    who: str = ""
    why: str = ""
    at: Instant | None = None
    until: Instant | None = None
    in_force: bool = False
    ended_at: Instant | None = None
    ended_by: Annotated[str | None, says("null when its time was over")] = None

    @classmethod
    def of_stored(cls, stored: StoredOverride, parts: "WebParts", now: datetime) -> Self:
        override = stored.override
        return cls.of(
            stored,
            pool_name=parts.pool_name(override.pool) if override.pool else None,
            in_force=stored.ended_at is None and override.holds(now),
        )


class Asked(Published):
    """A body that people send; it has no field beyond those described."""

    model_config = ConfigDict(extra="forbid")


class OverrideAsked(Asked):
    """An override to set. pin, floor and ceiling need nodes. One of until and for says its end."""

    sometimes = ("pool", "nodes", "for", "until")
    kind: Annotated[str, word(OverrideKind)]
    who: Person
    why: Reason
    pool: Annotated[str | None, says("a pool's name or id; without it, or as all, every pool")]
    nodes: Annotated[Count | None, says("at most the pool's max_nodes")]
    length: Annotated[str | None, says("such as 2h, 90 min or until 09:00 (in the budget's time zone)", alias="for")]
    until: Instant | None


# --- money


_MONEY = tuple(ScopedBudget.model_fields)[:9]  # what a budget has before the first step too


class BudgetDocument(ScopedBudget):
    """The cluster's budget, and every budget that is set. Without one all is null but configured."""

    sometimes = tuple(ScopedBudget.model_fields)[len(_MONEY) :]
    configured: bool = False
    scopes: tuple[ScopedBudget, ...] | None = None
    kept_out: Annotated[
        tuple[KeptOut, ...] | None, says("where new GPU pods are blocked; null while that is not known")
    ] = None

    @classmethod
    def of_picture(cls, picture: Picture, parts: "WebParts") -> Self:
        """Return the month's money; before the first step, what the configuration says."""
        configured, budget = parts.policy.budget, picture.budget or ScopedBudget()
        fields = {name: getattr(budget, name) for name in (*_MONEY, *budget.model_fields_set)}
        if configured is not None:
            of_policy = {name: getattr(configured, name) for name in ("monthly_usd", "warn_at", "hold_at", "stop_at")}
            fields |= {name: value for name, value in of_policy.items() if fields[name] is None}
        return cls(
            configured=configured is not None, scopes=picture.budgets or None, kept_out=picture.kept_out, **fields
        )


class BudgetAsked(Asked):
    """An allowance for the current month."""

    sometimes = ("name", "confirm")
    scope: Annotated[str, word(Scope)]
    monthly_usd: Annotated[
        str | float,
        says(
            "USD, 0 or more and below a trillion",
            json_schema_extra={
                "minimum": 0,
                "exclusiveMaximum": 1_000_000_000_000,
                "pattern": r"^[0-9]{1,12}(\.[0-9]+)?$",
            },
        ),
    ]
    who: Person
    why: Reason
    name: Annotated[str | None, says("the pool's name or id, or the team; none for cluster and account")]
    confirm: Annotated[bool, says("take an amount that stops growth or cordons nodes")]


class BudgetChangeDocument(Published):
    """An allowance that was set."""

    scope: Annotated[str, word(Scope)] = ""
    name: str = ""
    month: Month = ""
    monthly_usd: Annotated[Usd | None, says("null: the configured one again")] = None
    who: str = ""
    why: str = ""
    at: Instant | None = None


# --- the server itself


Age = Annotated[
    Positive, BeforeValidator(lambda age: round(age.total_seconds(), 3) if isinstance(age, timedelta) else age)
]


class LeaderDocument(Published):
    """Who leads."""

    paths: ClassVar = {"loop": "state", "leader": "leader.name", "term": "leader.term"}
    loop: Annotated[str, word(("starting", "leading", "waiting", "stopped"))] = ""
    leader: Annotated[str | None, says("the process that leads, as far as this one knows")] = None
    term: Annotated[Count | None, says("how many leaders there have been; null with one process alone")] = None


class LoopDocument(LeaderDocument):
    """How the loop is doing; steps and errors count since the process started."""

    paths: ClassVar = {
        **LeaderDocument.paths,
        "beat_age_seconds": "beat_age",
        "fresh_seconds": "fresh",
        "good_step_age_seconds": "good_age",
        "good_step_within_seconds": "good_within",
    }
    status: Annotated[str, word(("ok", "stale"))] = ""
    beat_age_seconds: Age = 0.0
    fresh_seconds: Annotated[Age, says("up to which age a beat counts")] = 0.0
    steps: Count = 0
    errors: Count = 0
    good_step_age_seconds: Annotated[Age | None, says("since the last good step; null where it does not lead")] = None
    good_step_within_seconds: Annotated[Age, says("from which age on steps count as failing")] = 0.0


class HealthDocument(LoopDocument):
    """Whether the loop beats."""

    watch: Annotated[str, word(WatchState), says("how the watch of pods stands")] = ""
    mode: Annotated[str, word(Mode)] = ""
    version: str = ""


class ReadinessDocument(LeaderDocument):
    """Whether a delivery would be taken and kept."""

    ready: bool = False
    reason: Annotated[str, says("empty when ready")] = ""
    pools: Count = 0
    mode: Annotated[str, word(Mode)] = ""


class MessagesDocument(Published):
    """Where messages to people go."""

    to: Annotated[Listed[str], says("destinations without their secrets; none: messages go to the log")] = ()
    undelivered: Annotated[Count, says("at most 20 are counted")] = 0
    failing: Annotated[Count, says("of these: tried without success; the others wait, to come as one message")] = 0
    last_error: Annotated[str | None, says("of the oldest that failed")] = None


class StatusDocument(Published):
    """The whole installation in short."""

    at: Annotated[Instant | None, says("the last step")] = None
    cluster_name: Annotated[str, says("as configured")] = ""
    mode: Annotated[str, word(Mode)] = ""
    version: str = ""
    loop: LoopDocument = LoopDocument()
    budget: BudgetDocument = BudgetDocument()
    pools: Annotated[Listed[PoolDocument], says("without their single nodes")] = ()
    sources: Listed[SourceDocument] = ()
    rights: RightsDocument | None = None
    concerns: Annotated[Listed[ConcernDocument], says("what needs a person")] = ()
    waiting_total: Annotated[Count | None, says("pods that wait for GPUs")] = None
    fits_nowhere: Annotated[Count, says("those that no pool can hold")] = 0
    next_by: Annotated[Instant | None, says("when the first starts with a chance of nine in ten")] = None
    decisions: Annotated[Listed[DecisionLine], says("the newest five")] = ()
    messages: MessagesDocument = MessagesDocument()
    observed: Annotated[ObservedDocument | None, says("what act mode would have cost; null in act mode")] = None


class ProblemDocument(Published):
    """Why nothing was done."""

    sometimes = ("field", "known", "can_mean", "history", "state", "limit_bytes", "mistakes")
    error: Annotated[str, says("what is wrong")]
    remedy: Annotated[str, says("what helps")]
    field: Annotated[str, says("the part of the request that is to blame")]
    known: Annotated[tuple[Any, ...], says("what could have been asked for")]
    can_mean: Annotated[tuple[str, ...], says("why a pod may not wait")]
    history: Annotated[tuple[str, ...], says("what is known of the pod from before")]
    state: Annotated[str, says("how a question stands")]
    limit_bytes: Annotated[Count, says("what a body may hold")]
    mistakes: Annotated[tuple[dict[str, str], ...], says("of a configuration: field, problem and remedy of each")]


def waiting_document(pod: WaitingPod, picture: Picture, parts: "WebParts") -> WaitingPod:
    """Return *pod* of *picture* with the name of its pool and what a person can do."""
    observing = mode_of(picture, parts) == "observe"
    advice = pod.what_to_do or what_to_do(
        pod.state, pod.rule, namespace=pod.namespace, pod=pod.name, observing=observing
    )
    name = parts.pool_name(pod.pool) if pod.pool else None
    return pod.model_copy(update={"what_to_do": advice, "pool_name": name})


def pool_document(pool: PoolDocument, mode: str) -> PoolDocument:
    """Return *pool* with the mode of the picture that it is from, where it has none of its own."""
    return pool if pool.mode else pool.model_copy(update={"mode": mode})
