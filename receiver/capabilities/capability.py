"""What one capability adds, as a record. Each member has a type of the layer that takes it, and a default that adds
nothing: what a layer is not handed, it does without."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from receiver.adapters.kubernetes.announced import MakeReader
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.config.model import Configuration
from receiver.metrics.families import AddedFamilies
from receiver.runtime.after_step import AfterStepOf
from receiver.step.parts import NOTHING, Additions
from receiver.web.parts import WebAdditions

# Of rights: whether they are needed, verbs, API group, resources, purpose, and ``weaker``, ``acts`` or nothing.
RightsRow = tuple[bool, str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsCase:
    """What rights depend on: the configuration, the API groups that the cluster serves, and its living pods."""

    configuration: Configuration
    groups: frozenset[str]
    pods: Sequence[SeenPod] = ()


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
    step: Additions = NOTHING
    """Sources of size, guardrails, chores, and what else a step takes."""
    readers: Callable[[Configuration], Sequence[MakeReader]] = lambda _: ()
    """Of requests, in a look at the cluster."""
    rights: Callable[[RightsCase], Iterable[RightsRow]] = lambda _: ()
    """In the cluster."""
