"""Slack's own form of a message: a header, the sentences, what it is about, and buttons that are links.

The limits are those of https://docs.slack.dev/reference/block-kit/blocks. Every text is ``plain_text``, in which
nothing mentions, links or formats.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from receiver.adapters.messages.text import disarm
from receiver.core.model.text import cut
from receiver.core.notices.grouping import Message
from receiver.core.notices.notice import Severity

CONTENT_TYPE = "application/json; charset=utf-8"
HEADER, SECTION, BUTTON, ADDRESS = 150, 3000, 75, 3000  # characters
SIGNS: Mapping[Severity, str] = {
    Severity.FAILURE: "\N{LARGE RED CIRCLE} ",
    Severity.WARNING: "\N{LARGE YELLOW CIRCLE} ",
    Severity.SUCCESS: "\N{LARGE GREEN CIRCLE} ",
    Severity.INFO: "",
}
_CHANNEL = re.compile(r"[#@+]?[A-Za-z0-9_.-]+")  # without a thread, and no mail address
_API = "https://slack.com/api/chat.postMessage"


def document(message: Message) -> dict[str, Any]:
    """Return *message* as blocks, with *text* for notifications and screen readers."""
    title = SIGNS[message.severity] + message.title
    return {
        "text": _escaped(disarm(f"{title}\n{message.text}" if message.text else title)),
        "mrkdwn": False,
        "unfurl_links": False,
        "blocks": list(_blocks(message, title)),
    }


def endpoints(plugin: Any) -> list[tuple[str, dict[str, str], dict[str, str]]]:
    """Return URL, headers and fields for each target of *plugin*, which Apprise made of a Slack URL; empty where it is
    no webhook or bot of a plain channel."""
    if plugin.mode in ("hook", "gov-hook"):
        base = plugin.webhook_url if plugin.mode == "hook" else plugin.webhook_gov_url
        url, headers = f"{base}/{plugin.token_a}/{plugin.token_b}/{plugin.token_c}", {}
    elif plugin.mode == "bot":
        url, headers = _API, {"Authorization": f"Bearer {plugin.access_token}"}
    else:
        return []
    if any(channel is not None and not _CHANNEL.fullmatch(channel) for channel in plugin.channels):
        return []
    shared = {"username": plugin.user} if plugin.user else {}
    return [(url, headers, shared | ({"channel": _channel(name)} if name else {})) for name in plugin.channels]


def _channel(name: str) -> str:
    if name[0] == "+":  # an id, in Apprise's spelling
        return name[1:]
    return name if name[0] in "#@" else f"#{name}"


def _blocks(message: Message, title: str) -> Iterator[dict[str, Any]]:
    buttons = [(label, where) for label, where in message.links if _is_address(where)]
    lines = [f"{label}: {where}" for label, where in message.links if not _is_address(where)]
    text = "\n".join([*([message.text] if message.text else []), *lines])
    yield {"type": "header", "text": _plain(title, HEADER)}
    if text:
        yield {"type": "section", "text": _plain(text, SECTION)}
    about = [("Cluster", message.cluster), ("Pool", message.pool), ("Team", message.team)]
    context = [message.severity.value.capitalize(), *(f"{name} {value}" for name, value in about if value)]
    context += [f"Decision {message.decision}"] if message.decision is not None else []
    yield {"type": "context", "elements": [_plain(" \N{MIDDLE DOT} ".join(context), SECTION)]}
    if buttons:
        elements = [{"type": "button", "text": _plain(label, BUTTON), "url": where} for label, where in buttons]
        yield {"type": "actions", "elements": elements}


def _is_address(where: str) -> bool:
    return where.startswith(("https://", "http://")) and len(where) <= ADDRESS


def _plain(text: str, longest: int) -> dict[str, Any]:
    """Return *text*, cut so that it fits when escaped; Slack rejects the whole message for one that does not."""
    excerpt = cut(disarm(text), longest)
    while len(_escaped(excerpt)) > longest:
        excerpt = cut(excerpt, len(excerpt) - 1)
    return {"type": "plain_text", "text": _escaped(excerpt), "emoji": False}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
