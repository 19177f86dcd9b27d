"""What a step leaves for the next one to decide from, apart from the picture that people are shown."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the table, empty: the first step after an upgrade looks at everything anew, as after a restart."""
    op.create_table(
        "control",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
