"""What tells that pods need capacity, before anybody looks: a wake-up and never evidence."""

from collections.abc import Callable
from typing import Protocol


class DemandWatch(Protocol):
    """A connection that stays open. Whoever hears of a pod looks at everything anew."""

    def follow(self, stands: Callable[[], None], found: Callable[[], None]) -> None:
        """Call *stands* when the connection is there and *found* whenever a pod is found to need a node; return when
        it has ended in good order. Called again it goes on where it was.

        Raises TryLater when it broke or is refused for now, WontWork when it will not come by itself.
        """

    def close(self) -> None:
        """End `follow` from another thread, for good."""
