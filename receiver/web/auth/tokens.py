"""Bearer tokens, compared in constant time; wrong ones, counted by client; and host names that are ours."""

import hashlib
import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

# Around a header's value; of others, such as U+0085 and U+00A0, the last byte of a token may look like one.
BLANK = " \t"
REALM = 'Bearer realm="gpu-autoscaler"'


class Unauthorized(Exception):
    """The request carries no token that we know. *challenge* is the WWW-Authenticate header (RFC 6750)."""

    def __init__(self, detail: str, remedy: str, challenge: str = REALM) -> None:
        super().__init__(detail)
        self.remedy = remedy
        self.challenge = challenge


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAdvice:
    """What helps a refused client: when no token is set, none is sent, another scheme is used, or it is empty."""

    none_set: tuple[str, str]
    none_sent: str
    empty: str
    other: str
    other_scheme: str = "send 'Authorization: Bearer <token>'"


WEBHOOK = TokenAdvice(
    none_set=(
        "this server has no webhook token and takes no deliveries",
        "set GPU_AUTOSCALER_WEBHOOK_TOKEN for the server and the same token in Alertmanager's webhook_configs",
    ),
    none_sent="send 'Authorization: Bearer <token>': in Alertmanager http_config.authorization.credentials_file",
    other_scheme="use http_config.authorization with type Bearer (the default) in Alertmanager, not basic_auth",
    empty="check that Alertmanager's credentials_file exists in its container and holds the token",
    other="give both sides the same token; a Secret that changed needs a restart of the side that read it at start",
)
OPERATOR = TokenAdvice(
    none_set=(
        "this server has no operator token, so it accepts no changes",
        "set GPU_AUTOSCALER_OPERATOR_TOKEN for the server to a long random word, restart it, and send that word",
    ),
    none_sent="send 'Authorization: Bearer <token>' with the token that GPU_AUTOSCALER_OPERATOR_TOKEN holds",
    empty="check that GPU_AUTOSCALER_OPERATOR_TOKEN is set where you send from",
    other="send the token that the server has in GPU_AUTOSCALER_OPERATOR_TOKEN; the webhook's is another one",
)
READER = TokenAdvice(
    none_set=(
        "reading takes a token, and this server has none",
        "set GPU_AUTOSCALER_READER_TOKEN for the server to a long random word, and restart it",
    ),
    none_sent="send 'Authorization: Bearer <token>' with the reader's or the operator's token; the command "
    "line takes it from GPU_AUTOSCALER_READER_TOKEN or GPU_AUTOSCALER_OPERATOR_TOKEN, browsers log in at /login",
    empty="check that GPU_AUTOSCALER_READER_TOKEN is set where you send from",
    other="send the token that the server has in GPU_AUTOSCALER_READER_TOKEN or GPU_AUTOSCALER_OPERATOR_TOKEN",
)


def require_bearer(header: str | None, tokens: Sequence[str], advice: TokenAdvice = WEBHOOK) -> None:
    """Raise Unauthorized unless *header* (Authorization, as WSGI decoded it) holds one of *tokens*; it is never echoed,
    because people paste the token where the scheme belongs."""
    if not tokens:
        raise Unauthorized(*advice.none_set)
    if not header:
        raise Unauthorized("the Authorization header is missing", advice.none_sent)
    scheme, _, credentials = header.strip(BLANK).partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("the Authorization header has another scheme than Bearer", advice.other_scheme)
    # PEP 3333: header values are bytes decoded as latin-1.
    token_bytes = credentials.strip(BLANK).encode("latin-1", "replace")
    if not token_bytes:
        raise Unauthorized("the bearer token is empty", advice.empty)
    if not is_one_of(token_bytes, tokens):
        challenge = f'{REALM}, error="invalid_token"'
        raise Unauthorized("the bearer token is not the one this server knows", advice.other, challenge)


def is_one_of(token_bytes: bytes, tokens: Sequence[str]) -> bool:
    """True when *token_bytes* is one of *tokens*; the time taken tells neither which one was close nor how long."""
    # Digests: compare_digest returns sooner for another length, which would tell that of the token.
    sent_digest = hashlib.sha256(token_bytes).digest()
    digests = [hashlib.sha256(token.strip().encode()).digest() for token in tokens]
    return any([hmac.compare_digest(sent_digest, digest) for digest in digests])  # noqa: C419 (each is compared)


MOST_FAILURES = 10  # of one client's address within a minute
MINUTE = 60.0
ADDRESSES = 1000  # remembered; the oldest are forgotten first
NETWORK = 64  # bits: who has one IPv6 address has all of such a network


class Attempts:
    """Wrong tokens of the last minute by address. They cost a guesser its answers, never the owner of a right one."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failed: OrderedDict[str, list[tuple[float, bytes]]] = OrderedDict()
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)  # hashes of wrong tokens reveal nothing without it

    def wait(self, address: str) -> int:
        """Return the whole seconds until *address* may try another wrong token, 0 when it may now."""
        with self._lock:
            recent = self._recent(_network(address))
            return int(recent[-MOST_FAILURES][0] + MINUTE - self._now()) + 1 if len(recent) >= MOST_FAILURES else 0

    def failed(self, address: str, guess: str | None = None) -> int | None:
        """Note a failure of *address*; return how many it had within a minute, None for a *guess* made before."""
        network = _network(address)
        with self._lock:
            recent = self._recent(network)
            fingerprint = secrets.token_bytes(16)
            if guess is not None:
                fingerprint = hashlib.blake2b(
                    guess.encode("utf-8", "replace"), key=self._secret, digest_size=16
                ).digest()
            if any(fingerprint == before for _, before in recent):
                return None
            recent = [*recent, (self._now(), fingerprint)][-MOST_FAILURES:]
            self._failed[network] = recent
            self._failed.move_to_end(network)
            while len(self._failed) > ADDRESSES:
                self._failed.popitem(last=False)
            return len(recent)

    def _recent(self, network: str) -> list[tuple[float, bytes]]:
        since = self._now() - MINUTE
        return [entry for entry in self._failed.get(network, ()) if entry[0] > since]


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address in *text*, without its zone and, where it is an IPv4 one in IPv6, as IPv4; else None."""
    try:
        ip = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


Networks = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]
_WITH_PORT = re.compile(r"\[(?P<v6>[^]]+)\](:\d{1,5})?|(?P<v4>[\d.]+):\d{1,5}")


def is_in(address: str, networks: Networks) -> bool:
    """True when *address* is an IP address of one of *networks*."""
    ip = address_of(address)
    return ip is not None and any(ip in network for network in networks)


def client_address(peer: str, forwarded_for: str, proxies: Networks) -> str:
    """Return the address of the client behind *proxies*: the last one of *forwarded_for* (X-Forwarded-For) that is no
    proxy. Each proxy appends the address it saw, so only what a trusted one appended counts; *peer* is that of the
    connection."""
    address = peer
    for entry in reversed(forwarded_for.split(",")):
        if not is_in(address, proxies):
            break
        named = _WITH_PORT.fullmatch(entry.strip())
        before = address_of((named["v6"] or named["v4"]) if named else entry.strip())
        if before is None:
            break
        address = str(before)
    return address


def _network(address: str) -> str:
    """What one guesser has: an IPv4 address, or an IPv6 network."""
    ip = address_of(address)
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((ip, NETWORK), strict=False))
    return str(ip or address)


# Names of one word and below these are given inside a network and in no public zone (RFC 6761, RFC 6762, RFC 8375;
# .internal is reserved by ICANN; .svc is Kubernetes').
INSIDE = (".svc", ".local", ".localhost", ".internal", ".home.arpa")
_PORT = re.compile(r":\d{1,5}\Z")


def is_ours(host: str, public_url: str | None, names: Collection[str]) -> bool:
    """True when *host* (the header) is an address, a name inside a network, that of *public_url*, or of *names*."""
    name = _PORT.sub("", host).lower().rstrip(".")
    if not name or "." not in name or name.endswith(INSIDE) or name in names:
        return True
    public_host = urlsplit(public_url or "").hostname
    return name == public_host or address_of(name.strip("[]")) is not None
