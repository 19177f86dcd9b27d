"""Where a request ends, in however many pieces it arrives: found before it gets a thread (see `gunicorn_worker`)."""

import re

URGENT = (b"POST /webhook ", b"GET /healthz ", b"GET /readyz ")
END = b"\r\n\r\n"
MOST_DIGITS = 18  # of a length that is worth reading
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_LENGTHS = re.compile(rb"\r\ncontent-length[ \t]*:", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue", re.IGNORECASE)


class Arriving:
    """The bytes of one request so far. What they mean is left to gunicorn; this only finds the end."""

    def __init__(self, until: float) -> None:
        """Begin with nothing; *until* is when it is given up, in seconds of `monotonic`."""
        self.bytes = bytearray()
        self.until = until
        self._head = 0  # where the body begins; 0 while the head is incomplete
        self._needed: int | None = None  # bytes of head and body; None: chunked
        self._chunk = 0  # where the next chunk's size begins

    @property
    def head_complete(self) -> bool:
        """True once the empty line has come."""
        return self._head > 0

    @property
    def urgent(self) -> bool:
        """True for a delivery and for the kubelet's questions."""
        return self.bytes.startswith(URGENT)

    @property
    def wants_continue(self) -> bool:
        """True when the client waits for a word before it sends the body."""
        return self.head_complete and bool(_EXPECTS.search(self.bytes, 0, self._head))

    def complete(self, largest: int) -> bool:
        """True when all has come, or when it is for gunicorn to say what is wrong: it will not wait for more.

        A body said to be larger than *largest* bytes is not waited for: it is refused unread.
        """
        if not self._head:
            at = self.bytes.find(END)
            if at < 0:
                return False
            self._head = self._chunk = at + len(END)
            chunked = _CHUNKED.search(self.bytes, 0, self._head) is not None
            if len(_LENGTHS.findall(self.bytes, 0, self._head)) > (0 if chunked else 1):
                return True  # whoever says twice how long it is smuggles something: it is refused unread
            self._needed = None if chunked else self._head + self._length()
        if self._needed is None:
            return self._last_chunk_came()
        return len(self.bytes) >= self._needed or self._needed - self._head > largest

    def _length(self) -> int:
        found = _LENGTH.search(self.bytes, 0, self._head)
        digits = found[1].lstrip(b"0") if found else b""  # gunicorn counts them so, however many zeros there are
        return int(digits[:MOST_DIGITS] or b"0")  # cut short it is still larger than anything that is waited for

    def _last_chunk_came(self) -> bool:
        while True:
            end = self.bytes.find(b"\r\n", self._chunk)
            if end < 0:
                return False
            try:
                size = int(self.bytes[self._chunk : end].partition(b";")[0], 16)
            except ValueError:
                return True
            if size <= 0:
                return self.bytes.find(END, end) >= 0
            if len(self.bytes) < end + 2 + size + 2:
                return False
            self._chunk = end + 2 + size + 2
