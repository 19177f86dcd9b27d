"""Seeded chance."""

import random
from datetime import timedelta


class Dice:
    """Seeded names and jitter: drawn apart, so that switching jitter on renames nothing."""

    def __init__(self, seed: int, jitter: float) -> None:
        self._names = random.Random(seed)
        self._times = random.Random(seed + 1)
        self._jitter = jitter

    def uuid(self) -> str:
        """Return a random-looking UUID."""
        text = f"{self._names.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def word(self, length: int) -> str:
        """Return *length* hexadecimal digits."""
        return f"{self._names.getrandbits(4 * length):0{length}x}"

    def spread(self, duration: timedelta) -> timedelta:
        """Return *duration* with jitter."""
        if not self._jitter:
            return duration
        return duration * (1 + self._jitter * self._times.uniform(-1, 1))
