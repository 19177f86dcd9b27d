"""Write the table of guardrails in docs/guardrails.md from the rules' own records.

A guardrail without a section gets one from its record and its docstring; the rest of the page is written by hand. With
``--check`` nothing is written, and the exit status is 1 when the page would change.
"""

import re
import sys
from pathlib import Path
from textwrap import fill

from receiver.core.explain.rules import RULES
from receiver.core.scaling.guardrails import GUARDRAILS, Guardrail
from tools.written_page import keep

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guardrails.md"
WRITTEN = re.compile(r"(?<=<!-- guardrails -->\n).*?(?=<!-- end of guardrails -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return *page* with the table as the guardrails are now, and a section for each."""
    rows = ["", "| guardrail | what it upholds | in messages |", "|---|---|---|"]
    names = [guardrail.__name__ for guardrail in GUARDRAILS]
    rows += [f"| [`{name}`](#{name}) | {RULES[name].meaning} | {RULES[name].plain} |" for name in names]
    page = WRITTEN.sub(lambda _: "\n".join([*rows, "", ""]), page)
    following = "\n## Other rules"
    for guardrail in reversed(GUARDRAILS):
        heading = f"\n### {guardrail.__name__}\n"
        if heading not in page:
            page = page.replace(following, f"{heading}\n{_section(guardrail)}{following}", 1)
        following = heading
    return page


def _section(guardrail: Guardrail) -> str:
    rule, said = RULES[guardrail.__name__], " ".join((guardrail.__doc__ or "").split())
    parts = {"Upholds": rule.meaning, "Holds when": said, "What to do": rule.advice}
    points = [f"- **{part}:** {text[:1].lower()}{text[1:].rstrip('.')}." for part, text in parts.items()]
    return "".join(f"{fill(point, 120, subsequent_indent='  ')}\n" for point in points)


if __name__ == "__main__":
    sys.exit(keep(PAGE, filled, "the guardrails"))
