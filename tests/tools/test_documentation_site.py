"""The static site: its navigation is that of the server's /docs, and its text keeps no link out of docs/."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from receiver.web.pages.guides import GROUPS, shipped
from tests.docs.pages import ROOT, text_of
from tests.lint import load_yaml
from tools.documentation_site import TABLES, navigation, on_config, on_page_content, on_page_markdown


def pages(entry: Any) -> Iterator[str]:
    """The pages below *entry* of a navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from pages(inner)


def test_the_site_has_the_five_groups_and_in_them_every_page_once() -> None:
    assert [next(iter(group)) for group in navigation()] == list(GROUPS)
    assert sorted(pages(navigation())) == sorted(shipped())


def test_the_configuration_names_the_hook_that_brings_them() -> None:
    [hook] = load_yaml(text_of("mkdocs.yml"))["hooks"]
    assert (ROOT / hook).is_file()
    config = SimpleNamespace(nav=None, mdx_configs={})
    assert on_config(config) is config
    assert config.nav == navigation()
    assert config.mdx_configs["toc"]["slugify"]("not_backing_off: why?", "-") == "not_backing_off-why"


def test_tables_of_the_site_are_cards_on_a_phone_like_the_servers() -> None:
    assert load_yaml(text_of("mkdocs.yml"))["extra_css"] == [TABLES.name]
    table = "<table><thead><tr><th>key</th></tr></thead><tbody><tr><td>tick</td></tr></tbody></table>"
    assert '<td data-label="key">tick</td>' in on_page_content(table)


def test_a_page_of_the_site_links_to_other_pages_by_their_files_and_to_nothing_else() -> None:
    for name in ("README.md", "runbooks/GpuPodsPending.md"):
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name))
        links = re.findall(r"\]\(([^)#:\s]+)", on_page_markdown(shipped().text(name), page))
        assert links
        assert all(shipped().target(name, link) and link.endswith(".md") for link in links), links
