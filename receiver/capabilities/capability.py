"""What one capability adds, as a record. Each member has a type of the layer that takes it, and a default that adds
nothing: what a layer is not handed, it does without."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from receiver.metrics.families import AddedFamilies
from receiver.runtime.after_step import AfterStepOf
from receiver.web import WebAdditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One folder of this package. Commands are not here but in its ``__init__.py``: the command line lists them without
    importing what they need."""

    name: str
    """The name of the folder."""
    web: WebAdditions = field(default_factory=WebAdditions)
    """Routes, pages and what the OpenAPI document says of them."""
    metrics: Sequence[AddedFamilies] = ()
    """Metrics that are read from the store."""
    after_step: Sequence[AfterStepOf] = ()
    """What is due at certain times."""
