"""What Civo last said of the pools: a restart while Civo does not answer still knows the pools of a file that leaves
their size and GPUs to Civo."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; the next answer of Civo fills it."""
    op.create_table(
        "pool_facts",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("facts", sa.Text, nullable=False),
    )
