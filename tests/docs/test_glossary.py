"""The glossary against the code: one meaning per term, and a term for every noun of the model."""

import re
from pathlib import Path

from tests.docs.pages import ROOT, headings, section, table, text_of

PAGE = "docs/glossary.md"
DEFINED = re.compile(r"^(?:(class|def) )?([A-Za-z_]\w*)(?=[(:\[]| =| = )", re.MULTILINE)
# Classes of receiver/core/model whose names say what they are.
SELF_EXPLAINING = frozenset(
    {"CordonedBy", "Fallback", "KeepRule", "KeepUntil", "Preference", "Requirement", "Taint", "Toleration"}
)


def rows() -> list[list[str]]:
    """Every row of the glossary: its terms, the meaning, the names in the code."""
    page = text_of(PAGE)
    return [row for title in headings(page, 2) for row in table(section(page, title))]


def terms() -> list[str]:
    """Every term of the glossary."""
    return [term for row in rows() for term in re.findall(r"\*\*([^*]+)\*\*", row[0])]


def names_in_the_code() -> set[str]:
    """The names in the right column."""
    return {name for row in rows() for name in re.findall(r"`(\w+)`", row[2])}


def defined_in(folder: Path) -> dict[str, str]:
    """The names that modules below *folder* define at their top: `class`, `def`, or nothing before the name."""
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return {name: word for text in texts for word, name in DEFINED.findall(text)}


def test_no_term_is_in_the_glossary_twice() -> None:
    found = [term.lower() for term in terms()]
    assert [term for term in found if found.count(term) > 1] == []


def test_every_row_has_a_meaning_and_a_name() -> None:
    assert [row for row in rows() if len(row) != 3 or not row[1] or not re.search(r"`\w+`", row[2])] == []


def test_every_name_of_the_glossary_is_in_the_code() -> None:
    assert sorted(names_in_the_code() - defined_in(ROOT / "receiver").keys()) == []


def test_every_public_class_of_the_model_is_in_the_glossary_or_explains_itself() -> None:
    found = defined_in(ROOT / "receiver" / "core" / "model")
    classes = {name for name, word in found.items() if word == "class" and not name.startswith("_")}
    assert sorted(classes - names_in_the_code() - SELF_EXPLAINING) == []
    assert sorted(SELF_EXPLAINING - classes) == []
    assert sorted(SELF_EXPLAINING & names_in_the_code()) == []


def test_every_term_of_the_glossary_is_used_in_code_or_docs() -> None:
    files = [*(ROOT / "receiver").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = " ".join(file.read_text(encoding="utf-8").lower() for file in files if file != ROOT / PAGE)

    def is_used(term: str) -> bool:
        words = [re.escape(word) for word in re.split(r"[\s-]", term.lower())]
        found = re.finditer(r"[\s_-]*".join(words), text)  # begins with a letter, which is found fast
        return any(not re.match(r"\w", text[at - 1]) for at in (match.start() for match in found))

    assert [term for term in terms() if not is_used(term)] == []
