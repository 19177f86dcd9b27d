"""Every golden message: its name and how it comes about."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from receiver.core.notices.grouping import PageLinks, Seal, compose
from receiver.core.notices.notice import Notice
from tests.core.notices import of_configuration, of_installations, of_many, of_money, of_people, of_pools, of_questions

GOLDEN = Path(__file__).parent / "golden"
SEAL = Seal("operator-token-of-thirty-two-chars", "the-random-key-that-the-store-keeps")
PAGES = PageLinks(public_url="https://gpu.example.com", docs_url="https://git.example.com/gpu/docs", seal=lambda: SEAL)
WITHOUT = PageLinks()
CASES: Mapping[str, Callable[[], Notice]] = {
    **of_pools.CASES,
    **of_money.CASES,
    **of_people.CASES,
    **of_questions.CASES,
    **of_many.CASES,
    **of_configuration.CASES,
    **of_installations.CASES,
}


def written(name: str, links: PageLinks = PAGES) -> str:
    """The message *name* as people get it: title, an empty line, the text."""
    message = compose(CASES[name](), links)
    return f"{message.title}\n\n{message.body}\n"


@cache
def every_golden() -> Mapping[str, str]:
    """Every golden file's name and what belongs into it."""
    return {
        **{f"{name}.txt": written(name) for name in CASES},
        "grew.without-addresses.txt": written("grew", WITHOUT),
    }
