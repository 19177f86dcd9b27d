"""No code takes meaning out of finished text: what a sentence was made of is carried beside it, in a field."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOMS = ("core", "step", "web", "reports", "capabilities")
SENTENCES = {
    *("because", "body", "comment", "detail", "doing", "error", "explanation", "last_error", "message", "problem"),
    *("reason", "remedy", "sentence", "title", "what", "why"),
}
TAKES_APART = {
    *("count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex"),
    *("rpartition", "rsplit", "split", "splitlines", "startswith"),
}
PATTERNS = {"findall", "finditer", "fullmatch", "match", "search", "split", "sub"}
ALLOWED = {
    "capabilities/kueue_check/reader:_answered": "the longest message that the API takes",
    "capabilities/kueue_check/judging:_unknown": "two constants of ours at the end of a refusal",
    "core/explain/evidence:_removal": "splits off the names that it has put before it in the same step",
    "core/model/refusals:_without_names": "kube-scheduler says why in words alone",
    "core/model/refusals:is_judgement": "kube-scheduler says why in words alone",
    "core/model/refusals:is_of_no_node": "kube-scheduler says why in words alone",
    "core/model/refusals:obstacles": "kube-scheduler says why in words alone",
    "core/notices/action_notices:_news": "a set of reasons of victims, no sentence",
    "core/notices/concerns:_queues": "decides only whether the same message is sent again",
    "core/notices/grouping:_more": "titles of one group: what they share is printed once",
    "web/health:readyz": "a prefix that would stand there twice",
    "web/pages/guide_search:_score": "pages of the documentation, searched in lower case",
    "web/pages/guide_text:slug": "the anchor of a heading",
    "web/pages/overview:_plural": "grammar: verbs and pronouns in the plural",
}


def _is_sentence(node: ast.expr) -> bool:
    """True for a name or attribute that holds a sentence, a piece of one, and the text of an exception."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in SENTENCES or name.startswith("why_")
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return _is_sentence(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="strip" | "lower" | "rstrip" | "lstrip")):
            return _is_sentence(inner)
        case ast.BoolOp(values=values):
            return any(map(_is_sentence, values))
        case _:
            return False


def _takes_meaning(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=args) if name in PATTERNS:
            return any(map(_is_sentence, args))
        case ast.Call(func=ast.Attribute(value=text, attr=name), args=args):
            if name in PATTERNS and not _is_sentence(text):
                return any(map(_is_sentence, args))
            return name in TAKES_APART and _is_sentence(text) and bool(args)  # `split()` alone only joins lines
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[text]):
            return _is_sentence(text)
        case ast.Subscript(value=text, slice=ast.Slice()):
            return _is_sentence(text)
        case _:
            return False


def _found(source: str, module: str) -> Iterator[str]:
    """``module:function`` of each place in *source* that takes a sentence apart."""

    def walk(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = node.name
        if _takes_meaning(node):
            yield f"{module}:{function}"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function)

    yield from walk(ast.parse(source), "")


def _everywhere() -> Iterator[str]:
    for room in ROOMS:
        for file in sorted(Path("receiver", room).rglob("*.py")):
            yield from _found(file.read_text(encoding="utf-8"), file.relative_to("receiver").with_suffix("").as_posix())


@pytest.mark.parametrize(
    "line",
    [
        "title in each.why",
        "reason.detail.partition(': ')",
        "action.last_error.startswith('timeout: ')",
        "bounds.why_most[2:-1]",
        "re.sub(id, name, concern.what)",
        "PATTERN.search(error.message)",
        "str(error).removeprefix('store: ')",
    ],
)
def test_what_takes_a_sentence_apart_is_noticed(line: str) -> None:
    assert list(_found(line, "m")) == ["m:"]


def test_nothing_takes_meaning_out_of_finished_text() -> None:
    assert sorted(set(_everywhere()) - set(ALLOWED)) == []


def test_each_allowed_place_still_takes_text_apart() -> None:
    assert sorted(set(ALLOWED) - set(_everywhere())) == []
