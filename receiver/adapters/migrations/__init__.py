"""The schema's history, run by Alembic when the store is opened."""
