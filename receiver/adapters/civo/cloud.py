"""Civo's Kubernetes API behind the port `Cloud`.

Promises never to lower a count, never to PUT the cluster, never to send a write twice, and to keep the key
and the answers (they carry passwords and a kubeconfig) out of every message.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import datetime
from time import monotonic
from typing import NoReturn

import requests
from requests.auth import AuthBase

from receiver.adapters.civo.charges import charges_of, stamp
from receiver.adapters.civo.documents import cloud_pools, required_pools
from receiver.adapters.civo.errors import GONE, refusal
from receiver.adapters.civo.sizes import KnownSizes
from receiver.adapters.clock import SystemClock
from receiver.adapters.http.last_word import LastWord
from receiver.adapters.http.sessions import quick_retry, quick_session, retry_after, shown, wire_failure, without
from receiver.core.model.charges import distinct, windows
from receiver.ports import Charges, CloudPool, Did, Receipt, TryLater, WontWork

SIZES_TIMEOUTS = (3, 5)  # seconds: everything else in a step waits meanwhile, and an answer is not needed
WRITES_WAIT_SECONDS = 10.0  # for each answer while a pool is changed: all other pools wait as long
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # an id must not be able to change the path it stands in


class _Bearer(AuthBase):
    """Sets the key as an auth hook: that outranks ~/.netrc, and the session itself holds no key."""

    __slots__ = ("_key",)

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"bearer {self._key}"
        return request


class CivoCloud:
    """The node pools of one Civo cluster.

    *api_key* is the key, or what gives the one that is valid now. *timeouts* are (connect, read) seconds; while a pool
    is changed each call is given *writes_wait* seconds to answer at most. What was sent may take effect all the same.
    *before_write* is called right before each PUT and DELETE, after
    the reads that precede it, which may have taken long; what it raises stops the write and is passed on.
    *last_word* is called again in the instant in which its bytes leave, and must return at once.
    *ended* is told of each call: method, outcome (``ok``, ``try_later`` or ``wont_work``), seconds.
    Raises ValueError for a key or id that cannot be sent.
    """

    def __init__(
        self,
        api_url: str,
        api_key: str | Callable[[], str],
        region: str,
        cluster_id: str,
        session: requests.Session | None = None,
        timeouts: tuple[float, float] = (5, 30),
        before_write: Callable[[], None] | None = None,
        last_word: Callable[[], None] | None = None,
        ended: Callable[[str, str, float], None] | None = None,
        writes_wait: float = WRITES_WAIT_SECONDS,
    ) -> None:
        self.region = region
        self.cluster_id = cluster_id.strip()
        if not IDENTIFIER.fullmatch(self.cluster_id):
            raise ValueError("CIVO_CLUSTER_ID is empty or holds characters that no id has")
        self._url = api_url.strip().rstrip("/")
        self._key: Callable[[], str] = (lambda: api_key) if isinstance(api_key, str) else api_key
        if not re.fullmatch(r"[!-~]+", self._key().strip()):
            raise ValueError("CIVO_API_KEY is empty or holds characters that no key has")
        self._session = session or quick_session()
        self._last_word = LastWord(last_word or (lambda: None))
        if session is None and last_word is not None:
            self._last_word.mount(self._session, quick_retry())
        self._timeouts = timeouts
        self._briefly = (timeouts[0], min(timeouts[1], writes_wait))
        self._before_write = before_write
        self._ended = ended
        self._clock = SystemClock()
        self._sizes = KnownSizes(self._list_sizes, self._now)

    def __repr__(self) -> str:
        return f"CivoCloud({shown(self._url)!r}, region={self.region!r}, cluster_id={self.cluster_id!r})"

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def ping(self) -> None:
        """Raise TryLater or WontWork unless URL, key, region and cluster id work together."""
        required_pools(self._cluster())

    def look(self) -> dict[str, CloudPool]:
        """Return every pool of the cluster by id, those at zero nodes included."""
        return dict(self._pools())

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Ask for *target* nodes unless Civo is there already or moved on; see `Cloud.resize`."""
        path = f"{self._cluster_path}/pools/{_identifier(pool, 'the pool id')}"
        cluster = self._cluster(self._briefly)
        required = self._required_in(cluster, pool)
        late = required == shown and required <= target
        if required >= target and not late:
            sentence = f"Civo is asked for {required} nodes already, {target} were wanted; nothing was sent"
            return Receipt(did=Did.ALREADY, sentence=sentence, required=required)
        if required != decided_on and not late:
            sentence = f"Civo is asked for {required} nodes, the decision was made on {decided_on}; nothing was sent"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        alive = self._alive(cluster, pool)
        if alive > target:
            sentence = f"{alive} nodes exist, more than the {target} to ask for; nothing was sent"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        body = {"count": target, "region": self.region}
        self._send("PUT", path, f"take the request for {target} nodes in pool {pool}", body, timeouts=self._briefly)
        try:
            after = self._required(pool)
        except (TryLater, WontWork) as error:
            sentence = f"asked Civo for {target} nodes instead of {required}; the count could not be read back: {error}"
            return Receipt(did=Did.DONE, sentence=sentence)
        sentence = f"asked Civo for {target} nodes instead of {required}"
        if after != target:
            sentence += f"; Civo's count now reads {after}"
        return Receipt(did=Did.DONE, sentence=sentence, required=after)

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one named instance; Civo lowers the required count by itself."""
        pool_id, instance_id = _identifier(pool, "the pool id"), _identifier(instance, "the instance id")
        path = f"{self._cluster_path}/pools/{pool_id}/instances/{instance_id}"
        try:
            self._send("DELETE", path, f"delete instance {instance}", timeouts=self._briefly)
        except WontWork as error:
            if error.code in GONE or (error.code == "http_404" and self._is_gone(instance)):
                return Receipt(did=Did.ALREADY, sentence=f"instance {instance} is gone already")
            raise
        return Receipt(did=Did.DONE, sentence=f"asked Civo to delete instance {instance}")

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return the charges of the whole account, of every region; a record that two windows show counts once."""
        found: list[Charges] = []
        for begin, end in windows(frm, to):
            query = {"from": stamp(begin), "to": stamp(end)}
            found.append(charges_of(self._send("GET", "/v2/charges", "list the charges", query=query)))
        records = distinct(charges.records for charges in found)
        return Charges(records=records, unreadable=tuple(u for charges in found for u in charges.unreadable))

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return what the machine of each size has, by the size's name; see `receiver.ports.Sizes`."""
        return self._sizes.machines()

    def _list_sizes(self) -> object:
        return self._send("GET", "/v2/sizes", "list the sizes", timeouts=SIZES_TIMEOUTS)

    @property
    def _cluster_path(self) -> str:
        return f"/v2/kubernetes/clusters/{self.cluster_id}"

    def _cluster(self, timeouts: tuple[float, float] | None = None) -> object:
        return self._send("GET", self._cluster_path, "show the cluster", timeouts=timeouts)

    def _required(self, pool: str) -> int:
        return self._required_in(self._cluster(self._briefly), pool)

    def _required_in(self, cluster: object, pool: str) -> int:
        wanted = required_pools(cluster).get(pool)
        if wanted is None:
            detail = f"the cluster {self.cluster_id} has no pool {pool}: check civo_pool_id in the configuration"
            raise WontWork(detail, code="database_cluster_pool_not_found")
        return wanted.count

    def _alive(self, cluster: object, pool: str) -> int:
        """How many instances of *pool* Civo lists that are not being deleted, whatever its count says."""
        found = cloud_pools(cluster, lambda: self._instances(self._briefly), self._now()).get(pool)
        return sum(i.status != "DELETING" for i in found.instances) if found else 0

    def _is_gone(self, instance: str) -> bool:
        """A 404 without Civo's code may come from a wrong URL too: the instance is gone if the pools do not list it."""
        return all(instance != i.id for p in self._pools(self._briefly).values() for i in p.instances)

    def _pools(self, timeouts: tuple[float, float] | None = None) -> Mapping[str, CloudPool]:
        return cloud_pools(self._cluster(timeouts), lambda: self._instances(timeouts), self._now())

    def _instances(self, timeouts: tuple[float, float] | None) -> object:
        return self._send("GET", f"{self._cluster_path}/instances", "list the instances", timeouts=timeouts)

    def _send(
        self,
        method: str,
        path: str,
        doing: str,
        body: dict[str, object] | None = None,
        query: Mapping[str, str] | None = None,
        timeouts: tuple[float, float] | None = None,
    ) -> object:
        """Send one request and return its decoded answer. Without a *query* the region is asked for.

        Errors are raised ``from None``: those of requests and json hold the request's key and the answer's text.
        """
        if method != "GET" and self._before_write is not None:
            self._before_write()
        began, outcome = monotonic(), "try_later"
        try:
            with self._last_word.guarding() if method != "GET" else nullcontext():
                answer = self._asked(method, path, doing, body, query, timeouts or self._timeouts)
            outcome = "ok"
            return answer
        except WontWork:
            outcome = "wont_work"
            raise
        finally:
            if self._ended is not None:
                self._ended(method, outcome, monotonic() - began)

    def _asked(
        self,
        method: str,
        path: str,
        doing: str,
        body: dict[str, object] | None,
        query: Mapping[str, str] | None,
        timeouts: tuple[float, float],
    ) -> object:
        key = self._key().strip()
        try:
            response = self._session.request(
                method,
                self._url + path,
                params={"region": self.region} if query is None else dict(query),
                json=body,
                headers={"Accept": "application/json", "Content-Type": "application/json"},
                auth=_Bearer(key),
                timeout=timeouts,
                allow_redirects=False,
            )
        except (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema, requests.exceptions.InvalidSchema):
            raise WontWork(f"CIVO_API_URL {shown(self._url)} is no URL that works", code="bad_url") from None
        except (requests.RequestException, OSError, ValueError) as error:
            self._fail(error, doing)
        return self._decoded(response, method, doing, key)

    def _decoded(self, response: requests.Response, method: str, doing: str, key: str) -> object:
        try:
            decoded: object = without(key, response.json())
        except (ValueError, RecursionError):
            decoded = None
        if response.status_code >= 300:
            delay = retry_after(response.headers, self._now())
            raise refusal(response.status_code, decoded, doing, delay)
        if decoded is None and not (method == "DELETE" and not response.content):
            detail = f"Civo was asked to {doing} and answered {response.status_code} without readable JSON"
            raise TryLater(detail, code="malformed")
        return decoded

    def _fail(self, error: Exception, doing: str) -> NoReturn:
        code, phrase = wire_failure(error)
        raise TryLater(f"Civo at {shown(self._url)} was asked to {doing}: {phrase}", code=code) from None

    def _now(self) -> datetime:
        return self._clock.now()


def _identifier(text: str, what: str) -> str:
    """Return *text* if it can stand in a path. Raises WontWork otherwise."""
    if not IDENTIFIER.fullmatch(text):
        raise WontWork(f"{what} is empty or holds characters that no id has", code="bad_id")
    return text
