"""Switches that make a world misbehave, settable while it runs."""

from dataclasses import dataclass, field

from receiver.replay.world.objects import Refused


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong from now on. Counters are per pool id and used up one by one.

    *stock* overrides how many GPU units of a size can still be bought; *telemetry_gone* and *rules_dead* are read
    by whoever shows telemetry.
    """

    stock: dict[str, int | None] = field(default_factory=dict)
    telemetry_gone: bool = False
    rules_dead: bool = False
    _refusals: list[tuple[Refused, int | None]] = field(default_factory=list)
    _stuck: dict[str, int] = field(default_factory=dict)
    _gpu_never: dict[str, int] = field(default_factory=dict)
    _odd: dict[str, tuple[int, str]] = field(default_factory=dict)

    def refuse_rescale(
        self,
        code: str = "cannot_scale_already_rescaling_cluster",
        *,
        status: int = 409,
        reason: str = "The cluster is already being rescaled",
        times: int | None = 1,
    ) -> None:
        """Refuse the next *times* resizes with *code* (None: until `clear`)."""
        self._refusals.append((Refused(code, status, reason), times))

    def stuck_building(self, pool: str, count: int = 1) -> None:
        """The next *count* instances of *pool* never leave BUILDING."""
        self._stuck[pool] = count

    def gpu_never(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* become Ready and never offer a GPU."""
        self._gpu_never[pool] = count

    def odd_status(self, pool: str, count: int = 1, status: str = "ERROR") -> None:
        """The next *count* instances of *pool* go to *status* instead of ACTIVE and stay there."""
        self._odd[pool] = (count, status)

    def clear(self) -> None:
        """Make the world behave again; what is stuck stays stuck."""
        self.stock.clear()
        self.telemetry_gone = self.rules_dead = False
        self._refusals.clear()
        self._stuck.clear()
        self._gpu_never.clear()
        self._odd.clear()

    def next_refusal(self) -> Refused | None:
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
