"""Write the table of guardrails in docs/guardrails.md from the rules' own records.

The rest of the page is written by hand. With ``--check`` nothing is written, and the exit status is 1 when the page
would change.
"""

import re
import sys
from pathlib import Path

from receiver.core.explain.rules import RULES
from receiver.core.scaling.guardrails import GUARDRAILS
from tools.written_page import keep

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guardrails.md"
WRITTEN = re.compile(r"(?<=<!-- guardrails -->\n).*?(?=<!-- end of guardrails -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return *page* with the table as the guardrails are now."""
    rows = ["", "| guardrail | what it upholds | in messages |", "|---|---|---|"]
    names = [guardrail.__name__ for guardrail in GUARDRAILS]
    rows += [f"| [`{name}`](#{name}) | {RULES[name].meaning} | {RULES[name].plain} |" for name in names]
    return WRITTEN.sub(lambda _: "\n".join([*rows, "", ""]), page)


if __name__ == "__main__":
    sys.exit(keep(PAGE, filled, "the guardrails"))
