"""The rules for requests of ours, at every place that sends one: a new place obeys them or fails here."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.lint import none_of

ROOT = Path(__file__).parents[2]
SENDING = {"request", "get", "post", "put", "patch", "delete"}
_MAY_SEND = re.compile("session|requests", re.IGNORECASE)  # what the owner of such a call has in its name


@cache
def sent() -> list[tuple[str, ast.Call]]:
    """Each call of requests in the product, with its place."""
    return list(_read())


def _read() -> Iterator[tuple[str, ast.Call]]:
    for file in sorted((ROOT / "receiver").rglob("*.py")):
        code = file.read_text(encoding="utf-8")
        if not _MAY_SEND.search(code):
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Call) and _sends(node.func):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def _sends(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr not in SENDING:
        return False
    whose = ast.unparse(function.value).lower()
    return "session" in whose or whose == "requests"


def options(call: ast.Call) -> dict[str | None, str]:
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}


def test_there_are_some() -> None:
    assert len(sent()) >= 5


def test_no_request_follows_a_redirect() -> None:
    none_of(where for where, call in sent() if options(call).get("allow_redirects") != "False")


def test_every_request_has_a_time_limit() -> None:
    none_of(where for where, call in sent() if "timeout" not in options(call))


def test_no_request_is_sent_without_a_session_of_ours() -> None:
    code = {p: p.read_text(encoding="utf-8") for p in (ROOT / "receiver").rglob("*.py")}
    none_of(str(p) for p, text in code.items() if "requests.Session()" in text and p.name != "sessions.py")
    none_of(str(p) for p, text in code.items() if "urlopen(" in text and p.name != "healthcheck.py")


def test_no_certificate_goes_unchecked() -> None:
    none_of(where for where, call in sent() if options(call).get("verify") == "False")
