"""A thread that works until it is told to end."""

import threading


class Background(threading.Thread):
    """The base of the server's threads: `run` returns once `_stopping` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()

    def stop(self, timeout: float = 5.0) -> None:
        """End after what is under way; wait for that *timeout* seconds at most."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout)
