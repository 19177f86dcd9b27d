"""The search of /docs, and the table of contents of a page."""

from typing import Any

from receiver.web.pages.guide_search import MOST_HITS, GuideSection, search, sections
from receiver.web.pages.guides import shipped
from tests.web.seen import Page, page, words

TEXT = """# Title

Begins here.

## The `first` [part](other.md#x)

| key | meaning |
|---|---|
| `a_b` | words of a table |

```sh
# no heading
```

### Below it

The end.
"""


def made(**said: Any) -> GuideSection:
    return GuideSection(**{"page": "a.md", "title": "A", "level": 2, "heading": "H", "anchor": "h", "text": "", **said})


def test_a_page_is_divided_at_its_headings_and_a_comment_in_a_fence_is_none() -> None:
    parts = list(sections("a.md", TEXT))
    assert [(part.level, part.heading, part.anchor) for part in parts] == [
        (1, "Title", ""),
        (2, "The first part", "the-first-part"),
        (3, "Below it", "below-it"),
    ]
    assert {part.title for part in parts} == {"Title"}
    assert [part.text for part in parts][0::2] == ["Begins here.", "The end."]
    assert "a_b words of a table" in parts[1].text


def test_a_section_is_found_by_all_words_of_the_query_in_any_case() -> None:
    both, one = made(text="The budget is at its stop"), made(text="the budget")
    assert [hit.section for hit in search("STOP budget", [one, both])] == [both]
    assert list(search("", [one, both])) == []


def test_a_word_in_a_heading_goes_before_one_in_the_title_and_that_before_the_text() -> None:
    text, title, heading = made(text="drain " * 3), made(title="Drain"), made(heading="What drains")
    assert [hit.section for hit in search("drain", [text, title, heading])] == [heading, title, text]


def test_an_excerpt_surrounds_the_first_word_and_says_where_it_was_cut() -> None:
    [hit] = search("needle", [made(text="hay " * 50 + "needle " + "hay " * 50)])
    assert hit.excerpt.startswith("… hay")
    assert hit.excerpt.endswith("hay …")
    assert "needle" in hit.excerpt
    [short] = search("needle", [made(text="a needle")])
    assert short.excerpt == "a needle"


def test_a_query_that_fits_everywhere_has_a_bounded_answer() -> None:
    assert len(search("a", [made(text="a")] * 100)) == MOST_HITS


def test_the_search_page_leads_to_the_section() -> None:
    html = page("/docs/search?q=keep+an+idle+workload")
    links = [attributes.get("href") for tag, attributes in Page(html).elements if tag == "a"]
    assert "/docs/operations.md#keep-an-idle-workload" in links
    assert "with all of “keep an idle workload”" in words(html)


def test_a_query_is_text_on_the_page_and_may_find_nothing() -> None:
    html = page("/docs/search?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in html
    assert "No sections with" in words(html)
    assert "sections with" not in words(page("/docs/search"))


def test_a_page_with_several_sections_begins_with_links_to_all_of_them() -> None:
    html = page("/docs/configuration.md")
    contents = html.partition('<details class="contents">')[2].partition("</details>")[0]
    links = [attributes["href"] for _, attributes in Page(contents).elements if "href" in attributes]
    parts = [part for part in sections("", shipped().text("configuration.md")) if part.level in (2, 3)]
    assert links == [f"#{part.anchor}" for part in parts]


def test_the_anchor_of_every_section_that_the_search_leads_to_is_on_its_page() -> None:
    ids = {name: {a.get("id") for _, a in Page(shipped().page(name).html).elements} for name in shipped()}
    lost = [f"{s.page}#{s.anchor}" for s in shipped().sections if s.anchor and s.anchor not in ids[s.page]]
    assert lost == []
