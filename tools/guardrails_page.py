"""What a rule means, below its heading in docs/guardrails.md, from its record.

A guardrail without a section gets one from its record and its docstring; the rest of the page is written by hand.
"""

import re
from pathlib import Path
from textwrap import fill

from receiver.capabilities.registry import step_additions
from receiver.core.explain.rules import RULES
from receiver.core.scaling.guardrails import with_added
from receiver.core.scaling.guardrails.rule import AnyGuardrail

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guardrails.md"
MEANT = re.compile(r"(?<=^### )(\w+)\n\n.+$", re.MULTILINE)


def filled(page: str) -> str:
    """Return *page* with a section for each guardrail, and below each rule's heading its meaning as it is now."""
    following = "\n## Other rules"
    for guardrail in reversed(with_added(step_additions().guardrails)):
        heading = f"\n### {guardrail.name}\n"
        if heading not in page:
            page = page.replace(following, f"{heading}\n{_section(guardrail)}{following}", 1)
        following = heading
    return MEANT.sub(lambda found: f"{found[1]}\n\n{RULES[found[1]].meaning}" if found[1] in RULES else found[0], page)


def _section(guardrail: AnyGuardrail) -> str:
    said = " ".join((guardrail.check.__doc__ or "").split())
    parts = (guardrail.meaning, said, f"**What to do:** {guardrail.advice or 'nothing'}.")
    return "\n".join(f"{fill(part, 120)}\n" for part in parts)


def generated() -> dict[Path, str]:
    """Return the page as it should be."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
