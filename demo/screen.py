"""Lines for people: a column of seconds, one of kinds, colours on a terminal, and no character that it cannot show."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from datetime import datetime
from typing import TextIO

from demo.configs import ROOT
from demo.timeline import Event

COLOURS = {
    "pod": "33",
    "alert": "31",
    "webhook": "35",
    "decision": "1;36",
    "civo": "1;34",
    "node": "34",
    "job": "32",
    "notice": "1;33",
    "demo": "1",
    "ok": "32",
    "FAILED": "1;31",
}
WIDTHS = range(72, 160)


class Screen:
    """Prints to *out*. Times are shown as seconds since *began*, once that is set."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._coloured = out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        columns = shutil.get_terminal_size((120, 24)).columns if out.isatty() else 120
        self._width = min(max(columns, WIDTHS.start), WIDTHS.stop)
        self.began: datetime | None = None

    def line(self, text: str = "") -> None:
        """Print one line; what the terminal's encoding lacks becomes a question mark, the checkout's place a dot."""
        text = text.replace(str(ROOT), ".")
        encoding = self._out.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), file=self._out, flush=True)

    def paragraph(self, text: str, indent: str = "") -> None:
        """Print *text* wrapped to the width."""
        for line in textwrap.wrap(text, self._width, initial_indent=indent, subsequent_indent=indent):
            self.line(line)

    def heading(self, text: str) -> None:
        """Print a heading with an empty line before it."""
        self.line()
        self.line(self.coloured(text, "demo"))

    def events(self, events: Iterable[Event]) -> None:
        """Print each event as a line, longer ones wrapped under themselves."""
        for event in events:
            seconds = (event.at - self.began).total_seconds() if self.began else 0.0
            head = f"{max(0.0, seconds):6.1f} s  {event.kind:<9}"
            room = self._width - len(head)
            first, *rest = textwrap.wrap(event.text, room) or [""]
            for more in event.more:
                rest += textwrap.wrap(more, room, initial_indent="  ", subsequent_indent="  ")
            self.line(self.coloured(head, event.kind) + first)
            for piece in rest:
                self.line(" " * len(head) + piece)

    def coloured(self, text: str, kind: str) -> str:
        """Return *text* in the colour of *kind*, on a terminal."""
        code = COLOURS.get(kind)
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured and code else text
