"""The whole store in memory: the contract of `receiver.ports.store` without a database, for lives, stories and worlds
that would otherwise spend most of their time in SQL. The tests of the contract run on it too."""

from simulator.store.memory_store import MemoryStore as MemoryStore
