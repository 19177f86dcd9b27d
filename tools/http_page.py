"""The table of requests in docs/http-api.md, from the OpenAPI document. The rest is written by hand."""

import re
from pathlib import Path

from receiver.capabilities import registry
from receiver.web.openapi import document

PAGE = Path(__file__).resolve().parents[1] / "docs" / "http-api.md"
WRITTEN = re.compile(r"(?<=<!-- endpoints -->\n).*?(?=<!-- end of endpoints -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return *page* with the table as the document is now, where reading takes a token."""
    added = [request for capability in registry.installed() for request in capability.web.requests]
    rows = ["", "| request | token | content |", "|---|---|---|"]
    for path, requests in document("", closed=True, added=added)["paths"].items():
        for method, operation in requests.items():
            token = next((scheme for schemes in operation["security"] for scheme in schemes), "none")
            rows.append(f"| `{method.upper()} {path}` | {token} | {operation['summary']} |")
    return WRITTEN.sub(lambda _: "\n".join([*rows, "", ""]), page)


def generated() -> dict[Path, str]:
    """Return the page as it should be."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
