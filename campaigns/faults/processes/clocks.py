"""The clocks of a schedule: the simulator's, and the receiver's in another process, moved without waiting."""

import mmap
import struct
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from receiver.adapters.clock import SystemClock

LAYOUT = "=dd"  # as `inside/sitecustomize.py` reads it


class MovedClock:
    """The machine's clock and what schedules skip of it: the simulator's. *skew* is how far the receiver's is
    beside it. *folder* is where the receiver's processes look for it.
    """

    def __init__(self, folder: Path) -> None:
        size = struct.calcsize(LAYOUT)
        (folder / "clock").write_bytes(bytes(size))
        with (folder / "clock").open("r+b") as file:
            self._moved = mmap.mmap(file.fileno(), size)
        self._ahead, self.skew = 0.0, 0.0
        self._machine = SystemClock()
        self._turning = threading.Lock()

    def now(self) -> datetime:
        """Return the world's time."""
        return self._machine.now().astimezone(UTC) + timedelta(seconds=self._ahead)

    def skip(self, seconds: float) -> None:
        """Let *seconds* be over, for everybody."""
        with self._turning:
            self._tell(self._ahead + seconds, self.skew)

    def step(self, skew: float) -> None:
        """Set the receiver's clock *skew* seconds beside the world's."""
        self._tell(self._ahead, skew)

    def _tell(self, ahead: float, skew: float) -> None:
        struct.pack_into(LAYOUT, self._moved, 0, ahead, skew)
        self._ahead, self.skew = ahead, skew
