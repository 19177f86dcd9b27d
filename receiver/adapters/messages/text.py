"""What destinations may be told: text that acts on nothing, and errors without secrets."""

import re
from urllib.parse import unquote, unquote_plus

from receiver.core.model.text import harmless

HIDE_FROM = 5  # characters: shorter parts of a destination are words like "bot", not secrets

# A zero-width space after the sign: the text reads the same, mentions no one, and cannot hide a link.
_MENTIONS = (
    (re.compile(r"@(?=(?:channel|here|everyone|all|room|group|team)\b)", re.IGNORECASE), "@\u200b"),
    (re.compile(r"(?<![A-Za-z0-9_])@(?=\w)"), "@\u200b"),  # @alice, also after a dot, but no mail address
    (re.compile(r"<(?=[!@#]|[a-z][a-z0-9+.-]*:)", re.IGNORECASE), "<\u200b"),  # <!channel>, <@user>, <https://...|text>
    (re.compile(r"\](?=[(\[:])"), "]\u200b"),  # [text](https://...), ![picture](...), [text][1], [1]: https://...
)


def disarm(text: str) -> str:
    """Return *text*, which quotes alerts, workloads and other people, with what would act in a chat made harmless.
    That is mentions, links behind other words, and characters that a screen obeys."""
    text = harmless(text)
    for pattern, replacement in _MENTIONS:
        text = pattern.sub(replacement, text)
    return text


def hide(text: str, url: str) -> str:
    """Return *text* without any part of *url* that could be a secret (its scheme may stay), as it is written there or
    as Apprise reads it: ``p%40ss`` is ``p@ss``."""
    address = url.partition("://")[2] or url
    parts = {part for part in re.split(r"[/?&=:@#,;\s]+", address) if len(part) >= HIDE_FROM}
    read = {unquote(part) for part in parts} | {unquote_plus(part) for part in parts}
    for part in sorted({address, *parts, *read}, key=len, reverse=True):
        text = text.replace(part, "***")
    return text
