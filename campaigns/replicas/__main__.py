"""``python -m campaigns.replicas``: three replicas on PostgreSQL, and rounds of work in which the leader dies, is
frozen and wakes, loses its database while it reaches Civo, or is told to stop. See tests/README.md.
"""

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from campaigns.faults.campaign import say
from campaigns.replicas.replica_set import SHORT, ReplicaSet, Storm, replica_set
from campaigns.replicas.rounds import FAULTS, Fault, Round, a_server, play
from demo.stack import until_signalled


def main() -> int:
    """Play what the command line asks for; 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.replicas", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many rounds")
    parser.add_argument("--seed", type=int, default=1, help="the dice of every round are thrown from it and its number")
    parser.add_argument("--only", choices=sorted({f.__name__ for f in FAULTS}), help="this fault in every round")
    parser.add_argument("--by-default", action="store_true", help="the lease of the product instead of 5 s")
    parser.add_argument("--until-wrong", action="store_true", help="stop at the first round that shows something")
    asked = parser.parse_args()
    chosen = next((f for f in FAULTS if f.__name__ == asked.only), None)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    with (
        a_server() as server,
        tempfile.TemporaryDirectory(prefix="replicas-") as folder,
        replica_set(server, Path(folder), {} if asked.by_default else SHORT) as replicas,
        Storm(replicas.receivers) as storm,
    ):
        return 1 if campaign(asked, chosen, replicas, storm) else 0


def campaign(asked: argparse.Namespace, chosen: Fault | None, replicas: ReplicaSet, storm: Storm) -> int:
    """Play the rounds and tell of each; return in how many something did not hold."""
    began, bad, told = time.monotonic(), 0, 0
    takeovers: list[tuple[str, float]] = []
    kinds: Counter[str] = Counter()
    for number in range(1, asked.rounds + 1):
        dice = random.Random(f"{asked.seed}/{number}")
        fault = chosen or dice.choice(FAULTS)
        kinds[fault.__name__] += 1
        a = play(Round(replicas, dice), storm, fault)
        took = "" if a.takeover is None else f", another led {a.takeover:.1f} s later"
        takeovers += [(fault.__name__, a.takeover)] if a.takeover is not None else []
        say(f"round {number} of seed {asked.seed}: {fault.__name__}: {'; '.join(a.did)}{took}")
        found = replicas.violations(tuple(storm.accepted))
        new = [*a.wrong, *found[told:]]
        told = len(found)
        bad += bool(new)
        for line in new:
            say(f"  WRONG: {line}")
        if new and asked.until_wrong:
            break
    effects = replicas.effects
    say(
        f"{sum(kinds.values())} rounds in {time.monotonic() - began:.0f} s: {dict(kinds)}; {len(storm.accepted)}"
        f" webhooks answered 202, {storm.refused} refused; {replicas.jobs} jobs, {effects.bought} nodes bought,"
        f" {effects.removed} removed; {len(replicas.terms())} terms"
    )
    for name in ("killed", "frozen", "partitioned", "told_to_stop"):
        if times := sorted(t for kind, t in takeovers if kind.startswith(name)):
            say(f"{name}: takeover median {times[len(times) // 2]:.1f} s, longest {times[-1]:.1f} s")
    say(f"{bad} rounds in which something did not hold")
    return bad


if __name__ == "__main__":
    sys.exit(until_signalled(main))
