"""The random key that seals sessions and links in messages: a key made of the operator's token alone let everyone who
reads a message try guesses of that token."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; the first process that seals something makes the key."""
    op.create_table(
        "seals",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, nullable=False),
    )
