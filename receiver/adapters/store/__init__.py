"""The durable memory in a database: SQLite by default, PostgreSQL for several replicas."""

from receiver.adapters.store.opening import open_in_memory, open_store, store_at
from receiver.adapters.store.sql_store import SqlStore

__all__ = ["SqlStore", "open_in_memory", "open_store", "store_at"]
