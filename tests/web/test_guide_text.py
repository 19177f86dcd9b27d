"""The text of a guide: what GitHub reads as a list, a link or an anchor is the same on our pages."""

import pytest

from receiver.web.pages.guide_text import html_of, portable, slug


def shown(text: str) -> str:
    """The HTML of *text*, where every relative link leads to ``there``."""
    return html_of(portable(text, lambda target: None if target.startswith("../") else "there"))


@pytest.mark.parametrize(
    "title, anchor",
    [
        ("Read the pages", "read-the-pages"),
        ("not_backing_off", "not_backing_off"),
        ("GET /api/v1/decisions?pool=&limit=", "get-apiv1decisionspoollimit"),
        ("Who may read, who may act", "who-may-read-who-may-act"),
        ("Utilization - and time", "utilization---and-time"),
    ],
)
def test_a_heading_has_the_anchor_that_github_gives_it(title: str, anchor: str) -> None:
    assert slug(title) == anchor
    assert f'<h2 id="{anchor}">' in shown(f"## {title}\n")


def test_a_list_inside_a_numbered_item_is_nested_at_three_spaces() -> None:
    html = shown("1. first:\n   - one\n     goes on\n   - two\n2. second\n")
    assert html.count("<ol>") == html.count("<ul>") == 1
    assert html.count("<li>") == 4


def test_a_paragraph_inside_an_item_stays_in_the_item() -> None:
    html = shown("- one\n\n  more of one\n- two\n")
    assert "<p>more of one</p>\n</li>" in html
    assert html.count("<li>") == 2


def test_code_inside_an_item_stays_in_the_item_with_its_own_indentation() -> None:
    html = shown("1. first:\n   ```yaml\n   a:\n     b: 1\n\n     c: 2\n   ```\n   then this\n2. second\n")
    assert "<code>a:\n  b: 1\n\n  c: 2\n</code>" in html
    assert "then this" in html
    assert html.count("<ol>") == 1
    assert html.count("<li>") == 2


def test_code_outside_lists_is_shown_as_it_is_written() -> None:
    html = shown("Type:\n\n```sh\n# no heading <x>\n- no item\n[no](link)\n```\n")
    assert "# no heading &lt;x&gt;\n- no item\n[no](link)\n" in html
    assert "<h1" not in html


def test_a_diagram_is_shown_as_its_code() -> None:
    assert '<code class="language-mermaid">graph TD\n</code>' in shown("```mermaid\ngraph TD\n```\n")


def test_a_list_right_below_a_paragraph_is_a_list() -> None:
    assert shown("Either:\n- one\n- two\n").count("<li>") == 2


def test_a_relative_link_gets_its_new_target_and_other_links_stay() -> None:
    html = shown("[a `b`\nc](d.md), [web](https://example.org) and [here](#there)\n")
    assert '<a href="there">a <code>b</code>\nc</a>' in html
    assert '<a href="https://example.org">' in html
    assert '<a href="#there">' in html


def test_a_link_that_leaves_the_documentation_is_its_words() -> None:
    assert shown("see [`rules`](../rules) and [k8s](../k8s/base)\n") == "<p>see <code>rules</code> and k8s</p>"


def test_what_looks_like_a_link_in_code_is_code() -> None:
    assert "<code>[a](b.md)</code>" in shown("type `[a](b.md)`\n")


def test_a_table_may_have_columns_to_the_right_without_an_inline_style() -> None:
    html = shown("| a | b |\n|---|---:|\n| 1 | `x|y` |\n")
    assert '<td align="right" data-label="b"><code>x|y</code></td>' in html
    assert "style" not in html
    assert html.startswith('<div class="scroll" tabindex="0">')


def test_html_is_shown_as_text_and_comments_not_at_all() -> None:
    html = shown("<!-- keys: a\nb -->\n\n<script>alert(1)</script> and <b>bold</b>\n")
    assert html == "<p>&lt;script&gt;alert(1)&lt;/script&gt; and &lt;b&gt;bold&lt;/b&gt;</p>"
