"""Addresses of our pages and documents, for those who read a message."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLinks:
    """`receiver.core.message.Links` below the two addresses of the configuration; neither ends with a slash."""

    public_url: str | None = None
    docs_url: str | None = None

    def decision(self, number: int) -> str | None:
        """Return the address of the decision's page, None without ``public_url``."""
        return f"{self.public_url}/decisions/{number}" if self.public_url else None

    def guide(self, path: str) -> str | None:
        """Return the address of the page *path* of the documentation, None without ``docs_url``."""
        return f"{self.docs_url}/{path}" if self.docs_url else None

    def answers(self, question: str) -> Sequence[tuple[str, str]]:  # noqa: ARG002 (links that act need a key)
        """Return nothing: an unsigned link must not act."""
        return ()
