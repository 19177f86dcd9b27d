"""Leader election: a file lock beside a SQLite store, a lease in PostgreSQL."""
