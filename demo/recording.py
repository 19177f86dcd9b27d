"""``make recording``: play the demo and draw what it printed as an animated SVG, docs/pictures/demo.svg.

The lines roll up from the bottom, at the pace at which they came, with long waits cut. Without animation the picture
shows the end: the summary and the checks. It has no script, and no font of its own.
"""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from demo.__main__ import play
from demo.configs import ROOT
from demo.screen import Screen
from demo.stack import until_signalled

PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
COLUMNS, ROWS = 112, 31
SIZE, WIDE, HIGH, EDGE = 12, 7.23, 17, 14  # pixels: font size, character, line, margin
SPEED, LONGEST, AT_THE_END = 2.5, 2.0, 12.0  # times faster; seconds of the picture between lines, and before it repeats
SGR = re.compile(r"\x1b\[([\d;]*)m")
STYLE = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}
.b{font-weight:700}.c31{fill:#ff7b72}.c32{fill:#7ee787}.c33{fill:#f2cc60}.c34{fill:#79c0ff}.c35{fill:#d2a8ff}.c36{fill:#56d4dd}
@media(prefers-reduced-motion:reduce){.roll{animation:none!important}}"""

Line = tuple[float, str]  # the second in which it was printed, and its text with SGR sequences


class Recorder(Screen):
    """A coloured screen that keeps its lines, except those with a place of this machine."""

    def __init__(self, hidden: Path, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._coloured, self._width = True, COLUMNS
        self._hidden, self._clock = str(hidden), clock
        self.lines: list[Line] = [(clock(), "\x1b[1m$ make demo\x1b[0m")]

    def line(self, text: str = "") -> None:
        """Print a line, and keep it."""
        super().line(text)
        if self._hidden not in text:
            self.lines.append((self._clock(), text))


def drawn(lines: Sequence[Line]) -> str:
    """Return the SVG of *lines*."""
    moments = list(_moments(lines))
    shown = moments[-1] + AT_THE_END
    # Several lines of one moment are one step: the last of them counts.
    steps = {f"{100 * at / shown:.2f}%": number for number, at in enumerate(moments, start=1)}
    frames = "".join(f"{at}{{transform:translateY({_offset(n)}px)}}" for at, n in steps.items())
    roll = f"transform:translateY({_offset(len(lines))}px);animation:roll {shown:.0f}s step-end infinite"
    width, height = round(COLUMNS * WIDE + 2 * EDGE), ROWS * HIGH + 2 * EDGE
    texts = "\n".join(_text(number, text) for number, (_, text) in enumerate(lines) if text)
    size = f'width="{width}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img">
<title>What make demo prints</title>
<style>{STYLE}
.roll{{{roll}}}
@keyframes roll{{{frames}}}
</style>
<rect {size} rx="8" fill="#0d1117"/>
<svg x="{EDGE}" y="{EDGE}" width="{width - EDGE}" height="{ROWS * HIGH}"><g class="roll" xml:space="preserve">
{texts}
</g></svg>
</svg>
"""


def _moments(lines: Sequence[Line]) -> Iterator[float]:
    """Yield when each line is shown, in seconds of the picture."""
    at, before = 0.0, lines[0][0]
    for printed, _ in lines:
        at += min((printed - before) / SPEED, LONGEST)
        before = printed
        yield at


def _offset(count: int) -> int:
    """Return how far down the first line is while *count* lines are shown, the last of them at the bottom."""
    return (ROWS - count) * HIGH


def _text(number: int, text: str) -> str:
    """Return one line. Its length is given, so that another font does not leave the picture."""
    parts, looks = SGR.split(text), ""
    spans = []
    for n, part in enumerate(parts):
        if n % 2:
            looks = " ".join("b" if code == "1" else f"c{code}" for code in part.split(";") if code.strip("0"))
        elif part:
            spans.append(f'<tspan class="{looks}">{escape(part)}</tspan>' if looks else escape(part))
    length = round(sum(map(len, parts[::2])) * WIDE, 1)
    return f'<text y="{number * HIGH + SIZE}" textLength="{length}">{"".join(spans)}</text>'


def main() -> int:
    """Play the demo; write the picture if every check held."""
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-demo-") as folder:
        screen = Recorder(Path(folder))
        status = play(screen, Path(folder), stays=False)
    if status == 0:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        PICTURE.write_text(drawn(screen.lines), encoding="utf-8")
        print(f"written: {PICTURE.relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(until_signalled(main))
