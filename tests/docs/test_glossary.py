"""The glossary against the code: one meaning per term, and a term for every noun of the model."""

import re
from pathlib import Path

from tests.docs.pages import ROOT, headings, section, text_of

PAGE = "docs/glossary.md"
DEFINED = re.compile(r"^(?:(class|def) )?([A-Za-z_]\w*)(?=[(:\[]| =| = )", re.MULTILINE)
BOLD = re.compile(r"\*\*([^*]+)\*\*")
# Classes of receiver/core/model whose names say what they are.
SELF_EXPLAINING = frozenset(
    {
        "BesideGpus",
        "ConfigurationFile",
        "CordonedBy",
        "EarlierSteps",
        "Fallback",
        "GpuShare",
        "KeepRule",
        "KeepUntil",
        "LastChanges",
        "NextNode",
        "PoolAtCivo",
        "PoolFacts",
        "Preference",
        "Requirement",
        "Taint",
        "Times",
        "Toleration",
    }
)


def entries() -> list[tuple[list[str], list[str], str]]:
    """Every entry of the glossary: its terms, the names in the code that follow them, the meaning."""
    page = text_of(PAGE)
    items = [item for title in headings(page, 2) for item in re.split(r"^- ", section(page, title), flags=re.MULTILINE)]
    split = [item.partition(": ") for item in items if item.strip()]
    return [(BOLD.findall(head), re.findall(r"`(\w+)`", head), said.strip()) for head, _, said in split]


def terms() -> list[str]:
    """Every term of the glossary; some are explained within another's meaning."""
    return [term for first, _, said in entries() for term in (*first, *BOLD.findall(said))]


def names_in_the_code() -> set[str]:
    """The names that the glossary gives."""
    return {name for _, names, _ in entries() for name in names}


def classes_of_terms() -> set[str]:
    """The classes that are written like a term: `PoolState` for pool state."""
    return {"".join(word[0].upper() + word[1:] for word in re.split(r"[\s-]", term)) for term in terms()}


def defined_in(folder: Path) -> dict[str, str]:
    """The names that modules below *folder* define at their top: `class`, `def`, or nothing before the name."""
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return {name: word for text in texts for word, name in DEFINED.findall(text)}


def test_no_term_is_in_the_glossary_twice() -> None:
    found = [term.lower() for term in terms()]
    assert [term for term in found if found.count(term) > 1] == []


def test_every_entry_has_a_term_and_a_meaning() -> None:
    assert [entry for entry in entries() if not entry[0] or not entry[2]] == []


def test_every_name_of_the_glossary_is_in_the_code() -> None:
    assert sorted(names_in_the_code() - defined_in(ROOT / "receiver").keys()) == []


def test_every_public_class_of_the_model_is_in_the_glossary_or_explains_itself() -> None:
    found = defined_in(ROOT / "receiver" / "core" / "model")
    classes = {name for name, word in found.items() if word == "class" and not name.startswith("_")}
    assert sorted(classes - names_in_the_code() - classes_of_terms() - SELF_EXPLAINING) == []
    assert sorted(SELF_EXPLAINING - classes) == []
    assert sorted(SELF_EXPLAINING & (names_in_the_code() | classes_of_terms())) == []


def test_every_term_of_the_glossary_is_used_in_code_or_docs() -> None:
    files = [*(ROOT / "receiver").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = " ".join(file.read_text(encoding="utf-8").lower() for file in files if file != ROOT / PAGE)

    def is_used(term: str) -> bool:
        words = [re.escape(word) for word in re.split(r"[\s-]", term.lower())]
        found = re.finditer(r"[\s_-]*".join(words), text)  # begins with a letter, which is found fast
        return any(not re.match(r"\w", text[at - 1]) for at in (match.start() for match in found))

    assert [term for term in terms() if not is_used(term)] == []
