"""Bearer tokens: compared in constant time, and a refusal says what is missing without repeating what was sent."""

import hmac
from collections.abc import Sequence

REALM = 'Bearer realm="gpu-autoscaler"'


class Unauthorized(Exception):
    """The request carries no token that we know. *challenge* is the WWW-Authenticate header (RFC 6750)."""

    def __init__(self, detail: str, remedy: str, challenge: str = REALM) -> None:
        super().__init__(detail)
        self.remedy = remedy
        self.challenge = challenge


def require_bearer(header: str | None, tokens: Sequence[str]) -> None:
    """Raise Unauthorized unless *header* (Authorization, as the WSGI server decoded it) holds one of *tokens*.

    Every known token is compared, so that the time taken does not tell which one was close. The header is
    never echoed: people paste the token where the scheme belongs.
    """
    if not tokens:
        raise Unauthorized(
            "this server has no webhook token and takes no deliveries",
            "set GPU_AUTOSCALER_WEBHOOK_TOKEN for the server and the same token in Alertmanager's webhook_configs",
        )
    if not header:
        raise Unauthorized(
            "the Authorization header is missing",
            "send 'Authorization: Bearer <token>': in Alertmanager http_config.authorization.credentials_file",
        )
    scheme, _, sent = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(
            "the Authorization header has another scheme than Bearer",
            "use http_config.authorization with type Bearer (the default) in Alertmanager, not basic_auth",
        )
    # PEP 3333: header values are bytes decoded as latin-1.
    given = sent.strip().encode("latin-1", "replace")
    if not given:
        raise Unauthorized(
            "the bearer token is empty",
            "check that Alertmanager's credentials_file exists in its container and holds the token",
        )
    known = [hmac.compare_digest(given, token.strip().encode()) for token in tokens]
    if not any(known):
        raise Unauthorized(
            "the bearer token is not the one this server knows",
            "give both sides the same token; a Secret that changed needs a restart of the side that read it at start",
            challenge=f'{REALM}, error="invalid_token"',
        )
