"""Log-ins: a signed cookie says who may do what until when. Nothing is stored, so every replica knows them.

Each role's key is made of that role's token: a token that is changed ends every session that it began.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from itsdangerous import BadData, URLSafeSerializer

LASTS = timedelta(hours=12)
SKEW = timedelta(minutes=5)  # by which the clocks of two replicas may differ
SALT = "gpu-autoscaler session of "


class Role(StrEnum):
    """What a token lets its holder do; the operator may read as well."""

    READER = "reader"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One log-in. *form_token* is what every form of it carries: another site cannot know it."""

    role: Role
    form_token: str
    until: datetime


class Sessions:
    """Signs and reads cookies with keys that are made of *tokens*; a role without a token has no sessions."""

    def __init__(self, tokens: Mapping[Role, str]) -> None:
        self._seals = {
            role: URLSafeSerializer(
                token,
                salt=f"{SALT}{role}",
                signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
            )
            for role, token in tokens.items()
        }

    def begin(self, role: Role, now: datetime) -> str:
        """Return the cookie of a new session; KeyError for a role without a token."""
        until = int((now + LASTS).timestamp())
        return str(self._seals[role].dumps({"until": until, "form": secrets.token_urlsafe(24)}))

    def read(self, cookie: str | None, now: datetime) -> Session | None:
        """Return the session that *cookie* holds; None for one that is over, forged, or of a token that was changed."""
        for role, seal in self._seals.items():
            try:
                said = seal.loads(cookie or "")
                until = datetime.fromtimestamp(said["until"], tz=now.tzinfo)
                session = Session(role=role, form_token=str(said["form"]), until=until)
            except (BadData, KeyError, TypeError, ValueError, OverflowError, OSError):
                continue
            # One from the future began under a wrong clock and would last too long.
            if now < session.until <= now + LASTS + SKEW:
                return session
        return None
