"""Is PromQL of this product the same to VictoriaMetrics? And does the demo work with it in Prometheus' place?

    python -m tests.victoria [WORD ...]   compares every expression, in worlds with a WORD in their names, else in all
    python -m tests.victoria --demo       plays the demo with either offset of the newest samples

The first ends with status 1 where an expression differs, the second where a check fails. `make victoria` runs both.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.victoria.compare import EXPLAINED, Verdict, compare, expressions
from tests.victoria.demo import play_demos
from tests.victoria.servers import both
from tests.victoria.worlds import worlds


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def compared(words: Sequence[str]) -> Mapping[str, Verdict]:
    """Compare in every world with one of *words* in its name; return the verdicts by the names of expressions."""
    verdicts: dict[str, Verdict] = defaultdict(Verdict)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, suppress(KeyboardInterrupt):  # Ctrl-C: what was found so far
        for number, world in enumerate(worlds(Path(name), words)):
            folder = Path(name) / str(number)
            folder.mkdir()
            with both(world, folder) as servers:
                compare(world, servers, verdicts)
            shutil.rmtree(folder)
            say(f"{time.monotonic() - began:6.0f} s  {world.name}")
    return verdicts


def main() -> int:
    """Do what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.victoria", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--demo", action="store_true", help="play the demo instead")
    parser.add_argument("word", nargs="*", help="only worlds with one of these words in their names")
    given = parser.parse_args()
    if given.demo:
        return play_demos()
    verdicts = compared(given.word)
    differ = {name: verdict for name, verdict in verdicts.items() if verdict.differs}
    answered = sum(verdict.told > 0 for verdict in verdicts.values())
    times = sum(verdict.asked for verdict in verdicts.values())
    say(f"{len(expressions())} expressions, {answered} with an answer, {times} comparisons, {len(differ)} differ")
    for name, verdict in verdicts.items():
        if verdict.explained:
            say(f"{name}: {verdict.explained} of {verdict.asked} are no fault: {EXPLAINED[name][1]}")
    for name, verdict in differ.items():
        say(f"{name}: {verdict.differs} of {verdict.asked}\n    {verdict.example}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
