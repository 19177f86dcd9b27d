"""The glossary: one meaning per term, and terms that the product uses. What a class of the model is stands in its
docstring."""

import ast
import re
from pathlib import Path

from tests.docs.pages import ROOT, headings, section, text_of

PAGE = "docs/glossary.md"
BOLD = re.compile(r"\*\*([^*]+)\*\*")


def entries() -> list[tuple[list[str], str]]:
    """Every entry of the glossary: its terms, and the meaning."""
    page = text_of(PAGE)
    items = [item for title in headings(page, 2) for item in re.split(r"^- ", section(page, title), flags=re.MULTILINE)]
    split = [item.partition(": ") for item in items if item.strip()]
    return [(BOLD.findall(head), meaning.strip()) for head, _, meaning in split]


def terms() -> list[str]:
    """Every term of the glossary; some are explained within another's meaning."""
    return [term for first, meaning in entries() for term in (*first, *BOLD.findall(meaning))]


def classes(file: Path) -> list[ast.ClassDef]:
    """The public classes that the module *file* defines at its top."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return [node for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_term_is_in_the_glossary_twice() -> None:
    lowered = [term.lower() for term in terms()]
    assert [term for term in lowered if lowered.count(term) > 1] == []


def test_every_entry_has_a_term_and_a_meaning() -> None:
    assert [entry for entry in entries() if not entry[0] or not entry[1]] == []


def test_every_public_class_of_the_model_says_what_it_is() -> None:
    model = [node for file in (ROOT / "receiver" / "core" / "model").rglob("*.py") for node in classes(file)]
    assert len(model) > 50
    assert sorted(node.name for node in model if not ast.get_docstring(node)) == []


def test_every_term_of_the_glossary_is_used_in_code_or_docs() -> None:
    files = [*(ROOT / "receiver").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = " ".join(file.read_text(encoding="utf-8").lower() for file in files if file != ROOT / PAGE)

    def is_used(term: str) -> bool:
        words = [re.escape(word) for word in re.split(r"[\s-]", term.lower())]
        found = re.finditer(r"[\s_-]*".join(words), text)  # begins with a letter, which is found fast
        return any(not re.match(r"\w", text[at - 1]) for at in (match.start() for match in found))

    assert [term for term in terms() if not is_used(term)] == []
