"""Leader election: a lock beside a SQLite file, a lease in PostgreSQL."""
