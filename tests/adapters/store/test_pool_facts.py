"""What Civo last said of the pools is in the store after a restart, and for the doctor."""

from pathlib import Path

from receiver.adapters.store import open_store
from receiver.adapters.store.database import parse
from receiver.adapters.survey import remembered
from receiver.core.model.policy import Taint
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts

FACTS = PoolFacts(
    pools={
        "p": PoolAtCivo(size="an.g1.l40s.kube.x1", labels={"gpu": "on-demand"}, taints=(Taint(key="gpu"),)),
        "q": PoolAtCivo(),
    },
    gpus={"an.g1.l40s.kube.x1": 1, "new": None},
)


def test_the_last_answer_is_kept(url: str) -> None:
    store = open_store(url)
    assert store.pool_facts() is None
    store.keep_pool_facts(PoolFacts())
    store.keep_pool_facts(FACTS)
    store.close()
    again = open_store(url)
    assert again.pool_facts() == FACTS
    again.close()
    assert remembered(parse(url)) == FACTS


def test_a_store_that_is_not_there_remembers_nothing(tmp_path: Path) -> None:
    assert remembered(parse(f"sqlite:///{tmp_path}/none.db")) is None
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "empty.db").touch()
    assert remembered(parse(f"sqlite:///{tmp_path}/empty.db")) is None
