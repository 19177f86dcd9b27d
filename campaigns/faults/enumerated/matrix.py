"""Every site times every fault: which lives that takes, their results, and the table of them.

A site is struck at its first and its last write in a tour: those to Civo and Kubernetes in the `TOURS_OUTSIDE` shortest
tours that make them, those to the store in the shortest.
"""

import csv
import io
import multiprocessing
import multiprocessing.util
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.faults.campaign import LONGEST_SECONDS, PROGRESS_EVERY, say
from campaigns.faults.enumerated.drive import Recorded, live, record
from campaigns.faults.enumerated.sites import Site
from campaigns.faults.enumerated.tap import FAULTS, Blow
from campaigns.faults.enumerated.tours import TOURS
from receiver.adapters.store import SqlStore
from tests.stores import a_store, empty, silent_log

PUBLISHED = Path(__file__).parents[3] / "docs" / "enumerated-faults.csv"
TOURS_OUTSIDE = 3
BY_NAME = {tour.name: tour for tour in TOURS}
HEAD = ("write", "function", "tours")


@dataclass(frozen=True, slots=True)
class Trial:
    """One life to live: a tour, and what strikes it."""

    tour: str
    blow: Blow


@dataclass(slots=True)
class Table:
    """What came of the trials: by site and fault how many *held*, and what those that did not say."""

    held: dict[tuple[Site, str], int] = field(default_factory=dict)
    broken: list[tuple[Trial, str]] = field(default_factory=list)
    tours: dict[Site, set[str]] = field(default_factory=dict)

    def add(self, trial: Trial, violation: str) -> None:
        """Count one result."""
        key = (trial.blow.site, trial.blow.fault)
        self.held.setdefault(key, 0)
        self.tours.setdefault(trial.blow.site, set()).add(trial.tour)
        if violation:
            self.broken.append((trial, violation))
        else:
            self.held[key] += 1

    @property
    def lives(self) -> int:
        """How many were lived."""
        return sum(self.held.values()) + len(self.broken)

    def to_csv(self) -> str:
        """One row for each site: in how many lives all held, by fault."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow([*HEAD, *FAULTS])
        broken = {(trial.blow.site, trial.blow.fault) for trial, _ in self.broken}
        for site in sorted(self.tours):
            cells = [f"{self.held[site, fault]}{' BROKEN' * ((site, fault) in broken)}" for fault in FAULTS]
            rows.writerow([site.verb, site.where, " + ".join(sorted(self.tours[site])), *cells])
        return text.getvalue()


def published_sites(text: str) -> frozenset[Site]:
    """The sites of a table as `Table.to_csv` writes it."""
    return frozenset(Site(row["write"], row["function"]) for row in csv.DictReader(io.StringIO(text)))


def recorded(store: SqlStore, tours: Iterable[str] = BY_NAME) -> dict[str, Recorded]:
    """Live each of *tours* without a fault. Raises ViolationError."""
    found = {}
    for name in tours:
        empty(store)
        with silent_log([]):
            found[name] = record(BY_NAME[name], store)
    return found


def trials(known: Mapping[str, Recorded]) -> list[Trial]:
    """Every trial; first each site's first write in its shortest tour, so that every cell has a result early."""
    sites = sorted({site for found in known.values() for site in found.passed})
    struck = [
        (place, number, name, site)
        for site in sites
        for place, name in enumerate(_tours_of(site, known))
        for number in sorted({1, known[name].passed[site]})
    ]
    struck.sort(key=lambda each: each[0] > 0 or each[1] > 1)
    return [Trial(name, Blow(site, number, fault)) for _, number, name, site in struck for fault in FAULTS]


def _tours_of(site: Site, known: Mapping[str, Recorded]) -> Sequence[str]:
    """The tours in which *site* is struck, the one with the fewest writes first."""
    passing = [name for name, found in known.items() if site in found.passed]
    passing.sort(key=lambda name: sum(known[name].passed.values()))
    return passing[: 1 if site.verb.startswith("store.") else TOURS_OUTSIDE]


def attempt(trial: Trial, known: Mapping[str, Recorded], store: SqlStore) -> str:
    """Live one trial on *store*, which is emptied first; return its violation, or nothing."""
    empty(store)
    errors: list[str] = []
    with silent_log(errors):
        violation = live(BY_NAME[trial.tour], store, trial.blow, known[trial.tour].end)
    return "\n".join([violation, *errors[-1:]]) if violation else ""


def enumerate_all(workers: int, only: str = "", known: Mapping[str, Recorded] | None = None) -> Table:
    """Live every trial whose site or tour has *only* in its name, and print how it goes."""
    table, began, told = Table(), time.monotonic(), time.monotonic()
    if known is None:
        with a_store() as store:
            known = recorded(store)
    wanted = [t for t in trials(known) if only in f"{t.tour}: {t.blow.site} {t.blow.fault}"]
    say(f"{len({t.blow.site for t in wanted})} write sites x {len(FAULTS)} faults: {len(wanted)} lives")
    for done, (trial, violation) in enumerate(_results(wanted, known, workers), start=1):
        table.add(trial, violation)
        if violation:
            say(f"{trial.tour}: {trial.blow.fault} at write {trial.blow.number} of {trial.blow.site}\n  {violation}")
        if time.monotonic() - told > PROGRESS_EVERY:
            told = time.monotonic()
            say(f"{done} lives, {len(table.broken)} broken, {told - began:.0f} s ({(told - began) / done:.2f} s each)")
    return table


def _results(wanted: Sequence[Trial], known: Mapping[str, Recorded], workers: int) -> Iterator[tuple[Trial, str]]:
    with multiprocessing.get_context("forkserver").Pool(workers, _begin, (known,)) as pool:
        yield from pool.imap_unordered(_attempt, wanted, chunksize=8)
        pool.close()
        pool.join()


class _Worker:
    """What a worker keeps between lives."""

    store: SqlStore
    known: Mapping[str, Recorded]


def _begin(known: Mapping[str, Recorded]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _too_long)
    opened = a_store()
    _Worker.store, _Worker.known = opened.__enter__(), known
    multiprocessing.util.Finalize(None, opened.__exit__, args=(None, None, None), exitpriority=10)


def _too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"this life takes more than {LONGEST_SECONDS} s of processor time")


def _attempt(trial: Trial) -> tuple[Trial, str]:
    signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)
    try:
        return trial, attempt(trial, _Worker.known, _Worker.store)
    except Exception as error:  # noqa: BLE001  # one bad life must not end the rest
        return trial, f"harness: {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
