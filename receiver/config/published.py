"""Addresses that messages lead people to: chats see them, so they hold no secret, and paths are put after them."""

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from receiver.config.mistakes import Wrong, text

EXAMPLE = "write it whole, such as https://gpu.example.com"


def published(value: Any) -> str:
    """Return an http or https URL without a slash at its end, to which a path can be added; raise Wrong."""
    said = text(value, "a URL")
    try:
        parts = urlsplit(said)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        whole = False
    if not whole or any(sign.isspace() for sign in said):
        raise Wrong("is not an http or https URL", EXAMPLE)
    if parts.username is not None or parts.password is not None:
        raise Wrong("holds a user or password, and messages show it to everybody", EXAMPLE)
    if "?" in said or "#" in said:
        raise Wrong("has a query or a fragment, and paths are put after it", EXAMPLE)
    return said.rstrip("/")


PublicAddress = Annotated[str, BeforeValidator(published)]
