"""Addresses of our pages and documents, for those who read a message, and the seal on those that let them act."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from itsdangerous import BadSignature, Signer

SALT = "gpu-autoscaler answer to a question"
ANSWER = "Approve, snooze or keep"


class Seal:
    """Signs the ids of questions with a key that is made of the operator's *token*: another token, other links."""

    def __init__(self, token: str) -> None:
        self._signer = Signer(token, salt=SALT, key_derivation="hmac", digest_method=hashlib.sha256)

    def sign(self, question: str) -> str:
        """Return the id *question* with its signature, to stand in an address."""
        return self._signer.sign(question).decode()

    def read(self, signed: str) -> str | None:
        """Return the id that was *signed*; None for what this key did not sign."""
        try:
            return self._signer.unsign(signed.encode("utf-8", "replace")).decode()
        except (BadSignature, UnicodeDecodeError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLinks:
    """`receiver.core.notices.grouping.Links` below the two addresses of the configuration; neither ends with a slash.

    *seal* gives what signs now: the operator's token may change while the program runs.
    """

    public_url: str | None = None
    docs_url: str | None = None
    seal: Callable[[], Seal | None] = field(default=lambda: None, repr=False)

    def decision(self, number: int) -> str | None:
        """Return the address of the decision's page, None without ``public_url``."""
        return f"{self.public_url}/decisions/{number}" if self.public_url else None

    def guide(self, path: str) -> str | None:
        """Return the address of the page *path* of the documentation, None without ``docs_url``."""
        return f"{self.docs_url}/{path}" if self.docs_url else None

    def answers(self, question: str) -> Sequence[tuple[str, str]]:
        """Return the one page where the choices are, since an address for each takes as many taps and a screen more.

        Empty without ``public_url`` or without a seal: an unsigned link must not act.
        """
        seal = self.seal()
        if not self.public_url or seal is None:
            return ()
        return ((ANSWER, f"{self.public_url}/answer/{seal.sign(question)}"),)
