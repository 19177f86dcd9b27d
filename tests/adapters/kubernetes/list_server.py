"""An API server of lists for tests that look hundreds of times: it keeps connections, and reads only the path."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[str], tuple[int, bytes]]


@contextmanager
def list_server(answer: Answer) -> Iterator[str]:
    """Serve what *answer* returns for each path, a status and JSON; yield the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, answer), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, answer: Answer) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, answer), daemon=True).start()


def _serve(connection: socket.socket, answer: Answer) -> None:
    with connection, suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while head := connection.recv(65536):
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            path = head.split(b" ", 2)[1].partition(b"?")[0].decode()
            status, body = answer(path)
            headers = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
            connection.sendall(f"HTTP/1.1 {status} \r\n{headers}\r\n\r\n".encode() + body)
