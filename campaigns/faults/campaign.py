"""Run many worlds over all cores, or one with its trace."""

import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from campaigns.faults.generate import scenario
from campaigns.faults.run import Run
from campaigns.faults.scenario import Scenario
from campaigns.faults.tally import Tally, ViolationError
from receiver.adapters.store import SqlStore
from tests.stores import WorldStore, a_store, choose, empty, silent_log, store_of

LONGEST_SECONDS = 120  # of processor time for one world: a busy machine makes none longer
PROGRESS_EVERY = 15.0


@dataclass(slots=True)
class Result:
    """What became of one world: *message* is empty when the invariants held."""

    seed: int
    message: str
    tally: Tally


@dataclass(slots=True)
class Found:
    """What a campaign found."""

    tally: Tally = field(default_factory=Tally)
    violations: list[Result] = field(default_factory=list)
    seconds: float = 0.0


def judge(world: Scenario, store: WorldStore) -> Result:
    """Run one world on *store*, which is emptied first."""
    empty(store)
    errors: list[str] = []
    run = Run(world, store)
    try:
        with silent_log(errors):
            run.go()
    except ViolationError as violation:
        told = f"\n{errors[-1]}" if errors else ""
        return Result(world.seed, f"{violation}{told}", run.tally)
    except Exception:  # noqa: BLE001  # one bad world must not end the campaign
        return Result(world.seed, f"harness: {traceback.format_exc()}", run.tally)
    return Result(world.seed, "", run.tally)


_store: SqlStore | None = None


def _begin() -> None:
    """A worker's own real store, kept until the worker ends."""
    global _store
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _too_long)
    opened = a_store()
    _store = opened.__enter__()
    multiprocessing.util.Finalize(None, opened.__exit__, args=(None, None, None), exitpriority=10)


def _too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"this world takes more than {LONGEST_SECONDS} s of processor time")


def _judge_seed(seed: int, mode: str | None = None) -> Result:
    assert _store is not None
    signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)
    try:
        world = scenario(seed)
        return judge(world if mode is None else replace(world, mode=mode), choose(seed, _store))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def campaign(seeds: Sequence[int], processes: int | None = None, mode: str | None = None) -> Found:
    """Run the worlds of *seeds*, in *mode* if it is not the worlds' own, and print how it goes."""
    found = Found()
    began = told = time.monotonic()
    for result in _results(seeds, processes or os.cpu_count() or 1, mode):
        found.tally.add(result.tally)
        if result.message:
            found.violations.append(result)
            say(f"world {result.seed}: {result.message.splitlines()[0]}")
        if time.monotonic() - told > PROGRESS_EVERY:
            told = time.monotonic()
            done, seconds = found.tally.worlds, told - began
            say(f"{done} worlds, {len(found.violations)} violations, {seconds:.0f} s ({seconds / done:.2f} s each)")
    found.seconds = time.monotonic() - began
    return found


def _results(seeds: Sequence[int], processes: int, mode: str | None) -> Iterator[Result]:
    play = partial(_judge_seed, mode=mode)
    if processes == 1:
        _begin()
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("forkserver").Pool(processes, _begin) as pool:
        yield from pool.imap_unordered(play, seeds, chunksize=4)
        pool.close()
        pool.join()


def replay(world: Scenario) -> str:
    """Run one world with its trace, on the store of its seed; return its violation, or nothing."""
    errors: list[str] = []
    with store_of(world.seed) as store, silent_log(errors):
        try:
            Run(world, store, say).go()
        except ViolationError as violation:
            return "\n".join([str(violation), *errors[-1:]])
    return ""


def say(line: str) -> None:
    """One line to the terminal, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
