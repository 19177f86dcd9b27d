"""Who guesses tokens waits: wrong ones are counted by address, in this process.

Nobody waits in a thread, and no address stops another one. A program that goes on with a token of yesterday sends the
same wrong word again and again: that is one guess, so it does not lock out the people behind the same proxy.
"""

import hashlib
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

MOST_FAILURES = 10  # of one address within a minute
MINUTE = 60.0
ADDRESSES = 1000  # remembered; the oldest are forgotten first
NETWORK = 64  # bits: who has one IPv6 address has all of such a network


class Attempts:
    """Failed attempts of the last minute by address."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failed: OrderedDict[str, list[tuple[float, bytes]]] = OrderedDict()
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)  # what is remembered of a wrong token says nothing without it

    def wait(self, address: str) -> int:
        """Return the whole seconds until *address* may try again, 0 when it may now."""
        with self._lock:
            recent = self._recent(_network(address))
            return int(recent[-MOST_FAILURES][0] + MINUTE - self._now()) + 1 if len(recent) >= MOST_FAILURES else 0

    def failed(self, address: str, guess: str | None = None) -> int | None:
        """Note a failure of *address*; return how many it had within a minute.

        With a *guess* the same one counts once; then None is returned for it, as there is nothing new.
        """
        network = _network(address)
        with self._lock:
            recent = self._recent(network)
            said = secrets.token_bytes(16) if guess is None else self._digest(guess)
            if any(said == before for _, before in recent):
                return None
            recent = [*recent, (self._now(), said)][-MOST_FAILURES:]
            self._failed[network] = recent
            self._failed.move_to_end(network)
            while len(self._failed) > ADDRESSES:
                self._failed.popitem(last=False)
            return len(recent)

    def _recent(self, network: str) -> list[tuple[float, bytes]]:
        since = self._now() - MINUTE
        return [entry for entry in self._failed.get(network, ()) if entry[0] > since]

    def _digest(self, guess: str) -> bytes:
        return hashlib.blake2b(guess.encode("utf-8", "replace"), key=self._secret, digest_size=16).digest()


def _network(address: str) -> str:
    """What one guesser has: an IPv4 address, or an IPv6 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, NETWORK), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)
