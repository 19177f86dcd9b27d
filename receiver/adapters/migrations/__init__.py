"""The migrations, which Alembic runs when the store is opened."""
