"""The tables of the store. `receiver/adapters/migrations` creates them; a test compares the two."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Table
from sqlalchemy.schema import SchemaItem

from receiver.adapters.store.columns import Count, Duration, Exact, Items, Json, Moment, PlainText, Word
from receiver.core.explain.samples import NodeTurn, PoolSample
from receiver.core.model.actions import Action, Decision, OutcomeKind, Reason, Victim
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Backoff, Drift
from receiver.core.model.overrides import Override, Question
from receiver.core.model.policy import BudgetChange
from receiver.core.model.signals import Alert
from receiver.core.model.usage import GpuHolding, IdleSpan, Owner, Unwatched, Usage, WorkloadLife
from receiver.core.notices.notice import Notice
from receiver.core.report.lines import Counted
from receiver.core.report.rightsizing import InUse
from receiver.ports import Telling

metadata = MetaData()

Number = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows only as INTEGER
TYPES: Mapping[Any, Any] = {
    str: PlainText,
    int: Count,
    bool: Boolean,
    float: Float,
    Decimal: Exact,
    datetime: Moment,
    timedelta: Duration,
    Mapping: Json,
}


def _columns(kind: type, key: tuple[str, ...] = ()) -> Iterator[Column[Any]]:
    """A column for each field of the dataclass *kind*, and of its owner. Those of *key* identify a row."""
    for name, hint in get_type_hints(kind).items():
        if hint is Owner:
            yield from _columns(Owner, key)
            continue
        optional = NoneType in get_args(hint)
        inner = next(arg for arg in get_args(hint) if arg is not NoneType) if optional else hint
        form: Any = TYPES.get(get_origin(inner) or inner)
        if get_origin(inner) is tuple:
            form = Items(get_args(inner)[0])
        elif form is None:
            form = Word(inner)
        yield Column(name, form, primary_key=name in key, nullable=optional)


def _table(name: str, kind: type, *more: SchemaItem, key: tuple[str, ...] = ("id",), **options: Any) -> Table:
    """A table of values of *kind*, with *more* columns and indexes; a column in *more* replaces that of its field."""
    replaced = {item.name for item in more if isinstance(item, Column)}
    return Table(name, metadata, *(c for c in _columns(kind, key) if c.name not in replaced), *more, **options)


def _number() -> Column[int]:
    return Column("id", Number, primary_key=True, autoincrement=True)


deliveries = Table(
    "deliveries",
    metadata,
    _number(),
    Column("receiver", PlainText, nullable=False),
    Column("group_key", PlainText, nullable=False),
    Column("body", PlainText, nullable=False),
    Column("truncated", Integer, nullable=False),
    Column("warnings", Items(str), nullable=False),
    Column("received_at", Moment, nullable=False),
    Column("considered_at", Moment),
    Index("deliveries_by_considered_at", "considered_at"),
    sqlite_autoincrement=True,  # a pruned number is not reused
)

alerts = _table(
    "alerts",
    Alert,
    _number(),
    Column("delivery", Number, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False),
    Column("received_at", Moment, nullable=False),
    Index("alerts_by_delivery", "delivery"),
    Index("alerts_by_received_at", "received_at"),
    sqlite_autoincrement=True,
)

decisions = _table(
    "decisions",
    Decision,
    _number(),
    Column("change", PlainText, nullable=False),
    Column("verdicts", Json, nullable=False),
    Column("reasons", Items(Reason, without=("because", "until"), unless_empty=("cause",)), nullable=False),
    Column("facts", PlainText),  # digests of its inputs
    Column("policy", PlainText),
    Index("decisions_by_pool", "pool", "id"),
    Index("decisions_by_at", "at"),
    sqlite_autoincrement=True,
)

grounds = Table(  # inputs of decisions, each stored once
    "grounds",
    metadata,
    Column("digest", PlainText, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

actions = _table(
    "actions",
    Action,
    Column("victims", Items(Victim, unless_empty=("why", "asked_at", "emptied", "waited_for")), nullable=False),
    Column("decision", Number),  # no foreign key: the decision may be pruned first
    Column("closed_at", Moment),
    Column("outcome", Word(OutcomeKind)),
    Column("detail", PlainText),
    Index("actions_by_pool", "pool", "opened_at"),
    Index("actions_by_decision", "decision"),
    Index("actions_by_closed_at", "closed_at"),
)
one_open_action_per_pool = Index(
    "one_open_action_per_pool",
    actions.c.pool,
    unique=True,
    sqlite_where=actions.c.closed_at.is_(None),
    postgresql_where=actions.c.closed_at.is_(None),
)

node_lives = _table(
    "node_lives",
    NodeLife,
    Column("changed_at", Moment, nullable=False),
    Index("node_lives_by_gone_at", "gone_at"),
    Index("node_lives_by_usable_at", "pool", "usable_at"),
    key=("instance",),
)


POOL_BACKOFFS = ("backoff", "removal_backoff", "provisioning")  # the prefixes of their columns, empty without one
pools = Table(
    "pools",
    metadata,
    Column("pool", PlainText, primary_key=True),
    Column("required", Integer, nullable=False),
    Column("required_since", Moment),
    Column("watched_since", Moment),  # when its count was first read
    Column("last_grow_at", Moment),
    Column("last_shrink_at", Moment),
    *(Column(f"{prefix}_{c.name}", c.type) for prefix in POOL_BACKOFFS for c in _columns(Backoff)),
    *(Column(f"late_{name}", kind) for name, kind in (("expected", Integer), ("shown", Integer), ("since", Moment))),
    Column("offer", Json),
    Column("ready_in", Duration),  # derived from node_lives whenever a node becomes usable
)

drifts = _table(  # required counts changed by others
    "drifts",
    Drift,
    _number(),
    Column("pool", PlainText, nullable=False),
    Index("one_drift_per_pool_and_step", "pool", "at", unique=True),
    Index("drifts_by_at", "at"),
)

usage = _table(  # what each workload held of each node, by the month in which the paid unit began
    "usage", Usage, key=("month", "instance", "workload", "life", *Owner.__slots__)
)

unwatched = _table("unwatched", Unwatched, key=("month", "instance"))  # unobserved GPU-seconds

workload_lives = _table(
    "workload_lives",
    WorkloadLife,
    Index("workload_lives_by_ended_at", "ended_at"),
    key=("workload", "created_at", "life"),
)

idle_spans = _table(  # GPUs held by workloads that are idle for too long, or freed by ending them
    "idle_spans", IdleSpan, Index("idle_spans_by_until", "until"), key=("workload", "since")
)

holdings = _table("holdings", GpuHolding, key=("uid",))  # pods that held GPUs when usage was last accounted for

unit_counts = _table("unit_counts", Counted, key=("month", "name"))  # the last results of units' queries

closed_reports = Table(  # the documents of finished months; never deleted
    "closed_reports",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("scope", PlainText, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("document", Json, nullable=False),
)

in_use = _table("in_use", InUse, key=("month", "workload", "life"))  # the GPUs of each workload at once

outbox = _table(
    "outbox",
    Notice,
    _number(),
    Column("decision", Number),
    Column("grouped", PlainText, nullable=False),  # receiver.core.notices.grouping.group_of
    Column("created_at", Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("retry_at", Moment),  # nothing is to be done about it before
    Column("sent_at", Moment),
    Column("given_up_at", Moment),
    Column("last_error", PlainText, nullable=False),
    Index("outbox_by_state", "sent_at", "given_up_at"),
    Index("outbox_by_created_at", "created_at"),
    Index("outbox_by_group", "grouped"),
    sqlite_autoincrement=True,
)

tellings = _table(  # progress of each notice with each destination (a digest of its URL)
    "tellings",
    Telling,
    Column("notice", Number, ForeignKey("outbox.id", ondelete="CASCADE"), primary_key=True),
    Column("destination", PlainText, primary_key=True),
)

topics = Table(  # the last notice per topic, kept longer than the notice
    "topics",
    metadata,
    Column("topic", PlainText, primary_key=True),
    Column("key", PlainText, nullable=False),
    Column("told_at", Moment, nullable=False),
    Index("topics_by_told_at", "told_at"),
)

budget_changes = _table("budget_changes", BudgetChange, _number())  # the last one of a scope and month is in force

overrides = _table(
    "overrides",
    Override,
    Column("ended_at", Moment),
    Column("ended_by", PlainText),
    Index("overrides_by_ended_at", "ended_at"),
)

questions = _table("questions", Question, Index("questions_by_expires_at", "expires_at"))  # approval requests

control = Table(  # control state: the input that a step leaves for the next (`receiver.core.model.memory`)
    "control",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    Column("state", Json, nullable=False),
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    Column("picture", Json, nullable=False),
)

samples = _table("samples", PoolSample, Index("samples_by_at", "at"), key=("pool", "at"))  # by minute; NULL is unknown

turns = _table(  # changes of what each node does
    "turns", NodeTurn, Index("turns_by_pool", "pool", "at"), key=("instance", "at")
)

totals = Table(  # counters for /metrics, which pruning does not decrease
    "totals",
    metadata,
    Column("name", PlainText, primary_key=True),
    Column("labels", Json, primary_key=True),
    Column("total", BigInteger, nullable=False),
)

marks = Table(  # the last time of events
    "marks", metadata, Column("name", PlainText, primary_key=True), Column("at", Moment, nullable=False)
)

charges = _table(  # Civo's last answer on the charges of each month
    "charges", Charged, Column("records", Json, nullable=False), key=("month",)
)

seeds = _table(  # the cost of a month before this store began
    "seeds", Seed, Column("elsewhere", Json, nullable=False), Column("prices", Json), key=("month",)
)

lease = Table(  # the leader of several replicas: one row, on PostgreSQL (`receiver.adapters.store.lease_table`)
    "lease",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("owner", PlainText),  # None: no leader
    Column("term", Number, nullable=False),  # how many times it was taken
    Column("expires_at", Moment, nullable=False),
    Column("free_at", Moment, nullable=False),  # when another may take it
    Column("wakes", Number, nullable=False),  # of older versions; not used any more
)

seals = Table(  # one row: the random key of sessions and of links in messages
    "seals",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("key", PlainText, nullable=False),
)

pool_facts = Table(  # one row: what Civo last said of the pools (`receiver.core.model.pool_facts`)
    "pool_facts",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("facts", Json, nullable=False),
)

compatibility = Table(  # one row: the oldest revision whose programs can use this schema
    "compatibility", metadata, Column("id", Integer, primary_key=True), Column("oldest", PlainText, nullable=False)
)
