"""Since when a node is sick, well again, or maintained by someone else: a fault that follows another one must not
restart the clock, nor must a restart."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; a program of the revision before works on without them."""
    for name in ("sick_since", "well_since", "maintained_since"):
        op.add_column("node_lives", sa.Column(name, sa.DateTime(timezone=True)))
