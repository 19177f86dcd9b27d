"""What a step leaves for the pages to draw over time."""

from collections.abc import Mapping
from typing import Any

import structlog

from receiver.core.model import Facts
from receiver.core.samples import samples, turns
from receiver.ports import Store, TryLater, WriterLostError

log = structlog.get_logger("receiver")


def sample(facts: Facts, shown: Mapping[str, Any], store: Store) -> None:
    """Keep the counts of the picture *shown* and what nodes do, at most once a minute. Raises TryLater (store down).

    It comes last of all: a bug in it must not spoil a step that has done its work.
    """
    try:
        store.keep_samples(samples(shown, facts.at), turns(facts), facts.at)
    except (TryLater, WriterLostError):
        raise
    except Exception:
        log.exception("nothing sampled")
