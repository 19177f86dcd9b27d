"""Names come from whoever may create a pod or an alert: pages escape them and run no script but their own file."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver import web
from receiver.core.model.actions import Reason, Verdict
from receiver.core.model.overrides import Override, OverrideKind
from receiver.ports import StoredOverride
from tests.web.builders import L40S, NOW, Bench, a_decision, a_full_store, a_node, a_picture
from tests.web.people import Person
from tests.web.seen import Page, page
from tests.web.stores import a_store_with, add_overrides

TEMPLATES = Path(web.__file__).parent / "templates"
ATTACK = "<script>alert(1)</script>\"'&"
OTHERS = [
    "'><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "{{ 7*7 }}",
    "</title><svg onload=alert(1)>",
    "\r\nX-Evil: 1",
]


def hostile_picture(attack: str = ATTACK) -> dict[str, Any]:
    """Return the full picture with an *attack* in every text that is no time or amount: a model refuses it there."""

    def poison(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: poison(v) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v) for v in value]
        typed = isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d|-?[0-9.]+$", value)
        return attack if isinstance(value, str) and not typed else value

    poisoned: dict[str, Any] = poison(a_picture())
    poisoned["pools"][0]["nodes"] = [a_node(attack, pods=[f"ns/{attack}"])]
    return poisoned


def test_names_from_the_cluster_are_escaped() -> None:
    store = a_full_store()
    store.keep_snapshot(hostile_picture(), NOW)
    html = page(store=store)
    assert ATTACK not in html
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") > 15


@pytest.mark.parametrize("attack", [ATTACK, *OTHERS])
@pytest.mark.parametrize(
    "path", ["/", "/pools/l40s", "/pools/l40s/overrides", "/pools/all/overrides", "/sources", "/costs", "/decisions/42"]
)
def test_what_people_and_the_cluster_say_becomes_no_element_attribute_or_header(path: str, attack: str) -> None:
    """An override's words, a silence's comment, names of pods and nodes, and alert labels, on every page."""
    store = a_full_store()
    picture = hostile_picture(attack)
    picture["pools"][0].update(name="l40s", pool=L40S)  # so that the pool's own page finds it
    store.keep_snapshot(picture, NOW)
    said = Override(
        id=attack, kind=OverrideKind.PAUSE, pool=L40S, who=attack, why=attack, at=NOW, until=NOW + timedelta(hours=1)
    )
    add_overrides(store, StoredOverride(override=said))
    person = Person.at(Bench(store=store))
    person.log_in()
    response = person.get(path)
    assert response.status_code == 200
    assert "X-Evil" not in response.headers
    for tag, attributes in Page(response.text).elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "img"
        assert tag != "script" or (attributes.get("src") or "").startswith("/static/")
        assert not (attributes.get("href") or "").startswith("javascript:")
    assert ">49<" not in response.text


@pytest.mark.parametrize("attack", [ATTACK, *OTHERS])
def test_what_somebody_typed_into_a_form_comes_back_as_text(attack: str) -> None:
    person = Person.at(Bench(store=a_full_store()))
    person.log_in()
    typed = dict.fromkeys(("kind", "nodes", "for", "who", "why"), attack)
    response = person.fill_in("/pools/l40s/overrides", typed)
    values = {a.get("id"): a.get("value") for tag, a in Page(response.text).elements if tag == "input"}
    assert response.status_code == 400
    assert values["why"] == attack
    assert ATTACK not in response.text


def test_a_decisions_words_are_escaped() -> None:
    reason = Reason(rule=ATTACK, verdict=Verdict.HOLDS, target=3, detail=ATTACK)
    decision = a_decision(reasons=(reason,), target=3, evidence={ATTACK: ATTACK}, candidates=(ATTACK,), pool=ATTACK)
    html = page("/decisions/42", a_store_with(decisions=[decision]))
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") >= 6


@pytest.mark.parametrize(
    "path", ["/", "/pools/l40s", "/sources", "/decisions/42", "/costs", "/nothing", "/login", "/pools/l40s/overrides"]
)
def test_the_policy_of_pages_allows_our_own_files_and_forms_and_nothing_else(path: str) -> None:
    policy = Bench(store=a_full_store()).client().get(path).headers["Content-Security-Policy"]
    own = {"script-src", "style-src", "img-src", "connect-src", "form-action"}
    nothing = {"default-src", "base-uri", "frame-ancestors"}
    given = dict(part.split(" ", 1) for part in policy.split("; "))
    assert given == {**dict.fromkeys(own, "'self'"), **dict.fromkeys(nothing, "'none'")}


@pytest.mark.parametrize(
    "path", ["/", "/pools/l40s", "/sources", "/decisions/42", "/costs", "/nothing", "/login", "/pools/l40s/overrides"]
)
def test_pages_have_nothing_inline_and_scripts_and_forms_of_their_own_server_only(path: str) -> None:
    text = Bench(store=a_full_store()).client().get(path).text
    for tag, attributes in Page(text).elements:
        assert tag not in {"style", "iframe", "base"}
        assert not [a for a in attributes if a == "style" or a.startswith("on")]
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/static/")
        if tag == "form":
            assert (attributes.get("action") or "/").startswith("/")
    assert not re.search(r"<script[^>]*>\s*[^<\s]", text), "an inline script"


@pytest.mark.parametrize("path", ["/", "/api/v1/pools", "/webhook", "/healthz"])
def test_every_answer_has_the_security_headers_and_is_not_cached(path: str) -> None:
    headers = Bench().client().get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


# What is written as it is: our own style sheet in the file that stands alone, attributes from the template itself, and
# the documentation, in which HTML is text (`test_guide_text.py`).
AS_IT_IS = {("alone.html", "style"), ("acting.html", "'...'"), ("guide.html", "page.html")}


def test_nothing_but_our_own_words_is_written_into_a_page_as_it_is() -> None:
    """No test shows all that somebody else may say; what switches escaping off is in the templates for all to see."""
    found = {
        (template.name, re.sub(r"'[^'{]*'", "'...'", said))
        for template in TEMPLATES.glob("*.html")
        for said in re.findall(r"('[^']*'|[^\s{(]+)\s*\|\s*safe\b", template.read_text())
    }
    assert found == AS_IT_IS
    switches = [t.name for t in TEMPLATES.glob("*.html") if re.search(r"autoescape|tojson|xmlattr", t.read_text())]
    assert switches == []
    makers = {path.name for path in TEMPLATES.parent.rglob("*.py") if "Markup" in path.read_text()}
    assert makers == {"show.py"}
