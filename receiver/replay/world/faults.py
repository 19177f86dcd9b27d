"""Switches that make a world misbehave, settable while it runs."""

from dataclasses import dataclass, field
from typing import Protocol

from receiver.replay.world.objects import Denied


class Ward(Protocol):
    """Where faults of nodes and of telemetry take effect. Raises Denied (404) for an unknown node."""

    def lose_gpu(self, name: str) -> None:
        """The driver of a node crashes."""

    def not_ready(self, name: str) -> None:
        """The kubelet of a node stops answering."""

    def recover(self, name: str) -> None:
        """Driver and kubelet of a node are well again."""

    def recover_all(self) -> None:
        """Those of every node are."""

    def telemetry_gone(self, gone: bool) -> None:
        """Nobody sees what GPUs do, or everybody again."""


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong from now on. Counters are per pool id and used up one by one.

    *stock* overrides how many GPU units of a size can still be bought; *rules_dead* is read by whoever shows
    alerts. What happens to nodes and telemetry reaches the world through *ward*, which the world sets.
    """

    stock: dict[str, int | None] = field(default_factory=dict)
    rules_dead: bool = False
    ward: Ward | None = None
    _telemetry_gone: bool = False
    _refusals: list[tuple[Denied, int | None]] = field(default_factory=list)
    _stuck: dict[str, int] = field(default_factory=dict)
    _gpu_never: dict[str, int] = field(default_factory=dict)
    _bare: dict[str, int] = field(default_factory=dict)
    _odd: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def telemetry_gone(self) -> bool:
        """True while nobody sees what GPUs do; settable."""
        return self._telemetry_gone

    @telemetry_gone.setter
    def telemetry_gone(self, gone: bool) -> None:
        self._telemetry_gone = gone
        if self.ward is not None:
            self.ward.telemetry_gone(gone)

    def lose_gpu(self, node: str) -> None:
        """The driver of a usable *node* crashes: it offers no GPU and reports none until `recover`. Pods stay."""
        self._the_ward.lose_gpu(node)

    def not_ready(self, node: str) -> None:
        """A Ready *node* becomes NotReady until `recover`; what runs there goes on."""
        self._the_ward.not_ready(node)

    def recover(self, node: str) -> None:
        """Undo `lose_gpu` and `not_ready`."""
        self._the_ward.recover(node)

    @property
    def _the_ward(self) -> Ward:
        if self.ward is None:
            raise RuntimeError("these faults belong to no world")
        return self.ward

    def refuse_rescale(
        self,
        code: str = "cannot_scale_already_rescaling_cluster",
        *,
        status: int = 409,
        reason: str = "The cluster is already being rescaled",
        times: int | None = 1,
    ) -> None:
        """Refuse the next *times* resizes with *code* (None: until `clear`)."""
        self._refusals.append((Denied(code, status, reason), times))

    def stuck_building(self, pool: str, count: int = 1) -> None:
        """The next *count* instances of *pool* never leave BUILDING."""
        self._stuck[pool] = count

    def gpu_never(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* become Ready and never offer a GPU."""
        self._gpu_never[pool] = count

    def bare_labels(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* come without the labels and taints that the pool is configured with."""
        self._bare[pool] = count

    def odd_status(self, pool: str, count: int = 1, status: str = "ERROR") -> None:
        """The next *count* instances of *pool* go to *status* instead of ACTIVE and stay there."""
        self._odd[pool] = (count, status)

    def clear(self) -> None:
        """Make the world behave again; what is stuck stays stuck, and bare nodes stay bare."""
        self.stock.clear()
        self.telemetry_gone = self.rules_dead = False
        self._refusals.clear()
        self._stuck.clear()
        self._gpu_never.clear()
        self._bare.clear()
        self._odd.clear()
        if self.ward is not None:
            self.ward.recover_all()

    def next_refusal(self) -> Denied | None:
        """Use up and return the refusal that the next resize meets, or None."""
        if not self._refusals:
            return None
        refusal, times = self._refusals.pop(0)
        if times is None or times > 1:
            self._refusals.insert(0, (refusal, None if times is None else times - 1))
        return refusal

    def takes_stuck(self, pool: str) -> bool:
        """Use up one stuck build of *pool*."""
        return _use_up(self._stuck, pool)

    def takes_gpu_never(self, pool: str) -> bool:
        """Use up one node of *pool* whose GPU never shows."""
        return _use_up(self._gpu_never, pool)

    def takes_bare_labels(self, pool: str) -> bool:
        """Use up one node of *pool* without labels and taints."""
        return _use_up(self._bare, pool)

    def takes_odd_status(self, pool: str) -> str | None:
        """Use up one odd status of *pool* and return it, or None."""
        left, status = self._odd.get(pool, (0, ""))
        if left <= 0:
            return None
        self._odd[pool] = (left - 1, status)
        return status


def _use_up(counters: dict[str, int], pool: str) -> bool:
    left = counters.get(pool, 0)
    if left <= 0:
        return False
    counters[pool] = left - 1
    return True
