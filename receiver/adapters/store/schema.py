"""The tables of the store. `receiver/adapters/migrations` creates them; a test compares the two."""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Table

from receiver.adapters.store.columns import Count, Duration, Exact, Json, Moment, PlainText

metadata = MetaData()

Number = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows only as INTEGER

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("receiver", PlainText, nullable=False),
    Column("group_key", PlainText, nullable=False),
    Column("body", PlainText, nullable=False),
    Column("truncated", Integer, nullable=False),
    Column("warnings", Json, nullable=False),
    Column("received_at", Moment, nullable=False),
    Column("considered_at", Moment),
    Index("deliveries_by_considered_at", "considered_at"),
    sqlite_autoincrement=True,  # a pruned number is not reused
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("delivery", Number, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False),
    Column("fingerprint", PlainText, nullable=False),
    Column("starts_at", Moment, nullable=False),
    Column("firing", Boolean, nullable=False),
    Column("labels", Json, nullable=False),
    Column("annotations", Json, nullable=False),
    Column("received_at", Moment, nullable=False),
    Index("alerts_by_delivery", "delivery"),
    Index("alerts_by_received_at", "received_at"),
    sqlite_autoincrement=True,
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("pool", PlainText, nullable=False),
    Column("at", Moment, nullable=False),
    Column("present", Integer, nullable=False),
    Column("target", Integer, nullable=False),
    Column("change", PlainText, nullable=False),
    Column("verdicts", Json, nullable=False),
    Column("reasons", Json, nullable=False),
    Column("evidence", Json, nullable=False),
    Column("candidates", Json, nullable=False),
    Column("evicted", Json, nullable=False),
    Column("reconsider_at", Moment),
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

actions = Table(
    "actions",
    metadata,
    Column("id", PlainText, primary_key=True),
    Column("pool", PlainText, nullable=False),
    Column("kind", PlainText, nullable=False),
    Column("opened_at", Moment, nullable=False),
    Column("closed_at", Moment),
    Column("from_count", Integer, nullable=False),
    Column("to_count", Integer, nullable=False),
    Column("victims", Json, nullable=False),
    Column("decision", Number),  # no foreign key: the decision may be pruned first
    Column("reserved_usd", Exact, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("retry_at", Moment),
    Column("last_error", PlainText, nullable=False),
    Column("outcome", PlainText),
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

node_lives = Table(
    "node_lives",
    metadata,
    Column("instance", PlainText, primary_key=True),
    Column("pool", PlainText, nullable=False),
    Column("name", PlainText, nullable=False),
    Column("size", PlainText, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("price_usd_per_hour", Exact),
    Column("gone_at", Moment),
    Column("active_at", Moment),
    Column("registered_at", Moment),
    Column("ready_at", Moment),
    Column("usable_at", Moment),
    Column("bound_at", Moment),
    Column("running_at", Moment),
    Column("idle_since", Moment),
    Column("lost_at", Moment),
    Column("unknown_since", Moment),
    Column("seen_at", Moment),
    Column("kept_until", Moment),
    Column("kept_for", PlainText, nullable=False),
    Column("gpus", Float, nullable=False),
    Column("changed_at", Moment, nullable=False),
    Index("node_lives_by_gone_at", "gone_at"),
    Index("node_lives_by_usable_at", "pool", "usable_at"),
)

pools = Table(
    "pools",
    metadata,
    Column("pool", PlainText, primary_key=True),
    Column("required", Integer, nullable=False),
    Column("required_since", Moment),
    Column("watched_since", Moment),  # when its count was first read
    Column("last_grow_at", Moment),
    Column("last_shrink_at", Moment),
    Column("backoff_failures", Integer),
    Column("backoff_until", Moment),
    Column("backoff_reason", PlainText),
    Column("backoff_instances", Json),
    Column("removal_backoff_failures", Integer),
    Column("removal_backoff_until", Moment),
    Column("removal_backoff_reason", PlainText),
    Column("removal_backoff_instances", Json),
    Column("provisioning_failures", Integer),
    Column("provisioning_until", Moment),
    Column("provisioning_reason", PlainText),
    Column("provisioning_instances", Json),
    Column("late_expected", Integer),
    Column("late_shown", Integer),
    Column("late_since", Moment),
    Column("offer", Json),
    Column("ready_in", Duration),  # derived from node_lives whenever a node becomes usable
)

drifts = Table(  # required counts changed by others
    "drifts",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("pool", PlainText, nullable=False),
    Column("at", Moment, nullable=False),
    Column("from_count", Integer, nullable=False),
    Column("to_count", Integer, nullable=False),
    Column("undoes", Boolean, nullable=False),
    Index("one_drift_per_pool_and_step", "pool", "at", unique=True),
    Index("drifts_by_at", "at"),
)

OWNER = ("team", "project", "workload_class", "environment", "cost_center", "priority_class")  # the fields of `Owner`


def _owner(*, primary_key: bool = False) -> list[Column[str]]:
    """The columns of an owner."""
    return [Column(name, PlainText, primary_key=primary_key, nullable=False) for name in OWNER]


usage = Table(  # what each workload held of each node, by the month in which the paid unit began
    "usage",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("instance", PlainText, primary_key=True),
    Column("workload", PlainText, primary_key=True),
    Column("life", PlainText, primary_key=True),
    Column("namespace", PlainText, nullable=False),
    *_owner(primary_key=True),
    Column("held", Float, nullable=False),
    Column("node_seconds", Float),
    Column("measured", Float, nullable=False),
    Column("idle", Float, nullable=False),
    Column("busy", Float, nullable=False),
    Column("memory", Float, nullable=False),
    Column("peak_engine", Float),
    Column("peak_memory", Float),
)

unwatched = Table(  # unobserved GPU-seconds
    "unwatched",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("instance", PlainText, primary_key=True),
    Column("seconds", Float, nullable=False),
    Column("node_seconds", Float),
)

workload_lives = Table(
    "workload_lives",
    metadata,
    Column("workload", PlainText, primary_key=True),
    Column("created_at", Moment, primary_key=True),
    Column("life", PlainText, primary_key=True),
    Column("namespace", PlainText, nullable=False),
    *_owner(),
    Column("gpus", Count, nullable=False),
    Column("bound_at", Moment),
    Column("ended_at", Moment),
    Column("completed", Boolean),
    Index("workload_lives_by_ended_at", "ended_at"),
)

holdings = Table(  # the pods that held GPUs when usage was last accounted for
    "holdings",
    metadata,
    Column("uid", PlainText, primary_key=True),
    Column("instance", PlainText, nullable=False),
    Column("workload", PlainText, nullable=False),
    Column("gpus", Float, nullable=False),
    Column("life", PlainText, nullable=False),
    *_owner(),
    Column("until", Moment),
)

unit_counts = Table(  # the last results of the queries of units of work
    "unit_counts",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("name", PlainText, primary_key=True),
    Column("count", Float, nullable=False),
    Column("at", Moment, nullable=False),
)

closed_reports = Table(  # the documents of finished months; never deleted
    "closed_reports",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("scope", PlainText, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("document", Json, nullable=False),
)

in_use = Table(  # the GPUs that each workload held and used at once
    "in_use",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("workload", PlainText, primary_key=True),
    Column("life", PlainText, primary_key=True),
    Column("gpus", Count, nullable=False),
    Column("used", Count, nullable=False),
    Column("seconds", Float, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("topic", PlainText, nullable=False),
    Column("key", PlainText, nullable=False),
    Column("title", PlainText, nullable=False),
    Column("body", PlainText, nullable=False),
    Column("severity", PlainText, nullable=False),
    Column("pool", PlainText),
    Column("decision", Number),
    Column("all_clear", Boolean, nullable=False),
    Column("cause", PlainText, nullable=False),
    Column("guide", PlainText, nullable=False),
    Column("question", PlainText),
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

tellings = Table(  # progress of each notice with each destination (a digest of its URL)
    "tellings",
    metadata,
    Column("notice", Number, ForeignKey("outbox.id", ondelete="CASCADE"), primary_key=True),
    Column("destination", PlainText, primary_key=True),
    Column("attempts", Integer, nullable=False),  # failed ones
    Column("retry_at", Moment),
    Column("reached_at", Moment),
    Column("given_up_at", Moment),
)

topics = Table(  # the last notice per topic, kept longer than the notice
    "topics",
    metadata,
    Column("topic", PlainText, primary_key=True),
    Column("key", PlainText, nullable=False),
    Column("told_at", Moment, nullable=False),
    Index("topics_by_told_at", "told_at"),
)

budget_changes = Table(  # allowances set at run time; the last one of a scope and month is in force
    "budget_changes",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("scope", PlainText, nullable=False),
    Column("name", PlainText, nullable=False),
    Column("month", PlainText, nullable=False),
    Column("monthly_usd", Exact),
    Column("who", PlainText, nullable=False),
    Column("why", PlainText, nullable=False),
    Column("at", Moment, nullable=False),
)

overrides = Table(
    "overrides",
    metadata,
    Column("id", PlainText, primary_key=True),
    Column("kind", PlainText, nullable=False),
    Column("pool", PlainText),
    Column("nodes", Integer),
    Column("who", PlainText, nullable=False),
    Column("why", PlainText, nullable=False),
    Column("at", Moment, nullable=False),
    Column("until", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("ended_by", PlainText),
    Index("overrides_by_ended_at", "ended_at"),
)

questions = Table(  # approval requests
    "questions",
    metadata,
    Column("id", PlainText, primary_key=True),
    Column("pool", PlainText, nullable=False),
    Column("asks", PlainText, nullable=False),
    Column("from_count", Integer, nullable=False),
    Column("to_count", Integer, nullable=False),
    Column("asked_at", Moment, nullable=False),
    Column("due_at", Moment, nullable=False),
    Column("wait_ends", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("unanswered", PlainText, nullable=False),
    Column("instances", Json, nullable=False),
    Column("nodes", Json, nullable=False),
    Column("usd_per_hour", Exact),
    Column("answer", PlainText),
    Column("who", PlainText, nullable=False),
    Column("why", PlainText, nullable=False),
    Column("answered_at", Moment),
    Column("done_at", Moment),
    Index("questions_by_expires_at", "expires_at"),
)

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

samples = Table(  # the counts of each pool by minute; NULL is unknown
    "samples",
    metadata,
    Column("pool", PlainText, primary_key=True),
    Column("at", Moment, primary_key=True),
    Column("required", Integer),
    Column("ready", Integer),
    Column("building", Integer),
    Column("busy", Integer),
    Column("idle", Integer),
    Column("unknown", Integer),
    Column("pending_gpus", Count),
    Column("utilization", Float),
    Index("samples_by_at", "at"),
)

turns = Table(  # changes of what each node does
    "turns",
    metadata,
    Column("instance", PlainText, primary_key=True),
    Column("at", Moment, primary_key=True),
    Column("pool", PlainText, nullable=False),
    Column("doing", PlainText, nullable=False),
    Index("turns_by_pool", "pool", "at"),
)

totals = Table(  # counters for /metrics, which pruning does not decrease
    "totals",
    metadata,
    Column("name", PlainText, primary_key=True),
    Column("labels", Json, primary_key=True),
    Column("total", BigInteger, nullable=False),
)

marks = Table(  # the last time of events
    "marks",
    metadata,
    Column("name", PlainText, primary_key=True),
    Column("at", Moment, nullable=False),
)

charges = Table(  # Civo's last answer on the charges of each month
    "charges",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("asked_at", Moment, nullable=False),
    Column("answered_at", Moment),
    Column("records", Json, nullable=False),
    Column("unreadable", Json, nullable=False),
    Column("failure", PlainText, nullable=False),
    Column("failing_since", Moment),
)

seeds = Table(  # the cost of a month before this store began
    "seeds",
    metadata,
    Column("month", PlainText, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("hours", Json, nullable=False),
    Column("usd", Exact, nullable=False),
    Column("stated", Exact),
    Column("elsewhere", Json, nullable=False),
)

lease = Table(  # the leader of several replicas: one row, on PostgreSQL (`receiver.adapters.store.lease_table`)
    "lease",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("owner", PlainText),  # None: no leader
    Column("term", Number, nullable=False),  # how many times it was taken
    Column("expires_at", Moment, nullable=False),
    Column("free_at", Moment, nullable=False),  # when another may take it
    Column("wakes", Number, nullable=False),  # wake-ups by the other replicas
)

compatibility = Table(  # one row: the oldest revision whose programs can use this schema
    "compatibility",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("oldest", PlainText, nullable=False),
)
