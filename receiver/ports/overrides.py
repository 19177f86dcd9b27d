"""Where people's overrides of policy are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from receiver.core.model.overrides import Override
from receiver.core.notices.sentences import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOverride:
    """An override, and when and by whom it was ended: *ended_by* None with *ended_at* means that it ran out."""

    override: Override
    ended_at: datetime | None = None
    ended_by: str | None = None


class OverrideStore(Protocol):
    """People's overrides. Every write is one transaction; every call may raise TryLater (store down)."""

    def set_override(self, override: Override, notice: Notice) -> None:
        """Keep *override* durably and put *notice* into the outbox."""

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        """End the override of that id, by somebody or because its time has come (None), and put *notice* into the
        outbox; False, and nothing is written, when there is none of that id or it has ended already."""

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        """Take back that the override of that id ran out, and put *notice* into the outbox; False, and nothing is
        written, when there is none of that id, it goes on, or somebody ended it."""

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        """Return overrides, those that nobody ended first, then the newest first."""

    def override(self, override: str) -> StoredOverride | None:
        """Return the override of that id."""
