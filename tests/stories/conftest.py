"""The store that every life in memory writes to."""

from tests.reconcile.conftest import store

__all__ = ["store"]
