"""Where messages go, through Apprise. Destination URLs hold secrets: they appear in no log and no error."""

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

import apprise

from receiver.core.model.text import harmless
from receiver.core.notices.grouping import Message
from receiver.core.notices.notice import Severity

ERROR_LENGTH = 300
HIDE_FROM = 5  # characters: shorter parts of a destination are words like "bot", not secrets

# A zero-width space after the sign: the text reads the same, mentions no one, and cannot hide a link.
_MENTIONS = (
    (re.compile(r"@(?=(?:channel|here|everyone|all|room|group|team)\b)", re.IGNORECASE), "@\u200b"),
    (re.compile(r"(?<![A-Za-z0-9_])@(?=\w)"), "@\u200b"),  # @alice, also after a dot, but no mail address
    (re.compile(r"<(?=[!@#]|[a-z][a-z0-9+.-]*:)", re.IGNORECASE), "<\u200b"),  # <!channel>, <@user>, <https://...|text>
    (re.compile(r"\](?=[(\[:])"), "]\u200b"),  # [text](https://...), ![picture](...), [text][1], [1]: https://...
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One destination: its *digest*, its name without secrets, and what Apprise made of its URL (None: nothing)."""

    digest: str
    name: str
    url: str = field(repr=False)
    service: Any = field(repr=False)

    def send(self, message: Message, severity: Severity) -> str:
        """Deliver *message*; return an error without secrets, or nothing when it was taken."""
        if self.service is None:
            return f"{self.name}: Apprise does not understand its URL"
        try:
            capture = apprise.LogCapture(level=logging.WARNING, fmt="%(message)s")  # type: ignore[no-untyped-call]  # its __init__ has no annotations
            with capture as said:
                taken = self.service.notify(
                    title=disarm(message.title),
                    body=disarm(message.body),
                    notify_type=severity.value,
                    body_format=apprise.NotifyFormat.TEXT,
                )
                detail = said.getvalue()
        except Exception as error:  # noqa: BLE001 (a hundred plugins by others: none may end a delivery)
            return f"{self.name}: {type(error).__name__}"
        if taken:
            return ""
        return hide(f"{self.name}: {' '.join(detail.split()) or 'not taken'}", self.url)[:ERROR_LENGTH]


def opened(urls: Sequence[str], whose: str = "") -> tuple[Destination, ...]:
    """Return the destinations behind *urls*, one that is named twice once; *whose* stands before their names."""
    found = [
        Destination(digest=digest(url), name=whose + _name(number, url), url=url, service=_service(url))
        for number, url in enumerate(urls, start=1)
        if url not in urls[: number - 1]
    ]
    return tuple(found)


def check_destinations(urls: Sequence[str]) -> list[str]:
    """Return a sentence for each of *urls* that Apprise does not understand, without its secret part."""
    keep_secrets_out_of_logs()
    return [
        f"{_name(number, url)}: Apprise does not understand it, so nobody is told there;"
        " correct its URL (https://github.com/caronc/apprise/wiki has the forms)"
        for number, url in enumerate(urls, start=1)
        if _service(url) is None
    ]


def check_every_destination(everybody: Sequence[str], of_teams: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the same of the destinations of everybody and of each team, each with the variable that holds its URL."""
    found = [f"GPU_AUTOSCALER_NOTIFY_URLS: {said}" for said in check_destinations(everybody)]
    for team, urls in of_teams.items():
        found += [f"GPU_AUTOSCALER_TEAM_NOTIFY_URLS: of team {team} {said}" for said in check_destinations(urls)]
    return found


def oddities(destination: Destination) -> list[str]:
    """Return what a destination that Apprise understands leaves open, so that messages go elsewhere or nowhere."""
    found = []
    for plugin in destination.service or ():
        kind = type(plugin).__name__
        if kind == "NotifyTelegram" and not plugin.targets:
            found.append("names no chat, so messages go to whoever wrote to the bot last, if Telegram still knows")
        if kind == "NotifySlack" and plugin.mode == "bot" and plugin.channels == ["#general"]:
            found += [] if "general" in destination.url else ["names no channel, so messages go to #general"]
    return found


def disarm(text: str) -> str:
    """Return *text*, which quotes alerts, workloads and other people, with what would act in a chat made harmless.

    That is mentions, links behind other words, and characters that a screen obeys.
    """
    text = harmless(text)
    for pattern, replacement in _MENTIONS:
        text = pattern.sub(replacement, text)
    return text


def digest(url: str) -> str:
    """A name for a destination that does not give it away."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def hide(text: str, url: str) -> str:
    """Return *text* without any part of *url* that could be a secret (its scheme may stay), as it is written there or
    as Apprise reads it: ``p%40ss`` is ``p@ss``."""
    rest = url.partition("://")[2] or url
    parts = {part for part in re.split(r"[/?&=:@#,;\s]+", rest) if len(part) >= HIDE_FROM}
    read = {unquote(part) for part in parts} | {unquote_plus(part) for part in parts}
    for part in sorted({rest, *parts, *read}, key=len, reverse=True):
        text = text.replace(part, "***")
    return text


def _name(number: int, url: str) -> str:
    """``destination 2 (slack)``: the place in the list, and the scheme where it is one that Apprise knows."""
    scheme = url.partition("://")[0].lower()
    known = "://" in url and re.fullmatch(r"[a-z][a-z0-9]{1,15}", scheme) is not None
    return f"destination {number} ({scheme})" if known else f"destination {number}"


def _service(url: str) -> Any:
    """What Apprise makes of *url*: an object with `notify`, or None."""
    asset = apprise.AppriseAsset(
        app_id="gpu-autoscaler",
        app_desc="GPU node-pool autoscaler",
        app_url="",
        image_url_mask="",  # no pictures from third-party servers
        image_url_logo="",
        interpret_emojis=False,
        secure_logging=True,
    )
    service = apprise.Apprise(asset=asset)
    return service if service.add(url) else None


def keep_secrets_out_of_logs() -> None:
    """Keep what Apprise and urllib3 log about a request to themselves: both write the whole URL at DEBUG."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # without one Python would print its warnings on stderr
    wire = logging.getLogger("urllib3.connectionpool")
    wire.setLevel(max(wire.level, logging.INFO))
