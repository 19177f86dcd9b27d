"""When a request was left unanswered: no growth begins until it cannot take effect any more."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a program of the revision before works on without it."""
    op.add_column("actions", sa.Column("unanswered_at", sa.DateTime(timezone=True)))
