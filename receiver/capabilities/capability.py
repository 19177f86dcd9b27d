"""What one capability adds, as a record. Each member has a type of the layer that takes it, and a default that adds
nothing: what a layer is not handed, it does without."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from receiver.adapters.kubernetes.announced import MakeReader
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.config.model import Configuration
from receiver.core.notices.notice import PoolConcerns
from receiver.core.scaling.guardrails.rule import AddedGuardrail
from receiver.core.scaling.wanted import SizeSource
from receiver.metrics.families import AddedFamilies
from receiver.runtime.after_step import AfterStepOf
from receiver.step.parts import Chore, LookChore, PoolField, Publisher, StandingRequests
from receiver.web import WebAdditions

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
    sources: Sequence[SizeSource] = ()
    """Of size, in an assignment."""
    readers: Callable[[Configuration], Sequence[MakeReader]] = lambda _: ()
    """Of requests, in a look at the cluster."""
    chores: Sequence[Chore] = ()
    """Of a step."""
    look_chores: Sequence[LookChore] = ()
    """Of a step, also where it only looks."""
    publishers: Sequence[Publisher] = ()
    """Of a step."""
    guardrails: Sequence[AddedGuardrail] = ()
    """Of decisions, for changes that wait for people."""
    requests: Sequence[StandingRequests] = ()
    """To people, on which changes wait."""
    concerns: Sequence[PoolConcerns] = ()
    """What needs a person, by pool."""
    pool_fields: Sequence[PoolField] = ()
    """Of the published picture."""
    rights: Callable[[RightsCase], Iterable[RightsRow]] = lambda _: ()
    """In the cluster."""
