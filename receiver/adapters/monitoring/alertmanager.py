"""Alertmanager's API v2 at every peer, behind the port `Alarms`.

An alert fires, or is silenced, if it is at any peer. If a peer does not answer, nothing is known, because it may have a
silence that the others lack.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import requests

from receiver.adapters.clock import SystemClock
from receiver.adapters.http.sessions import ReadPause, json_of, moment, quick_session, retry_after, shown, wire_failure
from receiver.core.model.signals import COMPONENT, Alert, Matcher, Silence
from receiver.core.model.text import harmless
from receiver.ports import AlarmFacts, TryLater
from receiver.ports.alert_payload import LONGEST_TEXT

LONGEST = 1000  # characters of a pattern; people write a few dozen
MOST_WAYS = 300_000  # some milliseconds
REPEATED = 65  # ways of one repetition, such as .*, in a pool's id or name
MANY = MOST_WAYS + 1
ALERTS = "/api/v2/alerts"
SILENCES = "/api/v2/silences"
STATUS = "/api/v2/status"
OURS = {"filter": f'component="{COMPONENT}"', "active": "true", "silenced": "true", "inhibited": "true"}
WHY_ALL = "it may have a silence that the others lack"
_PARTS = re.compile(
    r"""(?P<class>\[\^?\]?(?:[^\]\\]|\\.)*\])      # a character class, which may begin with a bracket
    |(?P<flags>\(\?[ims]+\))
    |(?P<open>\((?:\?(?:[ims]*:|P<\w+>)|(?!\?)))   # a group; no other (?...) is evaluated
    |(?P<close>\))|(?P<or>\|)
    |(?P<maybe>\?)|(?P<repeat>[*+]|\{[^}]*\})
    |(?P<one>\\[^0-9]|[^()\\\[\]{}])               # no back reference""",
    re.VERBOSE | re.DOTALL,
)


def evaluable(pattern: str) -> bool:
    """Return whether Python can evaluate *pattern*, and in milliseconds for any pool name."""
    if len(pattern) > LONGEST or _ways(pattern) > MOST_WAYS:
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _ways(pattern: str) -> int:
    """Return an upper bound of the ways to match *pattern*; MANY for a repetition of something that varies. The ways
    of the parts of a sequence are multiplied, those of alternatives added."""
    before: list[tuple[int, int]] = []  # of the enclosing groups: ways of earlier alternatives, and of the current one
    earlier, so_far, last = 0, 1, 1  # the same of this group; *last* are those of the last part, included in *so_far*
    for kind in _kinds(pattern):
        match kind:
            case "open":
                before.append((earlier, so_far))
                earlier, so_far, last = 0, 1, 1
            case "close" if before:
                last = earlier + so_far
                earlier, around = before.pop()
                so_far = around * last
            case "or":
                earlier, so_far, last = earlier + so_far, 1, 1
            case "maybe":
                so_far, last = so_far // last * (last + 1), last + 1
            case "repeat" if last == 1:
                so_far, last = so_far * REPEATED, REPEATED
            case "one" | "class" | "flags":
                last = 1
            case _:  # a repetition of something that varies, an unmatched bracket, or unknown syntax
                return MANY
        if so_far > MOST_WAYS:
            return MANY
    return MANY if before else earlier + so_far


def _kinds(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        match = _PARTS.match(pattern, at)
        if match is None:
            yield ""
            return
        yield str(match.lastgroup)
        at = match.end()


class AlertmanagerAlarms:
    """Alerts and silences at the peers *urls*; *timeout* is seconds per request. Raises ValueError without a peer."""

    def __init__(self, urls: Sequence[str], timeout: float = 10, session: requests.Session | None = None) -> None:
        if not urls:
            raise ValueError("no Alertmanager URL was given")
        self._urls = tuple(url.strip().rstrip("/") for url in urls)
        self._timeout = timeout
        self._session = session or quick_session()
        self._pause, self._clock = ReadPause(), SystemClock()

    def __repr__(self) -> str:
        return f"AlertmanagerAlarms({[shown(url) for url in self._urls]})"

    def close(self) -> None:
        self._session.close()

    def look(self) -> AlarmFacts:
        """Return the autoscaler's firing alerts and the active silences. Inhibited alerts count as firing: the
        autoscaler itself decides between two signals and gives the reason. Silenced alerts are read too, because
        only they show that a peer silences them."""
        firing: dict[str, Alert] = {}
        silenced: set[str] = set()
        silences: dict[str, Silence] = {}
        starts = []
        for url in self._urls:
            for raw in self._get(url, ALERTS, OURS):
                alert = _alert(raw, url)
                firing.setdefault(alert.fingerprint, alert)
                if _status(raw).get("silencedBy"):
                    silenced.add(alert.fingerprint)
            for raw in self._get(url, SILENCES, {}):
                if _status(raw).get("state") == "active":
                    silence = _silence(raw, url)
                    silences.setdefault(silence.id, silence)
            starts.append(self._started_at(url))
        alerts = tuple(firing[f] for f in sorted(firing) if f not in silenced)
        started_at = max((at for at in starts if at is not None), default=None)
        return AlarmFacts(alerts=alerts, silences=tuple(silences[i] for i in sorted(silences)), started_at=started_at)

    def _started_at(self, url: str) -> datetime | None:
        """Return when the peer started; None where it does not say, as behind a proxy that lets few paths pass."""
        try:
            status = self._ask(url, STATUS, {})
        except TryLater:
            return None
        return moment(status.get("uptime")) if isinstance(status, dict) else None

    def _get(self, url: str, path: str, params: Mapping[str, str]) -> list[Mapping[str, Any]]:
        records = self._ask(url, path, params)
        if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
            raise _malformed(url, path)
        return records

    def _ask(self, url: str, path: str, params: Mapping[str, str]) -> object:
        self._pause.check(url + path)
        try:
            response = self._session.get(url + path, params=params, timeout=self._timeout, allow_redirects=False)
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(f"Alertmanager at {shown(url)}: {phrase}; {WHY_ALL}", code=code) from None
        if response.status_code != 200:
            detail = f"Alertmanager at {shown(url)} answered {path} with {response.status_code}; {WHY_ALL}"
            delay = retry_after(response.headers, self._clock.now())
            refusal = TryLater(detail, code=f"http_{response.status_code}", delay=delay)
            self._pause.begin(refusal, url + path)
            raise refusal
        return json_of(response)


def _alert(raw: Mapping[str, Any], url: str) -> Alert:
    starts_at, fingerprint = moment(raw.get("startsAt")), raw.get("fingerprint")
    if starts_at is None or not isinstance(fingerprint, str) or not isinstance(raw.get("labels"), dict):
        raise _malformed(url, "an alert")
    return Alert(
        fingerprint=fingerprint,
        labels=_words(raw["labels"]),
        starts_at=starts_at,
        annotations=_words(raw.get("annotations")),
    )


def _silence(raw: Mapping[str, Any], url: str) -> Silence:
    ends_at, number, matchers = moment(raw.get("endsAt")), raw.get("id"), raw.get("matchers")
    if ends_at is None or not isinstance(number, str) or not isinstance(matchers, list) or not matchers:
        raise _malformed(url, "a silence")
    if not all(isinstance(m, dict) and isinstance(m.get("name"), str) for m in matchers):
        raise _malformed(url, "a silence's matchers")
    return Silence(
        id=number,
        matchers=tuple(_matcher(m) for m in matchers),
        ends_at=ends_at,
        created_by=_text(raw.get("createdBy") or ""),
        comment=_text(raw.get("comment") or ""),
    )


def _matcher(raw: Mapping[str, Any]) -> Matcher:
    """Return one matcher. A regular expression that only Go can read, or that could take Python very long, counts as a
    match: the pool stays paused."""
    value, is_regex = str(raw.get("value") or ""), raw.get("isRegex") is True
    if is_regex and not evaluable(value):
        return Matcher(name=raw["name"], value=r"[\s\S]*", is_regex=True)
    return Matcher(name=raw["name"], value=value, is_regex=is_regex, is_equal=raw.get("isEqual") is not False)


def _status(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    status = raw.get("status")
    return status if isinstance(status, dict) else {}


def _words(value: object) -> dict[str, str]:
    return {_text(k): _text(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return harmless(str(value)[:LONGEST_TEXT])


def _malformed(url: str, what: str) -> TryLater:
    return TryLater(f"malformed answer of Alertmanager at {shown(url)}: {what}", code="malformed")
