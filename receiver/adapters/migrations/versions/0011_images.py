"""With which image the first GPU pod of a node began: how long its pull takes is learnt by image."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a program of the revision before works on without it."""
    op.add_column("node_lives", sa.Column("image", sa.Text))
