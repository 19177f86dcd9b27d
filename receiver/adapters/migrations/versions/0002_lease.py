"""The lead among several replicas, and the versions of the program that can work with this schema."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create both tables, without a leader."""
    op.create_table(
        "lease",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("owner", sa.Text),
        sa.Column("term", NUMBER, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("free_at", TIME, nullable=False),
        sa.Column("wakes", NUMBER, nullable=False),
    )
    compatibility = op.create_table(
        "compatibility",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("oldest", sa.Text, nullable=False),
    )
    op.bulk_insert(compatibility, [{"id": 1, "oldest": "0002"}])
