"""Three pages are a click away from everywhere, the others at the foot of each page."""

import pytest

from receiver.core.model.policy import Policy
from simulator.store import MemoryStore
from tests.web.builders import A100, Bench, a_concern, a_policy, showing
from tests.web.seen import page, words


def links(html: str, label: str) -> list[str]:
    """The words of the links in the navigation *label*."""
    part = html.partition(f'aria-label="{label}">')[2].partition("</nav>")[0]
    return [words(link.partition(">")[2]) for link in part.split("<a ")[1:] for link in [link.partition("</a>")[0]]]


@pytest.mark.parametrize("path", ["/", "/pools/l40s", "/costs", "/decisions", "/what-if", "/sources", "/docs"])
def test_every_page_leads_to_now_to_a_pool_and_to_the_costs_and_has_the_others_at_its_foot(path: str) -> None:
    html = page(path)
    assert links(html, "Pages") == ["Now", "Pool", "Costs"]
    assert links(html, "More pages") == ["Decisions", "What if", "Sources", "Docs"]


def test_the_page_of_a_pool_leads_to_the_other_pools() -> None:
    html = page("/pools/a100")
    assert links(html, "Pools") == [pool.name for pool in a_policy().pools]
    assert html.count('aria-current="page"') == 2  # of the navigation, and the pool


def test_one_pool_needs_no_list_of_pools() -> None:
    policy = Policy(pools=a_policy().pools[:1])
    assert 'aria-label="Pools"' not in page(f"/pools/{policy.pools[0].name}", policy=policy)


@pytest.mark.parametrize(
    ("store", "place"),
    [(showing(concerns=[]), "/pools/l40s"), (showing(concerns=[a_concern(pool=A100)]), "/pools/a100")],
)
def test_the_link_to_a_pool_leads_to_the_first_one_with_a_problem(store: MemoryStore, place: str) -> None:
    assert Bench(store=store).client().get("/pools").location == place


def test_without_a_pool_that_link_leads_back_to_now() -> None:
    assert Bench(store=MemoryStore(), policy=Policy(pools=())).client().get("/pools").location == "/"


def test_a_page_that_is_not_there_names_the_pages_that_are() -> None:
    text = words(page("/nowhere", code=404))
    assert "see one of these pages" in text
    assert "Now , Pool , Costs , Decisions , Docs" in text
