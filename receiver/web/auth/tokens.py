"""Bearer tokens: compared in constant time, and a refusal says what is missing without repeating what was sent.

Alertmanager has one for its webhook, people have another one for what they change.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

# Around a header's value; of others, such as U+0085 and U+00A0, the last byte of a token may look like one.
BLANK = " \t"
REALM = 'Bearer realm="gpu-autoscaler"'


class Unauthorized(Exception):
    """The request carries no token that we know. *challenge* is the WWW-Authenticate header (RFC 6750)."""

    def __init__(self, detail: str, remedy: str, challenge: str = REALM) -> None:
        super().__init__(detail)
        self.remedy = remedy
        self.challenge = challenge


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What helps whoever is refused: when no token is set, none is sent, another scheme is used, or it is empty."""

    none_set: tuple[str, str]
    none_sent: str
    other_scheme: str
    empty: str
    other: str = (
        "give both sides the same token; a Secret that changed needs a restart of the side that read it at start"
    )


WEBHOOK = Advice(
    none_set=(
        "this server has no webhook token and takes no deliveries",
        "set GPU_AUTOSCALER_WEBHOOK_TOKEN for the server and the same token in Alertmanager's webhook_configs",
    ),
    none_sent="send 'Authorization: Bearer <token>': in Alertmanager http_config.authorization.credentials_file",
    other_scheme="use http_config.authorization with type Bearer (the default) in Alertmanager, not basic_auth",
    empty="check that Alertmanager's credentials_file exists in its container and holds the token",
)
OPERATOR = Advice(
    none_set=(
        "this server has no operator token, so nobody may change anything through it",
        "set GPU_AUTOSCALER_OPERATOR_TOKEN for the server to a long random word, restart it, and send that word",
    ),
    none_sent="send 'Authorization: Bearer <token>' with the token that GPU_AUTOSCALER_OPERATOR_TOKEN holds",
    other_scheme="send 'Authorization: Bearer <token>'",
    empty="check that GPU_AUTOSCALER_OPERATOR_TOKEN is set where you send from",
    other="send the token that the server has in GPU_AUTOSCALER_OPERATOR_TOKEN; the webhook's is another one",
)
READER = Advice(
    none_set=(
        "reading takes a token, and this server has none",
        "set GPU_AUTOSCALER_READER_TOKEN for the server to a long random word, and restart it",
    ),
    none_sent="send 'Authorization: Bearer <token>' with the reader's or the operator's token; the command "
    "line takes it from GPU_AUTOSCALER_READER_TOKEN or GPU_AUTOSCALER_OPERATOR_TOKEN, browsers log in at /login",
    other_scheme="send 'Authorization: Bearer <token>'",
    empty="check that GPU_AUTOSCALER_READER_TOKEN is set where you send from",
    other="send the token that the server has in GPU_AUTOSCALER_READER_TOKEN or GPU_AUTOSCALER_OPERATOR_TOKEN",
)


def require_operator(header: str | None, token: str | None) -> None:
    """Raise Unauthorized unless *header* holds the operator's *token* (None: the server has none)."""
    require_bearer(header, (token,) if token else (), OPERATOR)


def require_bearer(header: str | None, tokens: Sequence[str], advice: Advice = WEBHOOK) -> None:
    """Raise Unauthorized unless *header* (Authorization, as the WSGI server decoded it) holds one of *tokens*.

    Every known token is compared, so that the time taken does not tell which one was close. The header is
    never echoed: people paste the token where the scheme belongs.
    """
    if not tokens:
        raise Unauthorized(*advice.none_set)
    if not header:
        raise Unauthorized("the Authorization header is missing", advice.none_sent)
    scheme, _, sent = header.strip(BLANK).partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("the Authorization header has another scheme than Bearer", advice.other_scheme)
    # PEP 3333: header values are bytes decoded as latin-1.
    given = sent.strip(BLANK).encode("latin-1", "replace")
    if not given:
        raise Unauthorized("the bearer token is empty", advice.empty)
    if not is_one_of(given, tokens):
        raise Unauthorized(
            "the bearer token is not the one this server knows",
            advice.other,
            challenge=f'{REALM}, error="invalid_token"',
        )


def is_one_of(given: bytes, tokens: Sequence[str]) -> bool:
    """True when *given* is one of *tokens*; how long it takes does not tell which one was close,
    nor how long it is."""
    sent = _same_length(given)
    known = [hmac.compare_digest(sent, _same_length(token.strip().encode())) for token in tokens]
    return any(known)


def _same_length(token: bytes) -> bytes:
    """A digest: compare_digest returns sooner for another length, which would tell that of the token."""
    return hashlib.sha256(token).digest()
