"""Twenty questions of a newcomer, and the links that lead to each answer: at most two clicks from README.md or from
/docs. The links are followed on the pages as they are served."""

import re
from functools import cache
from urllib.parse import urldefrag, urljoin

import pytest

from receiver.web.pages.guide_search import sections
from receiver.web.pages.guides import shipped
from tests.docs.pages import text_of
from tests.web.builders import Bench, a_full_store
from tests.web.seen import Page

CLIENT = Bench(store=a_full_store()).client()
DOCS, README = "/docs", "README.md"
# Question: where its reader begins, the addresses that are clicked one after the other, and words of the answer.
PATHS: dict[str, tuple[str, list[str], str]] = {
    "How do I try it without a cluster?": (README, [], "make playground"),
    "Has it run on Civo?": (README, ["/docs/limits.md"], "It has never run on Civo"),
    "Why not Cluster Autoscaler?": (README, ["/docs/why-not-cluster-autoscaler.md"], "Often you should use it"),
    "How do I install it?": (README, ["/docs/getting-started.md"], "Seven commands"),
    "How do I stop everything?": (DOCS, [], "--replicas=0"),
    "Why does my pod wait?": (DOCS, ["/docs/troubleshooting.md#a-pod-is-pending"], "explain pod"),
    "Can it delete my job?": (
        DOCS,
        ["/docs/how-it-decides.md#what-drains-and-what-keeps-a-node"],
        'annotated gpu-autoscaler.io/protect or safe-to-evict: "false" stays',
    ),
    "What happens when the budget is used up?": (DOCS, ["/docs/how-it-decides.md#money"], "no nodes are bought"),
    "How do I raise the budget?": (
        DOCS,
        ["/docs/operations.md", "/docs/operations.md#raise-this-months-budget"],
        "budget set 6500",
    ),
    "How do I pause a pool?": (DOCS, ["/docs/operations.md#pause-a-pool"], "With an override"),
    "How do I keep a node overnight?": (
        DOCS,
        ["/docs/operations.md", "/docs/operations.md#keep-a-node-for-a-while"],
        "gpu-autoscaler.io/keep-until",
    ),
    "How do I add a pool?": (DOCS, ["/docs/install.md#values"], "the GPU pools"),
    "How do I get Slack messages?": (DOCS, ["/docs/configuration.md#the-environment"], "Apprise URLs"),
    "What if Prometheus is down?": (DOCS, ["/docs/guardrails.md#sources"], "fallback: kubernetes"),
    "What may it do in my cluster?": (DOCS, ["/docs/operations.md#rights-in-the-cluster"], "evict pods"),
    "What would it do, before it may?": (DOCS, ["/docs/operations.md", "/docs/operations.md#observe-first"], "observe"),
    "What did my team cost?": (DOCS, ["/docs/costs.md"], "--team"),
    "Why does an idle node stay?": (
        DOCS,
        ["/docs/troubleshooting.md", "/docs/troubleshooting.md#it-did-not-shrink"],
        "paid hour",
    ),
    "What can a stolen Civo key do?": (
        DOCS,
        ["/docs/security.md", "/docs/security.md#what-civos-key-opens"],
        "delete every cluster",
    ),
    "How do I back it up?": (DOCS, ["/docs/operations.md", "/docs/operations.md#back-up"], "backup.db"),
    "How do I upgrade?": (DOCS, ["/docs/install.md", "/docs/install.md#upgrade"], "helm upgrade"),
    "How do I uninstall it?": (DOCS, ["/docs/install.md", "/docs/install.md#uninstall"], "helm uninstall"),
}


@cache
def links(address: str) -> frozenset[str]:
    """The addresses to which the page at *address* leads, with their anchors."""
    if address == README:
        targets = re.findall(r"\]\((docs/[^)\s]+)\)", text_of(README))
        return frozenset(f"/{target}" for target in targets)
    response = CLIENT.get(urldefrag(address).url)
    assert response.status_code == 200, address
    hrefs = [attributes["href"] or "" for tag, attributes in Page(response.text).elements if tag == "a"]
    return frozenset(urljoin(address, href) for href in hrefs)


@cache
def said_at(address: str) -> str:
    """The text of the section at *address* with those below it, of the whole page where it has no anchor."""
    if address == README:
        return text_of(README)
    path, anchor = urldefrag(address)
    name = shipped().find(path.removeprefix("/docs").strip("/"))
    assert name is not None, address
    parts = list(sections(name, shipped().text(name)))
    if not anchor:
        return " ".join(f"{part.heading} {part.text}" for part in parts)
    [begin] = [number for number, part in enumerate(parts) if part.anchor == anchor]
    after = [n for n, part in enumerate(parts) if n > begin and part.level <= parts[begin].level]
    return " ".join(part.text for part in parts[begin : after[0] if after else None])


@pytest.mark.parametrize("question", PATHS)
def test_a_question_of_a_newcomer_is_answered_within_two_clicks(question: str) -> None:
    here, clicks, answer = PATHS[question]
    assert len(clicks) <= 2
    for address in clicks:
        assert address in links(here), f"no link from {here} to {address}"
        here = address
    assert answer in said_at(here)


def test_twenty_questions_are_followed() -> None:
    assert len(PATHS) >= 20


def test_the_readme_leads_to_the_first_page_of_the_documentation() -> None:
    assert "/docs/README.md" in links(README)
