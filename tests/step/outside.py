"""Civo and Kubernetes as an action meets them: each write is noted, and answered as a test says."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from receiver.core.model.actions import Action
from receiver.core.model.pods import Pod
from receiver.ports import Cloud, Cluster, Did, Receipt
from receiver.step.parts import Hands

Answer = Receipt | Exception


def receipt(did: Did = Did.DONE, sentence: str = "as asked", required: int | None = None) -> Receipt:
    """The effect of a write."""
    return Receipt(did=did, sentence=sentence, required=required)


class Outside:
    """Both ports at once. *calls* are the writes and the looks, and ``ready`` whenever the lead was asked for.

    *answers* are receipts or errors by the name of the write; what is not named is done. *pods* run on each node.
    """

    def __init__(self, *, leads: bool = True, pods: Sequence[Pod] = (), **answers: Answer) -> None:
        self.calls: list[str] = []
        self.cordoned_at: datetime | None = None  # as the last drain was told
        self.recorded: list[Action] = []  # before a request
        self._leads = leads
        self._pods = pods
        self._answers = answers

    @property
    def hands(self) -> Hands:
        """Hands that write to it."""
        return Hands(
            cloud=cast("Cloud", self),
            cluster=cast("Cluster", self),
            may_write=self._may_write,
            record=self.recorded.append,
        )

    @property
    def writes(self) -> list[str]:
        """The calls without the questions for the lead."""
        return [call for call in self.calls if call != "ready"]

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        return self._answer("resize", f"{pool} from {decided_on} to {target} shown {shown}")

    def retire(self, pool: str, instance: str) -> Receipt:
        return self._answer("retire", instance)

    def cordon(self, node: str, action: str) -> Receipt:
        return self._answer("cordon", f"{node} for {action}")

    def uncordon(self, node: str) -> Receipt:
        return self._answer("uncordon", node)

    def drain(self, node: str, *, consenting: bool, evicting: bool, cordoned_at: datetime | None) -> Receipt:
        self.cordoned_at = cordoned_at
        of = "evicting" if evicting else "consenting" if consenting else "no GPU pods"
        return self._answer("drain", f"{node} {of}")

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        self.calls.append(f"look {node}")
        return self._pods

    def _may_write(self) -> bool:
        self.calls.append("ready")
        return self._leads

    def _answer(self, name: str, what: str) -> Receipt:
        self.calls.append(f"{name} {what}")
        answer: Any = self._answers.get(name, receipt())
        if isinstance(answer, Exception):
            raise answer
        return cast("Receipt", answer)
