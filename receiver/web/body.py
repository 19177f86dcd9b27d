"""A request's body, read up to a limit."""

from flask import Request

from receiver.web.errors import REMEDIES, Problem


def read_body(incoming: Request, limit: int) -> bytes:
    """Return the body; raise Problem 413 for one over *limit* bytes without reading more than one byte past it.

    A chunked body has no Content-Length, so what is read counts too.
    """
    too_large = Problem(
        413,
        f"the body is larger than {limit} bytes",
        REMEDIES[413],
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
