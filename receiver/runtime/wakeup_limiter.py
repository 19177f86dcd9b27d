"""How often wake-ups may make the loop step: the first few at once, and then evenly, however many come.

A step costs about as much whether one alert came or a hundred. In a storm of alerts it is the deliveries that must be
kept and answered: a loop that stepped after each of them would take the processor and the store from the next.
"""

AT_ONCE = 3
EVERY_SECONDS = 1.0


class WakeupLimiter:
    """A leaky bucket of wake-ups. Times are monotonic seconds."""

    def __init__(self, at_once: int = AT_ONCE, every: float = EVERY_SECONDS) -> None:
        """Let *at_once* wake-ups pass without waiting, and one more for each *every* seconds since."""
        self._spare = (at_once - 1) * every
        self._every = every
        self._emptied_at: float | None = None  # when as many as at first could pass again, if none came

    def wait(self, now: float) -> float:
        """Return how many seconds the wake-up of *now* waits before its step; count it."""
        if self._emptied_at is None or self._emptied_at < now:
            self._emptied_at = now
        begins = max(now, self._emptied_at - self._spare)
        self._emptied_at += self._every
        return begins - now
