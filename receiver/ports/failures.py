"""The two ways in which a port can fail, and the one in which we stop using them."""

from datetime import timedelta


class TryLater(Exception):
    """It did not work now and may work later. *delay* is how long to wait at least, when the other side said so.

    *code* is a short word for metrics and messages (``timeout``, ``http_503``, Civo's error ``code``).
    """

    def __init__(self, detail: str, *, code: str = "unavailable", delay: timedelta | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.delay = delay


class WontWork(Exception):
    """It will not work until a person or the world changes something; *code* as in TryLater."""

    def __init__(self, detail: str, *, code: str = "refused") -> None:
        super().__init__(detail)
        self.code = code


class WriterLostError(Exception):
    """We are no longer the one writer, or may cease to be before a call could end: nothing may be written outside."""
