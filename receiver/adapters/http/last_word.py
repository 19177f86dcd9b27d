"""A look at the clock in the instant in which a request's bytes leave.

Whether a write may be made is asked before it, and then a process can still be frozen: for a fraction of a second by a
busy machine, for minutes by a hypervisor. What is asked here must cost nothing and wait for nobody.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.retry import Retry


class LastWord:
    """Calls *check* right before bytes of a guarded request leave; what it raises keeps them here.

    The other side then has half a request at most, which is none. Requests through a proxy are not looked at.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._thread = threading.local()

    def mount(self, session: requests.Session, retries: Retry) -> None:
        """Let *session* send what it sends through this, with the policy *retries*."""
        for prefix in ("http://", "https://"):
            session.mount(prefix, _Adapter(self._say, max_retries=retries))

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Guard what this thread sends within."""
        self._thread.guards = True
        try:
            yield
        finally:
            self._thread.guards = False

    def _say(self) -> None:
        if getattr(self._thread, "guards", False):
            self._check()


class _Adapter(HTTPAdapter):
    """Opens connections that call *say* before each send."""

    def __init__(self, say: Callable[[], None], **options: Any) -> None:
        self._say = say
        super().__init__(**options)

    def init_poolmanager(self, *given: Any, **options: Any) -> None:
        super().init_poolmanager(*given, **options)
        self.poolmanager.pool_classes_by_scheme = _pools(self._say)


def _pools(say: Callable[[], None]) -> dict[str, type[HTTPConnectionPool]]:
    class Plain(HTTPConnection):
        def send(self, data: Any) -> None:
            say()
            super().send(data)

    class Secure(HTTPSConnection):
        def send(self, data: Any) -> None:
            say()
            super().send(data)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
