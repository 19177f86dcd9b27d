"""A request's body, read up to a limit."""

from urllib.parse import parse_qsl

from flask import Request

from receiver.web.errors import REMEDIES, Problem

LARGEST_FORM = 16 * 1024
MOST_FIELDS = 20


def read_form(incoming: Request) -> dict[str, str]:
    """Return the fields of a page's form, of one name the first; Problem 413 or 400 for what no page sends."""
    body = read_body(incoming, LARGEST_FORM, "say it shorter")
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace"
        )
    except ValueError:
        raise Problem(
            400, "the form has more fields than any page of ours", "open the page and send its form"
        ) from None
    return dict(reversed(pairs))


def read_body(incoming: Request, limit: int, remedy: str = REMEDIES[413]) -> bytes:
    """Return the body; raise Problem 413 for one over *limit* bytes without reading more than one byte past it.

    A chunked body has no Content-Length, so what is read counts too.
    """
    too_large = Problem(
        413,
        f"the body is larger than {limit} bytes",
        remedy,
        limit_bytes=limit,
    )
    if incoming.content_length is not None and incoming.content_length > limit:
        raise too_large
    parts: list[bytes] = []
    left = limit + 1
    while left > 0:
        part = incoming.stream.read(left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise too_large
    return b"".join(parts)
