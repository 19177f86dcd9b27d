"""The adapters are what the ports ask for; mypy reads these assignments."""

from pathlib import Path

from receiver.adapters.leader import WriterLock
from receiver.adapters.store import open_store
from receiver.ports import Store
from receiver.runtime.loop import Writer
from simulator.store import MemoryStore


def test_the_store_and_the_lock_fit_their_ports(tmp_path: Path) -> None:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    store: Store = opened
    writer: Writer = WriterLock(f"sqlite:///{tmp_path}/store.db")
    store.check()
    assert store.notices_like("nothing") == ()
    assert writer.try_acquire()
    writer.release()
    opened.close()


def test_the_store_in_memory_has_every_call_of_the_port() -> None:
    store: Store = MemoryStore()
    calls = {name for name in dir(Store) if not name.startswith("_")}
    assert [name for name in sorted(calls) if not callable(getattr(store, name, None))] == []
