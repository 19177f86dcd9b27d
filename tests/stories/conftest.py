"""The store that every life in memory writes to."""

from tests.reconcile.conftest import _of_all_lives, store

__all__ = ["_of_all_lives", "store"]
