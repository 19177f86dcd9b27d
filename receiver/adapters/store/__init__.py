"""The durable memory in a database: SQLite by default, PostgreSQL for several replicas."""

from receiver.adapters.store.sql_store import SqlStore, open_in_memory, open_store, store_at

__all__ = ["SqlStore", "open_in_memory", "open_store", "store_at"]
