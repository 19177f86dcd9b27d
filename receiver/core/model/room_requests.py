"""Objects of the cluster's API that ask for room, and the answers to them: all that the core knows of both."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from receiver.core.model.pods import Pod

NO_GPU = "no device that it claims is a GPU of a pool"  # a `RoomRequest.problem`


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRequest:
    """The object *key* (``namespace/name``) of a *kind*, the name of the capability that serves it: room for *pods*,
    for *copies* of them where it asks for more than one of each.

    *waits*: its pods are among those that wait, as one gang. *trial*: it asks whether there is room, and its pods come
    after the answer; all others keep the room that they have. *announced* are all pods that it asks for, where some of
    them exist already and are left out of *pods*. *problem* says why there is nothing to give room to. *named*: it
    names a pool of ours. *terms* is what else it says, in words of its capability.
    """

    kind: str
    key: str
    pods: tuple[Pod, ...] = ()
    copies: int = 1
    waits: bool = False
    trial: bool = False
    announced: tuple[Pod, ...] = field(default=(), compare=False)
    problem: str = ""
    named: bool = False
    terms: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomAnswer:
    """The answer to the request *key* of a *kind*: a *state* and a CamelCase *reason* in words of its API, empty where
    that has none, and a *message* for people. *ready_gpus* stand free for it on usable nodes."""

    kind: str
    key: str
    state: str = ""
    reason: str = ""
    message: str = ""
    ready_gpus: int = 0
