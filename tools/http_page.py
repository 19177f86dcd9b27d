"""The list of requests in docs/http-api.md, from the OpenAPI document. The rest is written by hand."""

import re
from pathlib import Path

from receiver.capabilities import registry
from receiver.web.openapi import document

PAGE = Path(__file__).resolve().parents[1] / "docs" / "http-api.md"
WRITTEN = re.compile(r"(?<=<!-- endpoints -->\n).*?(?=<!-- end of endpoints -->)", re.DOTALL)
ENTRY = re.compile(r"(/\{\w+\})+")


def filled(page: str) -> str:
    """Return *page* with the list as the document is now. A request for one entry of a list is in that list's line."""
    added = [request for capability in registry.installed() for request in capability.web.requests]
    rows: list[tuple[str, str]] = []
    whole_list = ""
    for path, requests in document("", closed=True, added=added)["paths"].items():
        for method, operation in requests.items():
            entry = ENTRY.fullmatch(path.removeprefix(whole_list)) if whole_list and method == "get" else None
            if entry:
                rows[-1] = (f"{rows[-1][0]}, `{entry[0]}`", rows[-1][1])
            else:
                rows.append((f"`{method.upper()} {path}`", operation["summary"]))
            whole_list = path if method == "get" and not entry else ""
    lines = [f"- {request}: {content}" for request, content in rows]
    return WRITTEN.sub(lambda _: "\n".join(["", *lines, "", ""]), page)


def generated() -> dict[Path, str]:
    """Return the page as it should be."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
