"""The prices at which spend from before the ledger is counted: it must not change with a later price."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a program of the revision before works on without it, and counts at its present prices."""
    op.add_column("seeds", sa.Column("prices", sa.Text))
