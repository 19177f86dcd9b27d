"""The adapters are what the ports ask for; mypy reads these assignments."""

from pathlib import Path

from receiver.adapters.leader import WriterLock
from receiver.adapters.store import open_store
from receiver.ports import Store
from receiver.runtime.loop import Writer


def test_the_store_and_the_lock_fit_their_ports(tmp_path: Path) -> None:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    store: Store = opened
    writer: Writer = WriterLock(f"sqlite:///{tmp_path}/store.db")
    store.check()
    assert store.notices_like("nothing") == ()
    assert writer.try_acquire()
    writer.release()
    opened.close()
