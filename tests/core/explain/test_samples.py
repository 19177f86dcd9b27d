"""What a step leaves for the pages to draw: counts that are unknown stay so, and each node does one thing."""

from dataclasses import replace

import pytest

from receiver.core.explain.samples import Doing, doing, turns
from receiver.core.model.model import Source, Stage
from receiver.reports.picture import Picture, PoolDocument
from receiver.step.publish import samples
from tests.core.builders import NOW, a_busy_node, a_node, a_state, facts

MINUTE = NOW.replace(second=0, microsecond=0)


def test_a_count_that_nobody_could_tell_is_none_and_not_zero() -> None:
    (sample,) = samples(Picture(pools=(PoolDocument(pool="l40s-id", ready=2, busy=None),)), NOW)
    assert (sample.ready, sample.busy, sample.utilization) == (2, None, None)


def test_samples_are_dated_to_the_minute() -> None:
    (sample,) = samples(Picture(pools=(PoolDocument(pool="l40s-id"),)), NOW.replace(second=59, microsecond=7))
    assert sample.at == MINUTE


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.USABLE])
def test_a_node_that_is_not_usable_does_what_its_stage_says(stage: Stage) -> None:
    assert doing(a_node(stage=stage)) == stage.value


def test_a_usable_node_is_busy_or_idle_or_nobody_can_tell() -> None:
    assert doing(a_busy_node()) is Doing.BUSY
    assert doing(a_node()) is Doing.IDLE
    assert doing(a_node(unknown_since=NOW)) is Doing.UNKNOWN


def test_every_node_of_every_pool_has_a_turn() -> None:
    found = turns(facts(a_state(a_node("n1"), a_busy_node("n2"))))
    assert found is not None
    assert {t.instance: t.doing for t in found} == {"i-n1": Doing.IDLE, "i-n2": Doing.BUSY}


def test_while_civo_is_silent_nobody_knows_which_nodes_there_are() -> None:
    seen = facts(a_state(a_node("n1")))
    silent = replace(seen.sources[Source.CIVO], up=False)
    assert turns(replace(seen, sources={**seen.sources, Source.CIVO: silent})) is None
