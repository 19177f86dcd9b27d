"""Connections to a server that can be cut in the middle: nothing comes through, or whoever asks is turned away.

What was sent into a silent wire is not lost: it arrives once the wire is whole again, as TCP would send it again.
"""

import socket
import threading
from contextlib import suppress

AT_ONCE = 65536  # bytes


class Wire:
    """Passes connections to loopback's *port* on; listens on a port of its own, `port`."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._whole = threading.Event()
        self._whole.set()
        self._refuses = False
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def silence(self) -> None:
        """Let nothing through, in either direction; nobody is told."""
        self._whole.clear()

    def refuse(self) -> None:
        """End every connection, and each new one at once."""
        self._refuses = True
        for end in tuple(self._ends):
            _end(end)

    def mend(self) -> None:
        """Let everything through again."""
        self._refuses = False
        self._whole.set()

    def close(self) -> None:
        """End everything for good."""
        self.refuse()
        self._whole.set()
        _end(self._listener)

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._refuses:
                    _end(near)
                else:
                    threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to), 5)
        except OSError:
            _end(near)
            return
        far.settimeout(None)
        self._ends |= {near, far}
        threading.Thread(target=self._pass, args=(far, near), daemon=True).start()
        self._pass(near, far)

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while came := here.recv(AT_ONCE):
                self._whole.wait()
                there.sendall(came)
        for end in (here, there):
            self._ends.discard(end)
            _end(end)


def _end(end: socket.socket) -> None:
    """Close *end*, also for a thread that waits for something to come from there."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
