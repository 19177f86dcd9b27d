"""The commands of ours in what the program says: the texts of its code, its templates, and its messages as they are
sent."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.commands import words_of

ROOT = Path(__file__).resolve().parents[2]
# From the program's name to what ends a command within a sentence.
COMMAND = re.compile(r"""(?<![\w./-])gpu-autoscaler( (?:"[^"\n]*"|[^\s"`;,)(<]+))+""")
OTHER_NAMES = re.compile(r"(?:-n|--namespace|deployment|svc|deploy|install|session of|by) $")
PAGES = ROOT / "receiver" / "web" / "docs"


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the arguments of every command of ours in *text*."""
    for found in COMMAND.finditer(text):
        words = words_of(found[0].rstrip(".:"))
        if re.fullmatch(r"[a-z][a-z-]+|-.*", words[1]) and not OTHER_NAMES.search(text[: found.start()]):
            yield words[1:]


def texts_of_code(file: Path) -> Iterator[str]:
    """Yield the texts of the module *file* without docstrings. A value within one stands as a word after a space, and
    is left out behind another word."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield _filled(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inner | said):
            yield node.value


def _filled(text: ast.JoinedStr) -> str:
    found = ""
    for part in text.values:
        if isinstance(part, ast.Constant):
            found += str(part.value)
        elif found.endswith(" "):
            found += "1"
    return found


def everything_told() -> Iterator[tuple[str, str]]:
    """Yield where something is said, and the text."""
    for file in sorted((ROOT / "receiver").rglob("*.py")):
        yield from ((str(file.relative_to(ROOT)), text) for text in texts_of_code(file))
    for file in sorted((ROOT / "receiver").glob("**/templates/*.html")):
        text = re.sub(r"\{\{ *'[^']*' *\}\}|\{\{.*?\}\}", "1", file.read_text(encoding="utf-8"))
        yield str(file.relative_to(ROOT)), text
    messages = ROOT.glob("tests/capabilities/*/messages.md")
    for book in (ROOT / "tests/core/notices/messages.md", *sorted(messages)):
        yield str(book.relative_to(ROOT)), book.read_text(encoding="utf-8")
    for file in sorted((ROOT / "rules").glob("*.yaml")):
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
