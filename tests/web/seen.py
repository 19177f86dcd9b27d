"""What a page shows: its elements, and its words as a reader meets them."""

import re
from html.parser import HTMLParser
from typing import Any

from receiver.core.model.policy import Policy
from receiver.ports import Store
from simulator.store import MemoryStore
from tests.web.builders import Bench, a_full_store, a_policy


class Page(HTMLParser):
    """Collects elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def page(path: str = "/", store: MemoryStore | None = None, *, code: int = 200, **bench: Any) -> str:
    """Return a page's HTML."""
    response = Bench(store=store if store is not None else a_full_store(), **bench).client().get(path)
    assert response.status_code == code, response.text
    assert response.content_type == "text/html; charset=utf-8"
    return response.text


def words(html: str) -> str:
    """Return a page's text with single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def get_api(path: str, store: Store | None = None, *, code: int = 200, policy: Policy | None = None) -> Any:
    """Return what the API answers, after checking the code and that it is JSON."""
    bench = Bench(store=store if store is not None else a_full_store(), policy=policy or a_policy())
    response = bench.client().get(f"/api/v1{path}")
    assert response.status_code == code, response.text
    assert response.content_type == "application/json"
    return response.get_json()
