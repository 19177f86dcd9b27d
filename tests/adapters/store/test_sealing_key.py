"""The key that seals sessions and links: random, made once, the same for every replica and after a restart."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from sqlalchemy import select

from receiver.adapters.store import open_store
from receiver.adapters.store.schema import seals
from simulator.store import MemoryStore
from tests.adapters.store.builders import migrated
from tests.stores import ill, rebuilt


def test_the_first_call_makes_a_random_key_that_stays(url: str) -> None:
    store = open_store(url)
    key = store.sealing_key()
    store.close()
    assert len(bytes.fromhex(key)) == 32
    again = open_store(url)
    assert again.sealing_key() == key
    again.close()


def test_replicas_that_make_it_at_once_have_the_same(url: str) -> None:
    stores = [open_store(url) for _ in range(4)]
    with ThreadPoolExecutor(len(stores)) as threads:
        keys = list(threads.map(lambda store: store.sealing_key(), stores))
    with stores[0]._database.read() as connection:
        assert connection.execute(select(seals.c.key)).scalars().all() == [keys[0]]
    assert len(set(keys)) == 1
    for store in stores:
        store.close()


def test_a_key_that_was_read_once_needs_no_store(url: str) -> None:
    store = open_store(url)
    key = store.sealing_key()
    store._database.gate.close("down")
    assert store.sealing_key() == key
    store.close()


def test_a_key_that_another_process_made_is_read_from_a_store_that_takes_no_writes(tmp_path: Path) -> None:
    with closing(open_store(migrated(tmp_path / "ledger.db"))) as store:
        key = store.sealing_key()
        with ill(store, "read_only"):
            assert rebuilt(store).sealing_key() == key


def test_in_memory_too_a_key_that_was_read_once_needs_no_store() -> None:
    store = MemoryStore()
    key = store.sealing_key()
    store.illness = "lost"
    assert store.sealing_key() == key
