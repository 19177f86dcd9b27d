"""What this folder adds to the product."""

from pathlib import Path

from receiver.capabilities.capability import Capability
from receiver.capabilities.what_if.api import REQUESTS, add_routes
from receiver.capabilities.what_if.page import add_page
from receiver.web.parts import PageLink, WebAdditions

GUIDE = "command-line.md#what-if"
LINKS = (
    PageLink(on="pages.decisions", endpoint="pages.what_if", words="What would another configuration decide now?"),
    PageLink(on="more", endpoint="pages.what_if", words="What if"),
)

CAPABILITY = Capability(
    name="what_if",
    web=WebAdditions(
        add_routes=add_routes,
        requests=REQUESTS,
        add_pages=add_page,
        templates=Path(__file__).parent / "templates",
        links=LINKS,
        guides={"pages.what_if": GUIDE, "pages.answer": GUIDE},
        slow=frozenset({"api.what_if", "pages.answer"}),
    ),
)
