"""A notice as people get it: what goes out as one message and when, where it leads, and the seal on its links."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile

from itsdangerous import BadSignature, Signer

from receiver.core.model.text import cut
from receiver.core.notices.notice import GUIDES, Cause, Notice, Severity
from receiver.core.notices.wording import moment


def _causes(names: str) -> frozenset[Cause]:
    return frozenset(Cause[name] for name in names.split())


# They start a time after which something is done to people's work: a message later leaves less of it.
GRACES = _causes("EVICTS IDLE_WARNED")
# There are as many topics of these as workloads.
OF_WORKLOADS = _causes(
    "MISFIT KEEP_UNTIL_IGNORED IDLE_TOLD IDLE_KEPT IDLE_STAYS IDLE_CANNOT IDLE_SHUT_DOWN IDLE_FAILED"
)
# What happened stays true. All other news say how something is, until the next of their topic says otherwise.
HAPPENED = _causes(
    "GREW SHRANK REMOVED_STUCK WITHDRAWN DRIFT BUDGET_CHANGED ANSWERED OVERRIDE_ENDED IDLE_SHUT_DOWN IDLE_FAILED"
    " CHARGES_DIFFER REPORT DIGEST CONFIGURATION_CHANGED"
)
STATES = frozenset(Cause) - HAPPENED
# Of these, the ones that every step says anew while they are true: nothing says that they are over.
SAID_EACH_STEP = _causes(
    "HELD MISFIT STUCK UNKNOWN MISDESCRIBED UNJOINED SLOW_TO_START CORDONED UNUSED KEEP_UNTIL_IGNORED"
)
OVER = "it was over before it was sent"  # why such a one was not
AT_MOST_EVERY = timedelta(minutes=5)
KINDS_LISTED = 5
OLD_AFTER = timedelta(minutes=1)  # a message that is read later than that must say of when it is


def group_of(notice: Notice) -> str:
    """Return the group of *notice*: those of one group go to the same people and may stand in one message.

    What asks something and what starts a grace is a group of its own, so it waits for nothing. A failure waits for
    failures of its cause alone.
    """
    if notice.question is not None:
        return f"question:{notice.question}"
    if notice.cause in GRACES:
        return f"{notice.cause}:{notice.topic}:{notice.key}"
    about = notice.pool or ("" if notice.cause in OF_WORKLOADS else notice.topic)
    failure = Severity.FAILURE.value if notice.severity is Severity.FAILURE else ""
    return f"{notice.cause}:{failure}:{notice.team or ''}:{about}"


def is_over(notice: Notice, followed_by: str | None) -> bool:
    """True when *notice* must not be sent any more: a newer one of its topic, of the cause *followed_by*, says that
    things are otherwise now. One of the same cause goes into one message with it."""
    return followed_by is not None and notice.cause in STATES and followed_by != notice.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A notice that a destination does not have yet, by its number in the outbox, where it has been since *at*."""

    number: int
    notice: Notice
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Notices of one group that are one message, oldest first."""

    parts: tuple[Waiting, ...]

    def as_one(self, now: datetime) -> Notice:
        """Return the newest with a line on the others, and of when it is where that is no longer *now*."""
        *others, newest = self.parts
        remarks = [_more(others, newest, now)] if others else []
        if now - newest.at >= OLD_AFTER:
            remarks.append(f"This message was created at {moment(newest.at, now)}.")
        room = LONGEST_BODY - sum(len(line) + 1 for line in remarks)  # the lines are never what is cut
        body = [cut(newest.notice.body, room)] if newest.notice.body else []
        return replace(newest.notice, body="\n".join([*body, *remarks]))


def goes_out(waiting: Sequence[Waiting], last: datetime | None, now: datetime, every: timedelta) -> Iterator[Bundle]:
    """Yield *waiting*, which is of one group, oldest first, as one message, unless the group went out at *last*, less
    than *every* ago. A time after *now* was stored under a clock ahead of this one and delays nothing."""
    if waiting and not (last is not None and last <= now < last + every):
        yield Bundle(parts=tuple(waiting))


def _more(others: Sequence[Waiting], newest: Waiting, now: datetime) -> str:
    """``And 11 more like it since 03:12 UTC: 3 -> 4 nodes (6 times), 4 -> 3 nodes (5 times).``"""
    *titles, last = [one.notice.title.split() for one in (*others, newest)]
    # What all titles begin with up to a colon, such as ``GPU pool l40s:``, need not be said again.
    alike = takewhile(lambda words: len(set(words)) == 1, zip(*titles, last, strict=False))
    head = max((n for n, words in enumerate(alike, start=1) if words[0].endswith(":")), default=0)
    kinds = Counter(" ".join(title[head:]) for title in titles)
    listed = [kind if count == 1 else f"{kind} ({count} times)" for kind, count in kinds.items()]
    end = ", ..." if len(listed) > KINDS_LISTED else "."
    same = kinds.keys() == {" ".join(last[head:])}
    news = "." if same else f": {', '.join(listed[:KINDS_LISTED])}{end}"
    return f"And {len(others)} more like it since {moment(others[0].at, now)}{news}"


LONGEST_TITLE = 100  # characters: what a lock screen shows
LONGEST_BODY = 1200  # without its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent, in parts: the *title*, enough for a lock screen, the sentences, and *links*, each a label with an
    address (or a command or path where no address is known). The other fields say what it is about; *pool* is a
    name, *source* the autoscaler that sends it. *id* and *at* are those of a single notice."""

    title: str
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()
    severity: Severity = Severity.INFO
    cause: str = "test"
    cluster: str = ""
    pool: str = ""
    team: str | None = None
    decision: int | None = None
    source: str = "/gpu-autoscaler"
    id: str = ""
    at: datetime | None = None

    @property
    def body(self) -> str:
        """Sentences and links as plain text."""
        return "\n".join([*([self.text] if self.text else []), *(f"{label}: {where}" for label, where in self.links)])


SALT = "gpu-autoscaler answer to a question"
ANSWER = "Approve, postpone or reject"


class Seal:
    """Signs the ids of questions with the random *key* of the store and the operator's *token*: another token, other
    links. The token alone would let every reader of a message try guesses of it."""

    def __init__(self, token: str, key: str) -> None:
        self._signer = Signer(f"{key}.{token}", salt=SALT, key_derivation="hmac", digest_method=hashlib.sha256)

    def sign(self, question: str) -> str:
        """Return the id *question* with its signature, to stand in an address."""
        return self._signer.sign(question).decode()

    def read(self, signed: str) -> str | None:
        """Return the id that was *signed*; None for what this key did not sign."""
        try:
            return self._signer.unsign(signed.encode("utf-8", "replace")).decode()
        except (BadSignature, UnicodeDecodeError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLinks:
    """Where messages link to, below the two addresses of the configuration, which do not end with a slash, and the
    *cluster_name* that they begin with; *pool_names* are by id. *seal* gives what signs now: the operator's token may
    change while the program runs."""

    cluster_name: str = ""
    public_url: str | None = None
    docs_url: str | None = None
    pool_names: Mapping[str, str] = field(default_factory=dict)
    seal: Callable[[], Seal | None] = field(default=lambda: None, repr=False)

    def decision(self, number: int) -> str | None:
        """Return the address of the decision's page, None without ``public_url``."""
        return f"{self.public_url}/decisions/{number}" if self.public_url else None

    def guide(self, path: str) -> str | None:
        """Return the address of the page *path* of the documentation, None without ``docs_url``."""
        return f"{self.docs_url}/{path}" if self.docs_url else None

    def answers(self, question: str) -> Sequence[tuple[str, str]]:
        """Return the one page where the choices are; empty without ``public_url`` or a seal: an unsigned link must not
        act."""
        seal = self.seal()
        if not self.public_url or seal is None:
            return ()
        return ((ANSWER, f"{self.public_url}/answer/{seal.sign(question)}"),)


def compose(notice: Notice, links: PageLinks) -> Message:
    """Return *notice*, within one screen, with its answers and where to read on: without an address, the command and
    the file."""
    answer_links = list(links.answers(notice.question)) if notice.question is not None else []
    if notice.decision is not None:
        where = links.decision(notice.decision) or f"gpu-autoscaler explain decision {notice.decision}"
        answer_links.append((f"Decision {notice.decision}", where))
    guide = notice.guide or GUIDES.get(notice.cause)
    if guide:
        answer_links.append(("What to do", links.guide(guide) or f"docs/{guide}"))
    cluster = f"[{links.cluster_name}] " if links.cluster_name else ""
    return Message(
        title=cut(f"{cluster}{notice.title}", LONGEST_TITLE),
        text=cut(notice.body, LONGEST_BODY),
        links=tuple(answer_links),
        severity=notice.severity,
        cause=notice.cause,
        cluster=links.cluster_name,
        pool=links.pool_names.get(notice.pool or "", notice.pool or ""),
        team=notice.team,
        decision=notice.decision,
        source=links.public_url or "/".join(["/gpu-autoscaler", *([links.cluster_name] if links.cluster_name else [])]),
    )
