"""Contradictions in what the file says about reports."""

from collections.abc import Iterator, Sequence

from receiver.config.mistakes import Contradiction, spell
from receiver.config.prices import insane
from receiver.config.reports import ReportsSpec

EIGHT_GPUS = 8  # the most that a node has: a commitment names a size, and its price is per node


def report_contradictions(reports: ReportsSpec) -> Iterator[Contradiction]:
    """Yield every contradiction in *reports*."""
    named: Sequence[tuple[str, str, Sequence[str], str]] = (
        ("units", "name", [unit.name for unit in reports.units], "give each unit its own name"),
        (
            "commitments",
            "term_months",
            [f"{offer.size} for {offer.term_months} months" for offer in reports.commitments],
            "list each size and term once",
        ),
    )
    for key, last, words, remedy in named:
        for index, word in enumerate(words):
            if word in words[:index]:
                where, first = ("reports", key, index, last), ("reports", key, words.index(word), last)
                problem = f"{word} is listed by {spell(first)} already"
                yield Contradiction(path=where, problem=problem, remedy=remedy, over=(first,))
    for index, offer in enumerate(reports.commitments):
        for wrong in insane(offer.usd_per_hour, EIGHT_GPUS, ""):
            path = ("reports", "commitments", index, "usd_per_hour")
            yield Contradiction(path=path, problem=wrong.problem, remedy=wrong.remedy)
