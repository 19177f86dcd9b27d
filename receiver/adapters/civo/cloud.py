"""Civo's Kubernetes API behind the ports `Cloud`, `Sizes` and `Accounts`.

Never lowers a count, never PUTs the cluster, never sends a write twice, and keeps the key and the responses (they
carry passwords and a kubeconfig) out of every message.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import requests
import structlog
from urllib3 import Timeout

from receiver.adapters.civo.answers import (
    GONE,
    charges_of,
    cloud_pools,
    machines_of,
    malformed,
    pool_facts_of,
    refusal,
    required_pools,
)
from receiver.adapters.clock import SystemClock
from receiver.adapters.http.sessions import (
    Bearer,
    Calls,
    ReadPause,
    mount_last_word,
    quick_session,
    retry_after,
    shown,
    wire_failure,
    without,
)
from receiver.core.model.charges import distinct, windows
from receiver.core.model.pool_facts import PoolFacts
from receiver.core.model.text import some
from receiver.ports import Charges, CloudPool, Did, Receipt, TryLater, WontWork

TOO_MANY = 429  # requests, of any kind
SIZES_TIMEOUTS = (3, 5)  # seconds: the rest of the step waits meanwhile, and can do without the response
SIZES_READ_AGAIN = timedelta(hours=6)
SIZES_RETRIED = timedelta(minutes=10)
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # an id must not be able to change the path it stands in

log = structlog.get_logger("receiver")


class KnownSizes:
    """Caches what *ask* (``GET /v2/sizes``) answered last. Sizes do not change, so it is called rarely; a failed call,
    or a response that omits a size, leaves what is known."""

    def __init__(self, ask: Callable[[], object], now: Callable[[], datetime]) -> None:
        self._ask, self._now = ask, now
        self._due: datetime | None = None
        self._known: Mapping[str, Mapping[str, int]] = {}

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        now = self._now()
        if self._due is not None and now < self._due:
            return self._known
        self._due = now + SIZES_RETRIED
        try:
            machines = machines_of(self._ask())
        except (TryLater, WontWork) as error:
            detail = "pods are matched by what existing nodes show, and by GPUs alone where there are none"
            log.warning("sizes unknown", error=str(error), detail=detail)
            return self._known
        self._known, self._due = {**self._known, **machines}, now + SIZES_READ_AGAIN
        return self._known


class CivoCloud:
    """The node pools of one Civo cluster, and the account's sizes and charges.

    *api_key* is the key, or a function that returns the currently valid one; *timeouts* are those of *calls* where that
    is left out. The reads while a pool is changed have the time limit of a write, too. A write that timed out may still
    take effect.

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
        calls: Calls | None = None,
    ) -> None:
        calls = calls or Calls(timeouts=timeouts)
        self.region = region
        self.cluster_id = cluster_id.strip()
        if not IDENTIFIER.fullmatch(self.cluster_id):
            raise ValueError("CIVO_CLUSTER_ID is empty or contains characters that are invalid in an id")
        self._cluster_path = f"/v2/kubernetes/clusters/{self.cluster_id}"
        self._url = api_url.strip().rstrip("/")
        self._key: Callable[[], str] = (lambda: api_key) if isinstance(api_key, str) else api_key
        if not re.fullmatch(r"[!-~]+", self._key().strip()):
            raise ValueError("CIVO_API_KEY is empty or contains characters that are invalid in a key")
        self._session = session or quick_session()
        if session is None and calls.last_word is not None:
            mount_last_word(self._session, calls.last_word)
        self._calls = calls
        self._briefly = Timeout(connect=calls.timeouts[0], read=calls.timeouts[1], total=calls.write_seconds)
        self._pause = ReadPause()
        self._clock = SystemClock()
        self._sizes = KnownSizes(
            lambda: self._send("GET", "/v2/sizes", "list the sizes", timeouts=SIZES_TIMEOUTS), self._clock.now
        )

    def __repr__(self) -> str:
        return f"CivoCloud({shown(self._url)!r}, region={self.region!r}, cluster_id={self.cluster_id!r})"

    @property
    def cluster(self) -> str:
        """The cluster among all of Civo's."""
        return f"{self.region}/{self.cluster_id}"

    def close(self) -> None:
        self._session.close()

    def look(self) -> dict[str, CloudPool]:
        """Return every pool of the cluster by id, those at zero nodes included."""
        return dict(self._pools(self._cluster()))

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Request *target* nodes unless the count is there already or has changed; see `Cloud.resize`."""
        path = self._pool_path(pool)
        cluster = self._cluster(self._briefly)
        required = self._required(cluster, pool)
        if shown is not None and decided_on < required <= shown:
            sentence = f"Civo still counts removed nodes ({required} instead of {decided_on}); nothing was sent"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        outdated = required == shown  # our last growth does not show yet
        if required >= target:
            sentence = f"the pool's count at Civo is already {required}, {target} wanted; nothing was sent"
            return Receipt(did=Did.ALREADY, sentence=sentence, required=required)
        if required != decided_on and not outdated:
            sentence = f"the pool's count at Civo is {required}, the decision assumed {decided_on}; nothing was sent"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        civo_pool = self._pools(cluster, self._briefly).get(pool)  # what Civo lists, whatever its count says
        if civo_pool is not None and civo_pool.unreadable:
            raise malformed(f"pool {pool}: {civo_pool.unreadable}")
        alive = sum(i.status != "DELETING" for i in civo_pool.instances) if civo_pool else 0
        if alive > target:
            sentence = f"{some(alive, 'node')} exist, more than the {target} wanted; nothing was sent"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        body = {"count": target, "region": self.region}
        self._send("PUT", path, f"resize pool {pool} to {some(target, 'node')}", body, timeouts=self._briefly)
        sentence = f"requested {some(target, 'node')} from Civo instead of {required}"
        try:
            after = self._required(self._cluster(self._briefly), pool)
        except (TryLater, WontWork) as error:
            return Receipt(did=Did.DONE, sentence=f"{sentence}; cannot read the count back: {error}")
        if after != target:
            sentence += f"; Civo's count now reads {after}"
        return Receipt(did=Did.DONE, sentence=sentence, required=after)

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one named instance; Civo lowers the required count by itself."""
        path = f"{self._pool_path(pool)}/instances/{_identifier(instance, 'the instance id')}"
        try:
            self._send("DELETE", path, f"delete instance {instance}", timeouts=self._briefly)
        except WontWork as error:
            if error.code in GONE or (error.code == "http_404" and self._is_gone(instance)):
                return Receipt(did=Did.ALREADY, sentence=f"instance {instance} is already gone")
            raise
        return Receipt(did=Did.DONE, sentence=f"requested the deletion of instance {instance} from Civo")

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return the charges of the whole account, of every region; a record that two windows show counts once."""
        batches: list[Charges] = []
        for begin, end in windows(frm, to):
            query = {"from": _stamp(begin), "to": _stamp(end)}
            batches.append(charges_of(self._send("GET", "/v2/charges", "list the charges", query=query)))
        records = distinct(charges.records for charges in batches)
        return Charges(records=records, unreadable=tuple(u for charges in batches for u in charges.unreadable))

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        return self._sizes.machines()

    def pool_facts(self) -> PoolFacts:
        """Return what a configuration may leave out of its pools. Raises TryLater and WontWork."""
        facts = pool_facts_of(self._cluster(), self._send("GET", "/v2/sizes", "list the sizes"))
        return replace(facts, cluster=self.cluster)

    def _pool_path(self, pool: str) -> str:
        return f"{self._cluster_path}/pools/{_identifier(pool, 'the pool id')}"

    def _cluster(self, timeouts: Timeout | None = None) -> object:
        return self._send("GET", self._cluster_path, "get the cluster", timeouts=timeouts)

    def _required(self, cluster: object, pool: str) -> int:
        wanted = required_pools(cluster).get(pool)
        if wanted is None:
            detail = f"the cluster {self.cluster_id} has no pool {pool}: check civo_pool_id in the configuration"
            raise WontWork(detail, code="database_cluster_pool_not_found")
        if wanted.count is None:
            raise malformed(f"the count of pool {pool}")
        return wanted.count

    def _is_gone(self, instance: str) -> bool:
        """A 404 without Civo's code may come from a wrong URL too: the instance is gone if the pools do not list it."""
        pools = self._pools(self._cluster(self._briefly), self._briefly)
        listed = {i.id for pool in pools.values() for i in pool.instances}
        return instance not in listed and not any(pool.unreadable for pool in pools.values())

    def _pools(self, cluster: object, timeouts: Timeout | None = None) -> Mapping[str, CloudPool]:
        path = f"{self._cluster_path}/instances"
        listing = partial(self._send, "GET", path, "list the instances", timeouts=timeouts)
        return cloud_pools(cluster, listing, self._clock.now())

    def _send(
        self,
        method: str,
        path: str,
        doing: str,
        body: dict[str, object] | None = None,
        query: Mapping[str, str] | None = None,
        timeouts: tuple[float, float] | Timeout | None = None,
    ) -> object:
        """Send one request and return its decoded response; without a *query* it names the region. Errors are raised
        ``from None``: those of requests and json hold the key and the response's text. Nothing is read before the time
        that Civo named is over."""
        if method == "GET":
            self._pause.check()
        if method != "GET":
            self._calls.before_write()
        began, outcome, key = monotonic(), "try_later", self._key().strip()
        limit: Any = timeouts or self._calls.timeouts  # the stubs of requests omit Timeout
        try:
            response = self._session.request(
                method,
                self._url + path,
                params={"region": self.region} if query is None else dict(query),
                json=body,
                headers={"Accept": "application/json", "Content-Type": "application/json"},
                auth=Bearer(key, "bearer"),
                timeout=limit,
                allow_redirects=False,
            )
            try:
                decoded: object = without(key, response.json())
            except (ValueError, RecursionError):
                decoded = None
            if response.status_code >= 300:
                error = refusal(response.status_code, decoded, doing, retry_after(response.headers, self._clock.now()))
                if isinstance(error, TryLater) and (method == "GET" or response.status_code == TOO_MANY):
                    self._pause.begin(error)
                raise error
            if decoded is None and not (method == "DELETE" and not response.content):
                detail = f"Civo answered the request to {doing} with {response.status_code} and no readable JSON"
                raise TryLater(detail, code="malformed")
            outcome = "ok"
            return decoded
        except (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema, requests.exceptions.InvalidSchema):
            outcome = "wont_work"
            raise WontWork(f"CIVO_API_URL {shown(self._url)} is not a usable URL", code="bad_url") from None
        except WontWork:
            outcome = "wont_work"
            raise
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            detail = f"the request to Civo at {shown(self._url)} to {doing} failed: {phrase}"
            raise TryLater(detail, code=code) from None
        finally:
            self._calls.ended(method, outcome, monotonic() - began)


def _identifier(text: str, what: str) -> str:
    """Return *text* if it can stand in a path. Raises WontWork otherwise."""
    if not IDENTIFIER.fullmatch(text):
        raise WontWork(f"{what} is empty or contains characters that are invalid in an id", code="bad_id")
    return text


def _stamp(at: datetime) -> str:
    """Return *at* (UTC) as Civo takes it: with a Z, because the plus sign of an offset is lost in a query."""
    return at.replace(microsecond=0).isoformat().replace("+00:00", "Z")
