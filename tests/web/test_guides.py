"""The documentation as pages of the server: every page, link and anchor is there, for pages and alerts alike."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest

from receiver.capabilities import registry
from receiver.config.web import ReadAccess
from receiver.core.explain.rules import RULES, guide
from receiver.core.notices.notice import Cause
from receiver.core.scaling.guardrails import GUARDRAILS
from receiver.doctor.prometheus import SHIPPED_DOCS
from receiver.web.pages.guides import ABOUT, FOLDER, GROUPS, HOME, MOVED, Guides, address, shipped
from tests.docs.pages import anchors, every_page, table, text_of
from tests.lint import none_of
from tests.rules.files import ALERTS
from tests.web.builders import READER, Bench, a_full_store
from tests.web.seen import Page, page, words

NAMES = tuple(shipped())
CLIENT = Bench(store=a_full_store()).client()


@cache
def got(path: str) -> str:
    """The page at *path*, which is there."""
    response = CLIENT.get(path)
    assert response.status_code == 200, path
    return response.text


def path_of(name: str) -> str:
    return f"/docs/{address(name)}".rstrip("/")


def article(path: str) -> str:
    """The text of the page at *path*, without what is around it."""
    return got(path).partition("<article")[2].partition("</article>")[0]


@cache
def ids(path: str) -> frozenset[str]:
    return frozenset(attributes["id"] or "" for _, attributes in Page(got(path)).elements if "id" in attributes)


def missing(link: str) -> bool:
    """Whether the page at *link* lacks its anchor; AssertionError without the page."""
    path, anchor = urldefrag(link)
    return bool(anchor) and anchor not in ids(path)


def test_every_page_below_docs_is_served_with_and_without_its_suffix() -> None:
    written = {name.removeprefix("docs/") for name in every_page() if name.startswith("docs/")}
    assert written == {name for name in NAMES if (FOLDER / name).exists()}
    for name in written:
        assert article(f"/docs/{name}") == article(f"/docs/{name.removesuffix('.md')}")


@pytest.mark.parametrize("suffix", ["", ".md"])
def test_the_address_of_a_former_page_leads_to_where_its_text_is_now(suffix: str) -> None:
    answers = {name: CLIENT.get(f"/docs/{name}{suffix}") for name in MOVED}
    assert {answer.status_code for answer in answers.values()} == {301}
    none_of(name for name, answer in answers.items() if missing(answer.headers["Location"]))
    none_of(name for name in MOVED if shipped().find(name))


def test_the_address_of_a_decision_without_a_page_leads_to_the_list() -> None:
    answer = CLIENT.get("/docs/decisions/0010-the-budget")
    assert (answer.status_code, answer.headers["Location"]) == (301, "/docs/decisions")


def test_the_first_page_says_where_to_find_what() -> None:
    assert "<h1" in got("/docs")
    assert words(got("/docs")).count(shipped().title(HOME)) >= 2  # as heading, and in the list of pages


@pytest.mark.parametrize("folder", ["runbooks", "decisions"])
def test_a_folder_is_the_list_of_its_pages(folder: str) -> None:
    listed = {name for name in NAMES if name.startswith(f"{folder}/")} - {f"{folder}/{HOME}"}
    links = {urljoin(f"/docs/{folder}", a["href"]) for tag, a in Page(got(f"/docs/{folder}")).elements if tag == "a"}
    assert {f"/docs/{name}" for name in listed} <= links


def test_every_link_on_every_page_leads_to_a_page_and_its_anchor() -> None:
    links = {
        (name, urljoin(path_of(name), attributes["href"]))
        for name in NAMES
        for tag, attributes in Page(article(path_of(name))).elements
        if tag == "a"
    }
    ours = {(name, link) for name, link in links if link.startswith("/")}
    assert len(ours) > 300
    assert all(link.startswith("/docs") for _, link in ours)
    none_of(f"{name}: {link}" for name, link in sorted(ours) if missing(link))


def test_the_anchors_of_a_page_are_those_of_its_headings_on_github() -> None:
    none_of(n for n in NAMES if (FOLDER / n).exists() and not anchors(text_of(f"docs/{n}")) <= ids(path_of(n)))


def test_no_page_has_two_elements_of_one_id() -> None:
    def doubled(name: str) -> bool:
        found = [attributes["id"] for _, attributes in Page(got(path_of(name))).elements if "id" in attributes]
        return len(found) != len(set(found))

    none_of(name for name in NAMES if doubled(name))


def test_no_page_has_anything_inline() -> None:
    def inline(name: str) -> bool:
        elements = Page(got(path_of(name))).elements
        return any(tag in ("script", "style") or "style" in attributes for tag, attributes in elements)

    none_of(name for name in NAMES if inline(name))


def test_every_table_and_every_fence_of_the_text_is_one_on_the_page() -> None:
    def lost(name: str) -> bool:
        text, html = text_of(f"docs/{name}"), got(path_of(name))
        lines = [line.strip() for line in text.splitlines()]
        tables = sum(line.startswith(("|--", "|:-")) for line in lines)
        fences = sum(line.startswith("```") for line in lines) // 2
        return (html.count("<table>"), html.count("<pre>")) != (tables, fences) or "```" in html

    none_of(name for name in NAMES if (FOLDER / name).exists() and lost(name))


def test_a_link_out_of_the_documentation_is_plain_text() -> None:
    assert "Contributing" in got("/docs")
    assert "CONTRIBUTING" not in got("/docs")


@pytest.mark.parametrize(
    "path",
    [
        "/docs/nothing",
        "/docs/../pyproject.toml",
        "/docs/%2e%2e/pyproject.toml",
        "/docs/runbooks/../../README.md",
        "/docs/runbooks/%2e%2e/%2e%2e/README.md",
        "/docs//etc/passwd",
        "/docs/guardrails.md.md",
    ],
)
def test_what_is_no_page_answers_404_and_names_the_list(path: str) -> None:
    response = CLIENT.get(path, follow_redirects=True)
    assert response.status_code == 404
    assert "see /docs for all pages" in response.text


@pytest.mark.parametrize("path, to", [("/docs/", "/docs"), ("/docs/runbooks/", "/docs/runbooks")])
def test_a_slash_at_the_end_leads_to_the_page_without_one(path: str, to: str) -> None:
    response = CLIENT.get(path)
    assert (response.status_code, response.location) == (308, to)


def test_a_page_is_rendered_once(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nbefore\n")
    guides = Guides(tmp_path)
    assert "before" in guides.page("a.md").html
    (tmp_path / "a.md").write_text("# A\n\nafter\n")
    assert "before" in guides.page("a.md").html


def test_the_documentation_needs_no_log_in() -> None:
    client = Bench(store=a_full_store(), reading=ReadAccess.TOKEN, reader_token=READER).client()
    assert client.get("/").status_code == 303
    assert client.get("/docs/runbooks/GpuPodsPending.md").status_code == 200


def test_the_navigation_has_every_page_once() -> None:
    listed = [shipped().find(entry) for entries in GROUPS.values() for entry in entries]
    assert list(GROUPS) == ["Start", "Use", "Reference", "On call", "Inside"]
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for name in NAMES if "/" not in name or name.endswith(f"/{HOME}")}


def test_the_runbook_of_every_shipped_alert_is_served() -> None:
    urls = [alert.body["annotations"]["runbook_url"] for alert in ALERTS]
    assert len(urls) > 40
    for url in urls:
        assert url.startswith(SHIPPED_DOCS)
        assert "How to fix" in got(url.replace(SHIPPED_DOCS, "/docs"))


def test_what_pages_and_messages_link_to_is_served_with_its_section() -> None:
    guides = {f"guardrails.md#{guardrail.name}" for guardrail in GUARDRAILS}
    guides |= {guide(rule) for rule in RULES} | {cause.guide for cause in Cause} | set(ABOUT.values())
    guides |= {guide for capability in registry.installed() for guide in capability.web.guides.values()}
    none_of(link for link in sorted(guides - {""}) if missing(f"/docs/{link}"))


@pytest.mark.parametrize(
    "path", ["/", "/pools/l40s", "/sources", "/costs", "/decisions/42", "/pools/l40s/overrides", "/login"]
)
def test_every_page_links_to_its_guide_without_any_configuration(path: str) -> None:
    [about] = [a["href"] or "" for tag, a in Page(got(path)).elements if a.get("class") == "about"]
    assert about.startswith("/docs/")
    assert not missing(about)


def test_a_rule_on_the_page_of_a_pool_links_to_its_explanation() -> None:
    links = [a["href"] for tag, a in Page(got("/pools/l40s")).elements if tag == "a"]
    assert any(str(link).startswith("/docs/guardrails.md#") for link in links)


def test_with_docs_url_pages_link_there() -> None:
    html = page("/sources", docs_url="https://docs.example")
    assert f'href="https://docs.example/{ABOUT["pages.sources"]}"' in html


def test_the_index_page_has_the_groups_of_the_navigation() -> None:
    rows = dict(table(text_of("docs/README.md")))
    told = {group: re.findall(r"\]\(([^.)][^)]*)\)", cell) for group, cell in rows.items()}
    wanted = {group: [name for name in names if name != "README.md"] for group, names in GROUPS.items()}
    assert told == wanted
