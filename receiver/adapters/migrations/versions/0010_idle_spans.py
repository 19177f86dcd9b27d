"""GPUs that workloads hold although they have been idle for too long, and those that a shutdown freed: the report of a
month counts them, and the messages about them are not kept that long."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; a program of the revision before works on without it."""
    op.create_table(
        "idle_spans",
        sa.Column("workload", sa.Text, primary_key=True),
        sa.Column("since", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("team", sa.Text, nullable=False),
        sa.Column("gpus", sa.Float, nullable=False),
        sa.Column("usd_per_hour", sa.Text),
        sa.Column("ended", sa.Boolean, nullable=False),
        sa.Column("until", sa.DateTime(timezone=True)),
    )
    op.create_index("idle_spans_by_until", "idle_spans", ["until"])
