"""A notice as people get it: its sentences, and where to read on or answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from receiver.core.model.text import cut
from receiver.core.notices.guides import GUIDES
from receiver.core.notices.sentences import Notice

LONGEST_TITLE = 100  # characters: what a lock screen shows
LONGEST_BODY = 1200  # without its end


class Links(Protocol):
    """Where messages lead to; None where nobody said under which address that can be reached."""

    def decision(self, number: int) -> str | None:
        """Return the address of the page of the decision with this *number*."""

    def guide(self, path: str) -> str | None:
        """Return the address of the page *path* below ``docs/`` (``runbooks/GpuBudgetStop.md``)."""

    def answers(self, question: str) -> Sequence[tuple[str, str]]:
        """Return label and address of each answer to the open *question*; empty where none can be given by a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent: plain text, the *title* enough for a lock screen."""

    title: str
    body: str


def compose(notice: Notice, links: Links) -> Message:
    """Return *notice* with its answers and with where to read on; without an address, the command and the file.

    Whatever names and errors are in it, it stays within one screen; the end is never cut.
    """
    said = [cut(notice.body, LONGEST_BODY)] if notice.body else []
    return Message(title=cut(notice.title, LONGEST_TITLE), body="\n".join([*said, *_end(notice, links)]))


def _end(notice: Notice, links: Links) -> Iterator[str]:
    if notice.question is not None:
        for label, address in links.answers(notice.question):
            yield f"{label}: {address}"
    if notice.decision is not None:
        where = links.decision(notice.decision) or f"gpu-autoscaler explain decision {notice.decision}"
        yield f"Decision {notice.decision}: {where}"
    guide = notice.guide or GUIDES.get(notice.cause)
    if guide:
        yield f"What to do: {links.guide(guide) or f'docs/{guide}'}"
