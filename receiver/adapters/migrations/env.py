"""Alembic's entry point, on the connection that `receiver.adapters.store.migrate` has opened and locked."""

from alembic import context

from receiver.adapters.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter most of a table in place
    transactional_ddl=True,  # our connections send BEGIN themselves, so SQLite rolls back an interrupted migration
)
with context.begin_transaction():
    context.run_migrations()
