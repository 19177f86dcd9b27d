"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create every table."""
    _deliveries()
    _decisions()
    _actions()
    _nodes()
    _pools()
    _usage()
    _notices()
    _overrides()
    _questions()
    _budgets()
    _figures()
    _charges()
    _samples()


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("group_key", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("truncated", sa.Integer, nullable=False),
        sa.Column("warnings", sa.Text, nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("considered_at", TIME),
        sqlite_autoincrement=True,
    )
    op.create_index("deliveries_by_considered_at", "deliveries", ["considered_at"])
    op.create_table(
        "alerts",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("delivery", NUMBER, sa.ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("starts_at", TIME, nullable=False),
        sa.Column("firing", sa.Boolean, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("annotations", sa.Text, nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("alerts_by_delivery", "alerts", ["delivery"])
    op.create_index("alerts_by_received_at", "alerts", ["received_at"])


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("present", sa.Integer, nullable=False),
        sa.Column("target", sa.Integer, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.Column("verdicts", sa.Text, nullable=False),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.Column("evidence", sa.Text, nullable=False),
        sa.Column("candidates", sa.Text, nullable=False),
        sa.Column("evicted", sa.Text, nullable=False),
        sa.Column("reconsider_at", TIME),
        sa.Column("facts", sa.Text),
        sa.Column("policy", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "grounds",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("decisions_by_pool", "decisions", ["pool", "id"])
    op.create_index("decisions_by_at", "decisions", ["at"])


def _actions() -> None:
    op.create_table(
        "actions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("opened_at", TIME, nullable=False),
        sa.Column("closed_at", TIME),
        sa.Column("from_count", sa.Integer, nullable=False),
        sa.Column("to_count", sa.Integer, nullable=False),
        sa.Column("victims", sa.Text, nullable=False),
        sa.Column("decision", NUMBER),
        sa.Column("reserved_usd", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retry_at", TIME),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("detail", sa.Text),
    )
    op.create_index("actions_by_pool", "actions", ["pool", "opened_at"])
    op.create_index("actions_by_decision", "actions", ["decision"])
    op.create_index("actions_by_closed_at", "actions", ["closed_at"])
    is_open = sa.text("closed_at IS NULL")
    op.create_index(
        "one_open_action_per_pool", "actions", ["pool"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )


def _nodes() -> None:
    op.create_table(
        "node_lives",
        sa.Column("instance", sa.Text, primary_key=True),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("size", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("price_usd_per_hour", sa.Text),
        sa.Column("gone_at", TIME),
        sa.Column("active_at", TIME),
        sa.Column("ready_at", TIME),
        sa.Column("usable_at", TIME),
        sa.Column("bound_at", TIME),
        sa.Column("running_at", TIME),
        sa.Column("idle_since", TIME),
        sa.Column("lost_at", TIME),
        sa.Column("unknown_since", TIME),
        sa.Column("seen_at", TIME),
        sa.Column("kept_until", TIME),
        sa.Column("kept_for", sa.Text, nullable=False),
        sa.Column("gpus", sa.Float, nullable=False),
        sa.Column("changed_at", TIME, nullable=False),
    )
    op.create_index("node_lives_by_gone_at", "node_lives", ["gone_at"])
    op.create_index("node_lives_by_usable_at", "node_lives", ["pool", "usable_at"])


def _pools() -> None:
    op.create_table(
        "pools",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("required", sa.Integer, nullable=False),
        sa.Column("required_since", TIME),
        sa.Column("watched_since", TIME),
        sa.Column("last_grow_at", TIME),
        sa.Column("last_shrink_at", TIME),
        sa.Column("backoff_failures", sa.Integer),
        sa.Column("backoff_until", TIME),
        sa.Column("backoff_reason", sa.Text),
        sa.Column("backoff_instances", sa.Text),
        sa.Column("removal_backoff_failures", sa.Integer),
        sa.Column("removal_backoff_until", TIME),
        sa.Column("removal_backoff_reason", sa.Text),
        sa.Column("removal_backoff_instances", sa.Text),
        sa.Column("provisioning_failures", sa.Integer),
        sa.Column("provisioning_until", TIME),
        sa.Column("provisioning_reason", sa.Text),
        sa.Column("provisioning_instances", sa.Text),
        sa.Column("late_expected", sa.Integer),
        sa.Column("late_shown", sa.Integer),
        sa.Column("late_since", TIME),
        sa.Column("offer", sa.Text),
        sa.Column("ready_in", sa.BigInteger),
    )
    op.create_table(
        "drifts",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("from_count", sa.Integer, nullable=False),
        sa.Column("to_count", sa.Integer, nullable=False),
        sa.Column("undoes", sa.Boolean, nullable=False),
    )
    op.create_index("one_drift_per_pool_and_step", "drifts", ["pool", "at"], unique=True)
    op.create_index("drifts_by_at", "drifts", ["at"])


def _whose(*, key: bool = False) -> list[sa.Column[str]]:
    """Whose a row is; with *key* all but the namespace, which the workload's name begins with, are in the key."""
    names = ("team", "project", "workload_class", "environment", "cost_center", "priority_class")
    owner = [sa.Column(name, sa.Text, primary_key=key, nullable=False) for name in names]
    return [sa.Column("namespace", sa.Text, nullable=False), *owner]


def _usage() -> None:
    op.create_table(
        "usage",
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("instance", sa.Text, primary_key=True),
        sa.Column("workload", sa.Text, primary_key=True),
        sa.Column("life", sa.Text, primary_key=True),
        *_whose(key=True),
        sa.Column("held", sa.Float, nullable=False),
        sa.Column("node_seconds", sa.Float),
        sa.Column("measured", sa.Float, nullable=False),
        sa.Column("idle", sa.Float, nullable=False),
        sa.Column("busy", sa.Float, nullable=False),
        sa.Column("memory", sa.Float, nullable=False),
        sa.Column("peak_engine", sa.Float),
        sa.Column("peak_memory", sa.Float),
    )
    op.create_table(
        "unwatched",
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("instance", sa.Text, primary_key=True),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("node_seconds", sa.Float),
    )
    op.create_table(
        "workload_lives",
        sa.Column("workload", sa.Text, primary_key=True),
        sa.Column("created_at", TIME, primary_key=True),
        sa.Column("life", sa.Text, primary_key=True),
        *_whose(),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("bound_at", TIME),
        sa.Column("ended_at", TIME),
        sa.Column("completed", sa.Boolean),
    )
    op.create_index("workload_lives_by_ended_at", "workload_lives", ["ended_at"])
    op.create_table(
        "holdings",
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("instance", sa.Text, nullable=False),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("gpus", sa.Float, nullable=False),
        sa.Column("life", sa.Text, nullable=False),
        *_whose()[1:],
        sa.Column("until", TIME),
    )


def _notices() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("pool", sa.Text),
        sa.Column("decision", NUMBER),
        sa.Column("all_clear", sa.Boolean, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("guide", sa.Text, nullable=False),
        sa.Column("question", sa.Text),
        sa.Column("grouped", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retry_at", TIME),
        sa.Column("sent_at", TIME),
        sa.Column("given_up_at", TIME),
        sa.Column("last_error", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("outbox_by_state", "outbox", ["sent_at", "given_up_at"])
    op.create_index("outbox_by_created_at", "outbox", ["created_at"])
    op.create_index("outbox_by_group", "outbox", ["grouped"])
    op.create_table(
        "tellings",
        sa.Column("notice", NUMBER, sa.ForeignKey("outbox.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("destination", sa.Text, primary_key=True),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retry_at", TIME),
        sa.Column("reached_at", TIME),
        sa.Column("given_up_at", TIME),
    )
    op.create_table(
        "topics",
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("told_at", TIME, nullable=False),
    )
    op.create_index("topics_by_told_at", "topics", ["told_at"])


def _charges() -> None:
    op.create_table(
        "charges",
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("asked_at", TIME, nullable=False),
        sa.Column("answered_at", TIME),
        sa.Column("records", sa.Text, nullable=False),
        sa.Column("unreadable", sa.Text, nullable=False),
        sa.Column("failure", sa.Text, nullable=False),
        sa.Column("failing_since", TIME),
    )
    op.create_table(
        "seeds",
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("at", TIME, nullable=False),
        sa.Column("hours", sa.Text, nullable=False),
        sa.Column("usd", sa.Text, nullable=False),
        sa.Column("stated", sa.Text),
        sa.Column("elsewhere", sa.Text, nullable=False),
    )


def _overrides() -> None:
    op.create_table(
        "overrides",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("pool", sa.Text),
        sa.Column("nodes", sa.Integer),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("until", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("ended_by", sa.Text),
    )
    op.create_index("overrides_by_ended_at", "overrides", ["ended_at"])


def _questions() -> None:
    op.create_table(
        "questions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("asks", sa.Text, nullable=False),
        sa.Column("from_count", sa.Integer, nullable=False),
        sa.Column("to_count", sa.Integer, nullable=False),
        sa.Column("asked_at", TIME, nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("wait_ends", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("unanswered", sa.Text, nullable=False),
        sa.Column("instances", sa.Text, nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        sa.Column("usd_per_hour", sa.Text),
        sa.Column("answer", sa.Text),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("answered_at", TIME),
        sa.Column("done_at", TIME),
    )
    op.create_index("questions_by_expires_at", "questions", ["expires_at"])


def _budgets() -> None:
    op.create_table(
        "budget_changes",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("month", sa.Text, nullable=False),
        sa.Column("monthly_usd", sa.Text),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
    )


def _figures() -> None:
    op.create_table(
        "unit_counts",
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("count", sa.Float, nullable=False),
        sa.Column("at", TIME, nullable=False),
    )
    op.create_table(
        "closed_reports",
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("at", TIME, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "in_use",
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("workload", sa.Text, primary_key=True),
        sa.Column("life", sa.Text, primary_key=True),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("used", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
    )
    op.create_table(
        "snapshot",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("picture", sa.Text, nullable=False),
    )
    op.create_table(
        "totals",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("labels", sa.Text, primary_key=True),
        sa.Column("total", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "marks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("at", TIME, nullable=False),
    )


def _samples() -> None:
    op.create_table(
        "samples",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("at", TIME, primary_key=True),
        sa.Column("required", sa.Integer),
        sa.Column("ready", sa.Integer),
        sa.Column("building", sa.Integer),
        sa.Column("busy", sa.Integer),
        sa.Column("idle", sa.Integer),
        sa.Column("unknown", sa.Integer),
        sa.Column("pending_gpus", sa.Integer),
        sa.Column("utilization", sa.Float),
    )
    op.create_index("samples_by_at", "samples", ["at"])
    op.create_table(
        "turns",
        sa.Column("instance", sa.Text, primary_key=True),
        sa.Column("at", TIME, primary_key=True),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("doing", sa.Text, nullable=False),
    )
    op.create_index("turns_by_pool", "turns", ["pool", "at"])
