"""When a node was first seen in Kubernetes: one that is gone from there is not on its way any more."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a program of the revision before works on without it."""
    op.add_column("node_lives", sa.Column("registered_at", sa.DateTime(timezone=True)))
