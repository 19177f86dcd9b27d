"""Where messages go: Apprise URLs, Slack with blocks, and HTTP endpoints for events.

A destination is remembered by a digest of its URL; destination URLs hold secrets and appear in no log and no error. A
URL with several targets in it counts as one destination. No redirect is followed: it loses the message (301, 302) or
sends it with its approval link to another host (307, 308).
"""

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import apprise
import requests
from urllib3 import Timeout

from receiver.adapters.http.sessions import WRITE_SECONDS, json_of, quick_session, wire_failure
from receiver.adapters.messages import cloudevents, slack
from receiver.adapters.messages.text import disarm, hide
from receiver.config.environment import split_name
from receiver.core.model.text import harmless
from receiver.core.notices.grouping import Message
from receiver.core.notices.routing import EVERYTHING, Format, Route

ERROR_LENGTH = 300
LIMIT: Any = Timeout(connect=5.0, total=WRITE_SECONDS)  # of a request (a type that the stubs of requests omit)
Routes = Mapping[str, Route]  # by name
FORMATS = {Format.TEXT: "text", Format.SLACK: "Slack blocks", Format.CLOUDEVENTS: "CloudEvents"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One destination: its *digest*, its name without secrets, and what Apprise made of its URL (None: nothing)."""

    digest: str
    name: str
    url: str = field(repr=False)
    service: Any = field(repr=False)
    route: Route = EVERYTHING
    format: Format = Format.TEXT

    @property
    def described(self) -> str:
        """Its name and its format."""
        return f"{self.name} as {FORMATS[self.format]}"

    @property
    def problem(self) -> str:
        """Why nothing can be sent there, or not in the format of its route; empty if all is well."""
        if self.format is not Format.CLOUDEVENTS and self.service is None:
            return (
                "Apprise does not understand it, so no message is sent there; correct its URL"
                " (https://github.com/caronc/apprise/wiki has the forms)"
            )
        if self.route.format is Format.SLACK and self.format is Format.TEXT:
            return "it is no Slack webhook or bot with a plain channel, so it gets text; remove format: slack"
        return ""

    def send(self, message: Message) -> str:
        """Deliver *message*; return an error without secrets, or nothing when it was taken."""
        try:
            match self.format:
                case Format.CLOUDEVENTS:
                    error = self._post(self.url, cloudevents.document(message), cloudevents.CONTENT_TYPE)
                case Format.SLACK:
                    error = self._send_blocks(message)
                case _:
                    error = self._send_text(message)
        except Exception as problem:  # noqa: BLE001 (a hundred plugins by others: none may end a delivery)
            error = type(problem).__name__
        return hide(f"{self.name}: {error}", self.url)[:ERROR_LENGTH] if error else ""

    def _send_text(self, message: Message) -> str:
        if self.service is None:
            return "Apprise does not understand its URL"
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log_capture:
            taken = self.service.notify(
                title=disarm(message.title),
                body=disarm(message.body),
                notify_type=message.severity.value,
                body_format=apprise.NotifyFormat.TEXT,
            )
            detail = log_capture.getvalue()
        return "" if taken else " ".join(detail.split()) or "not taken"

    def _send_blocks(self, message: Message) -> str:
        blocks = slack.document(message)
        targets = slack.endpoints(self.service[0])
        errors = [self._post(url, blocks | extra, slack.CONTENT_TYPE, headers) for url, headers, extra in targets]
        return "; ".join(dict.fromkeys(error for error in errors if error))

    def _post(self, url: str, body: Mapping[str, Any], content_type: str, more: Mapping[str, str] | None = None) -> str:
        """Send *body* once; return what went wrong."""
        user = urlsplit(url)
        # Without an own one, requests would send the password that ~/.netrc has for this host.
        login = (unquote(user.username), unquote(user.password or "")) if user.username else lambda request: request
        try:
            with quick_session() as session:
                content, headers = json.dumps(body).encode(), {"Content-Type": content_type, **(more or {})}
                answer = session.post(
                    url, data=content, headers=headers, auth=login, timeout=LIMIT, allow_redirects=False
                )
        except (requests.RequestException, OSError, ValueError) as error:
            return wire_failure(error)[1]
        if not 200 <= answer.status_code < 300:
            return f"it answered {answer.status_code} {harmless(' '.join(answer.text[:200].split()))}".rstrip()
        document = json_of(answer)  # Slack's API answers 200 to what it rejects
        refused = isinstance(document, dict) and document.get("ok") is False
        return f"it answered {harmless(str(document.get('error')))}" if refused else ""


def opened(entries: Sequence[str], prefix: str = "", routes: Routes | None = None) -> tuple[Destination, ...]:
    """Return the destinations of *entries* (``URL`` or ``NAME=URL``) with their *routes*, a URL that is listed twice
    once; *prefix* stands before their names."""
    destinations: dict[str, Destination] = {}
    for number, entry in enumerate(entries, start=1):
        name, url = split_name(entry)
        if url not in destinations:
            route = (routes or {}).get(name, EVERYTHING)
            service = None if route.format is Format.CLOUDEVENTS else _service(url)
            destinations[url] = Destination(
                digest=hashlib.sha256(url.encode()).hexdigest()[:16],
                name=prefix + _name(number, name, url),
                url=url,
                service=service,
                route=route,
                format=_format(route, service),
            )
    return tuple(destinations.values())


def check_destinations(entries: Sequence[str], routes: Routes | None = None) -> list[str]:
    """Return a sentence for each of *entries* that gets no message, or not in its format, without its secret part."""
    keep_secrets_out_of_logs()
    return [f"{d.name}: {d.problem}" for d in opened(entries, routes=routes) if d.problem]


def check_every_destination(
    everybody: Sequence[str], of_teams: Mapping[str, Sequence[str]], routes: Routes | None = None
) -> list[str]:
    """Return the same of the destinations of everybody and of each team, each with the variable that holds its URL."""
    problems = [f"GPU_AUTOSCALER_NOTIFY_URLS: {error}" for error in check_destinations(everybody, routes)]
    for team, urls in of_teams.items():
        problems += [f"GPU_AUTOSCALER_TEAM_NOTIFY_URLS: of team {team} {error}" for error in check_destinations(urls)]
    return problems


def oddities(destination: Destination) -> list[str]:
    """Return what is odd about a destination that Apprise understands: messages go elsewhere, nowhere or twice."""
    remarks = []
    for plugin in destination.service or ():
        kind = type(plugin).__name__
        if kind == "NotifyTelegram" and not plugin.targets:
            remarks.append("names no chat, so messages go to the last sender to the bot, if Telegram still knows it")
        if kind == "NotifySlack" and plugin.mode == "bot" and plugin.channels == ["#general"]:
            remarks += [] if "general" in destination.url else ["names no channel, so messages go to #general"]
        if len(plugin) > 1:
            remarks.append(
                "has several targets: while one fails, the others get each message again; use one URL per target"
            )
    return remarks


def _name(number: int, name: str, url: str) -> str:
    """``pager (pagerduty)``, or ``destination 2 (slack)``: its place in the list, and the scheme where it is one that
    Apprise knows."""
    scheme = re.match(r"([a-z][a-z0-9]{1,15})://", url.lower())
    return (name or f"destination {number}") + (f" ({scheme[1]})" if scheme else "")


def _format(route: Route, service: Any) -> Format:
    """Slack's own form for what Apprise knows to be a Slack webhook or bot, unless *route* says otherwise."""
    if route.format in (Format.TEXT, Format.CLOUDEVENTS):
        return route.format
    plugins = list(service or ())
    is_slack = len(plugins) == 1 and type(plugins[0]).__name__ == "NotifySlack" and slack.endpoints(plugins[0])
    return Format.SLACK if is_slack else Format.TEXT


def _service(url: str) -> object:
    asset = apprise.AppriseAsset(
        app_id="gpu-autoscaler",
        app_desc="GPU node-pool autoscaler",
        app_url="",
        image_url_mask="",  # no pictures from third-party servers
        image_url_logo="",
        interpret_emojis=False,
        secure_logging=True,
        http_redirects=False,
    )
    service = apprise.Apprise(asset=asset)
    if not service.add(url):
        return None
    for plugin in service:  # `?redirect=yes` in a URL overrides the asset
        plugin.redirects = False
    return service


def keep_secrets_out_of_logs() -> None:
    """Keep what Apprise and urllib3 log about a request to themselves: both write the whole URL at DEBUG."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # without one Python would print its warnings on stderr
    wire = logging.getLogger("urllib3.connectionpool")
    wire.setLevel(max(wire.level, logging.INFO))
