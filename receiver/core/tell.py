"""Decisions and outcomes as sentences, the same for log, chat, page and command line."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How a notice is coloured."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message for people. The outbox drops one whose *key* equals the last of its *topic*: told once."""

    topic: str
    key: str
    title: str
    body: str
    severity: Severity = Severity.INFO
    pool: str | None = None
    decision: int | None = None
