"""Plant a bug for each invariant and count how long the harness takes to see it.

`python -m campaigns.faults --planted`: each is planted into a copy of the tree, where worlds are run, and schedules
with real processes, from a seed until one says what the bug makes it say. A bug that is not seen fails the run.
"""

import csv
import importlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from campaigns.faults import planted_bugs
from campaigns.faults.campaign import judge as judge_world
from campaigns.faults.campaign import say
from campaigns.faults.generate import scenario
from campaigns.faults.processes.campaign import judge as judge_schedule
from tests.stores import a_store

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("receiver", "simulator", "campaigns", "tests", "demo", "rules", "tools")
MOST = {"worlds": 500, "processes": 60}
ONE = {"worlds": "world", "processes": "schedule"}
WHERE = {"worlds": "in process", "processes": "real processes"}
NOT_SEEN = 3
HEAD = ("invariant", "bug", "where", "seen by", "as", "from")


Place = tuple[str, str]  # a module and a function of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug that breaks *invariant*; a violation that begins with one of *seen* shows it, at each of *levels*.

    Each function of *breaks* is replaced by what the function of `planted_bugs` makes of it.
    """

    invariant: int
    name: str
    seen: tuple[str, ...]
    breaks: dict[Place, planted_bugs.Function]
    levels: tuple[str, ...] = tuple(MOST)


GANGS = "receiver.adapters.kubernetes.gangs"
CARRY_OUT, RETIRE = "receiver.step.carry_out", "receiver.step.retire"
HEADROOM, PARTS_OF_A_STEP = "receiver.core.scaling.spare", "receiver.step.parts"
BUGS: tuple[Bug, ...] = (
    Bug(
        invariant=1,
        name="a busy node is deleted: no check after the cordon",
        seen=("1 GPU pods",),
        breaks={(RETIRE, "advance"): planted_bugs.without_a_look},
    ),
    Bug(
        invariant=2,
        name="a pool may have a node more than its maximum",
        seen=("2 maximum",),
        breaks={("receiver.core.scaling.bounds", "bounds_of"): planted_bugs.one_node_more},
    ),
    Bug(
        invariant=2,
        name="budgets are ignored when nodes are bought",
        seen=("2 budget",),
        breaks={("receiver.core.scaling.capacity", "Allowance.refusing"): planted_bugs.never},
    ),
    Bug(
        invariant=2,
        name="nodes are bought although none could be removed",
        seen=("2 removable",),
        breaks={("receiver.core.model.model", "Rights.holds_growth"): planted_bugs.no},
        levels=("worlds",),
    ),
    Bug(
        invariant=3,
        name="every fifth delivery is forgotten",
        seen=("3 considered",),
        breaks={("receiver.adapters.store.memory", "SqlMemory.memory"): planted_bugs.all_but_every_fifth_delivery},
    ),
    Bug(
        invariant=3,
        name="a delivery that the store refused is answered 2xx",
        seen=("3 survives",),
        breaks={("receiver.adapters.store.inbox", "SqlInbox.remember"): planted_bugs.answered_anyway},
        levels=("processes",),
    ),
    Bug(
        invariant=4,
        name="nodes being built do not count as room, so nodes for their pods are bought again",
        seen=("4 asked twice",),
        breaks={("receiver.core.scaling.capacity", "_is_coming"): planted_bugs.no},
    ),
    Bug(
        invariant=4,
        name="a growth that a later step continues requests one node more",
        seen=("4 asked twice", "2 maximum"),
        breaks={(CARRY_OUT, "_grow"): planted_bugs.one_more_when_it_goes_on},
    ),
    Bug(
        invariant=5,
        name="a failed action is never retried",
        seen=("5 settles",),
        breaks={(CARRY_OUT, "_too_early"): planted_bugs.for_ever},
    ),
    Bug(
        invariant=6,
        name="observe mode requests the nodes that it would request",
        seen=("6 observe",),
        breaks={("receiver.adapters.observe", "ObservedCloud.resize"): planted_bugs.as_in_act_mode},
    ),
    Bug(
        invariant=7,
        name="a decision's target ignores the guardrails",
        seen=("7 last reason",),
        breaks={("receiver.core.scaling.decide", "decide"): planted_bugs.as_wanted},
    ),
    Bug(
        invariant=8,
        name="errors in messages and pages are not caught",
        seen=("bug",),
        breaks={(PARTS_OF_A_STEP, "Parts.part"): planted_bugs.uncaught_for_people},
        levels=("worlds",),
    ),
    Bug(
        invariant=9,
        name="an error while acting for one pool ends the step for all",
        seen=("bug",),
        breaks={(PARTS_OF_A_STEP, "Parts.part"): planted_bugs.uncaught_while_acting},
        levels=("worlds",),
    ),
    Bug(
        invariant=10,
        name="a refused gang counts as work that is likely to come again",
        seen=("10 refused",),
        breaks={
            (HEADROOM, "refused"): planted_bugs.nothing_refused,
            (HEADROOM, "keep_warm"): planted_bugs.beside_refused_gangs,
        },
        levels=("worlds",),
    ),
    Bug(
        invariant=1,
        name="a node is removed while a claim is allocated on it",
        seen=("1 claims", "1 GPU pods"),
        breaks={
            ("receiver.adapters.kubernetes.dra", "PodClaims._holding"): planted_bugs.held_by_nobody,
            (RETIRE, "advance"): planted_bugs.without_a_look_at_claims,
        },
        levels=("worlds",),
    ),
    Bug(
        invariant=4,
        name="a claim that pods share is counted once for each of them",
        seen=("4 asked twice",),
        breaks={("receiver.step.devices", "_demand"): planted_bugs.each_for_itself},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="a pool of devices counts for claims before all of its slices are there",
        seen=("5 shown",),
        breaks={("receiver.adapters.kubernetes.devices", "by_node"): planted_bugs.as_if_complete},
        levels=("worlds",),
    ),
    Bug(
        invariant=10,
        name="a part of a gang is bought",
        seen=("10 refused",),
        breaks={(GANGS, "Gangs._policies"): planted_bugs.as_basic},
        levels=("worlds",),
    ),
    Bug(
        invariant=10,
        name="a leader is bought without its workers",
        seen=("10 refused",),
        breaks={(GANGS, "Gangs._worker_sets"): planted_bugs.without_workers},
        levels=("worlds",),
    ),
)
BUGS += (
    Bug(
        invariant=4,
        name="a sick node counts as room for waiting work",
        seen=("4 sick room",),
        breaks={("receiver.core.scaling.capacity", "_capacity"): planted_bugs.beside_sick_gpus},
        levels=("worlds",),
    ),
    Bug(
        invariant=1,
        name="a sick node is removed while its work runs",
        seen=("1 GPU pods", "1 evictions"),
        breaks={
            ("receiver.core.scaling.holds", "may_go"): planted_bugs.to_be_replaced,
            (RETIRE, "advance"): planted_bugs.without_a_look_at_the_sick,
        },
        levels=("worlds",),
    ),
    Bug(
        invariant=2,
        name="more nodes are repaired than the pool's share",
        seen=("2 repair",),
        breaks={("receiver.capabilities.repair.choosing", "under_repair"): planted_bugs.every_sick_node},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="a node with a startup taint shows what the next one offers",
        seen=("5 disproved", "5 settles", "1 on its way"),
        breaks={
            ("receiver.step.pool_states", "startup_taint"): planted_bugs.never,
            ("receiver.core.scaling.template", "offer_of"): planted_bugs.with_startup_taints,
        },
        levels=("worlds",),
    ),
)

# What checks on a real control plane had found, and random worlds had not.
OUTSIDE: tuple[Bug, ...] = (
    Bug(
        invariant=8,
        name="the control state is stored with the picture",
        seen=("5 bounded steps",),  # no step trusts its clock
        breaks={("receiver.step.act", "act"): planted_bugs.control_with_the_picture},
        levels=("worlds",),
    ),
    Bug(
        invariant=8,
        name="errors in chores that write to nodes are not caught",
        seen=("bug",),
        breaks={(PARTS_OF_A_STEP, "Parts.part"): planted_bugs.uncaught_in_chores},
        levels=("worlds",),
    ),
    Bug(
        invariant=4,
        name="rooms are filled in the order of service, which costs a node more",
        seen=("4 filled poorly",),
        breaks={("receiver.core.scaling.filling", "rearranged"): planted_bugs.as_it_comes},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="one odd node disproves its pool",
        seen=("5 disproved",),
        breaks={("receiver.core.scaling.demand", "misfit"): planted_bugs.by_the_newest_alone},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="a node whose GPUs a DRA driver serves waits for its device plugin",
        seen=("1 never came",),
        breaks={("receiver.step.pool_states", "served_by_dra"): planted_bugs.no},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="a pool whose size is scarce asks for all nodes or none",
        seen=("5 partial stock",),
        breaks={("receiver.core.scaling.waits", "smaller_request"): planted_bugs.never},
        levels=("worlds",),
    ),
    Bug(
        invariant=4,
        name="requests of CPU and memory do not count",
        seen=("4 asked twice", "5 settles"),
        breaks={
            ("receiver.core.model.pods", "Pod.asks"): planted_bugs.gpus_alone,
            ("receiver.core.scaling.demand", "too_much"): planted_bugs.never,
        },
        levels=("worlds",),
    ),
    Bug(
        invariant=9,
        name="a call that hangs holds the other pools up",
        seen=("9 held up",),
        breaks={(CARRY_OUT, "_later"): planted_bugs.without_hurry},
        levels=("worlds",),
    ),
    Bug(
        invariant=1,
        name="a window takes its word back while it empties a node",
        seen=("1 evictions",),
        breaks={("receiver.core.scaling.bounds", "evicting"): planted_bugs.nothing_begun},
        levels=("worlds",),
    ),
    Bug(
        invariant=1,
        name="a pod that nothing starts again is evicted",
        seen=("1 pods lost",),
        breaks={("receiver.core.model.pods", "keeps_for"): planted_bugs.never},
        levels=("worlds",),
    ),
    Bug(
        invariant=9,
        name="a removal that a PodDisruptionBudget blocks ends without that reason",
        seen=("9 says why",),
        breaks={(RETIRE, "advance"): planted_bugs.with_one_reason_for_all},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="an instance whose node object was deleted is young for ever",
        seen=("5 broken",),
        breaks={("receiver.step.pool_states", "_node"): planted_bugs.young_for_ever},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="a watch that fell waits for its backoff although the API server answers again",
        seen=("5 watched again",),
        breaks={("receiver.adapters.kubernetes.reflector", "Reflector._list"): planted_bugs.without_hurry_to_watch},
        levels=("processes",),
    ),
    Bug(
        invariant=8,
        name="a server whose steps all fail is ready",
        seen=("8 ready",),
        breaks={("receiver.runtime.loop", "Loop.health"): planted_bugs.as_if_steps_went_well},
        levels=("processes",),
    ),
)
BUGS += OUTSIDE

# Everyday operations.
BUGS += (
    Bug(
        invariant=5,
        name="what a person does to a node is taken for the pool's next one",
        seen=("5 disproved", "5 refused for ever", "5 settles"),
        breaks={("receiver.core.scaling.template", "_with_template"): planted_bugs.by_its_later_life},
        levels=("worlds",),
    ),
    Bug(
        invariant=4,
        name="a pod that leaves holds its room for ever",
        seen=("4 room comes back",),
        breaks={("receiver.core.scaling.terminations", "leaving_soon"): planted_bugs.nothing_leaves},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="a dead kubelet keeps its node busy",
        seen=("5 kept by nothing", "5 settles"),
        breaks={("receiver.core.scaling.terminations", "is_stuck"): planted_bugs.no},
        levels=("worlds",),
    ),
    Bug(
        invariant=4,
        name="a nominated pod holds no room",
        seen=("4 reserved room", "1 reserved"),
        breaks={("receiver.core.scaling.nominations", "without_misplaced"): planted_bugs.without_nominations},
        levels=("worlds",),
    ),
    Bug(
        invariant=5,
        name="what the scheduler refuses keeps a node",
        seen=("5 kept by nothing",),
        breaks={("receiver.core.scaling.witness", "barred"): planted_bugs.nothing_barred},
        levels=("worlds",),
    ),
    Bug(
        invariant=1,
        name="a word that Civo has not documented makes a node broken",
        seen=("1 never came",),
        breaks={("receiver.step.pool_states", "stage_of"): planted_bugs.broken_by_a_word},
        levels=("worlds",),
    ),
)


def planted(bug: Bug, root: Path) -> None:
    """Put *bug* into the tree at *root*: below each module its function is replaced."""
    for (module, function), broken in bug.breaks.items():
        with (root / module.replace(".", "/")).with_suffix(".py").open("a", encoding="utf-8") as file:
            file.write("\n\nfrom campaigns.faults import planted_bugs\n")
            file.write(f"\n{function} = planted_bugs.in_place_of({function}, planted_bugs.{broken.__name__})\n")


def plant(words: str, monkeypatch: "pytest.MonkeyPatch") -> None:
    """Plant the bug with *words* in its name into this process."""
    [bug] = [bug for bug in BUGS if words in bug.name]
    for (module, function), broken in bug.breaks.items():
        of: Any = importlib.import_module(module)
        *owner, name = function.split(".")
        for each in owner:
            of = getattr(of, each)
        real = getattr(of, name)
        here = planted_bugs.in_place_of(real, broken)
        monkeypatch.setattr(of, name, here)
        for other in [m for m in sys.modules.values() if getattr(m, name, None) is real]:  # that imported it
            monkeypatch.setattr(other, name, here)


def plant_all(levels: Sequence[str], seed: int, words: str = "", table: Path | None = None) -> int:
    """Plant each bug whose name holds *words*, at each of *levels*; return how many were not seen. Their rows in the
    *table* are written anew."""
    missed = 0
    say(f"from seed {seed}: | invariant | bug | where | seen by | as |")
    for bug in (b for b in BUGS if words in b.name):
        for level in (x for x in levels if x in bug.levels):
            ran = _in_a_copy(bug, level, seed)
            missed += ran.returncode != 0
            told = ran.stdout.strip().splitlines()
            said = told[-1] if told else ran.stderr[-2000:]
            say(f"| {bug.invariant} | {bug.name} | {WHERE[level]} | {said} |")
            if table is not None:
                _tabulate(table, bug, [WHERE[level], *said.replace("`", "").split(" | "), f"seed {seed}"])
    say(f"{missed} bugs were not seen")
    return missed


def _tabulate(table: Path, bug: Bug, row: Sequence[str]) -> None:
    """Put *row* of *bug* into its place in the file of the table, for the one that is there."""
    order = {each.name: number for number, each in enumerate(BUGS)}
    rows = list(csv.reader(table.read_text(encoding="utf-8").splitlines()))[1:] if table.exists() else []
    rows = [known for known in rows if known[1] in order and known[1:3] != [bug.name, row[0]]]
    rows.append([str(bug.invariant), bug.name, *row])
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *sorted(rows, key=lambda r: (order[r[1]], r[2]))])


def _in_a_copy(bug: Bug, level: str, seed: int) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryDirectory(prefix="faults-planted-") as folder:
        for part in PARTS:
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        planted(bug, Path(folder))
        command = [sys.executable, "-m", "campaigns.faults", "--seed", str(seed), "--hunt", level, *bug.seen]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def hunt(level: str, seen: Sequence[str], seed: int) -> int:
    """Run worlds or schedules from *seed* on until a violation begins as one of *seen*; 3 when none does."""
    most, others = MOST[level], 0
    with a_store() as store:
        for number in range(most):
            this = seed + number
            result = judge_world(scenario(this), store) if level == "worlds" else judge_schedule(this)
            lines = result.message.splitlines()
            said = next((line for line in lines if line.startswith(tuple(seen))), None)
            if said is not None:
                say(f"{ONE[level]} {number + 1} | `{said.split(':')[0]}`")
                return 0
            others += bool(lines)
    say(f"none of {most} | NOT SEEN; {others} had other violations")
    return NOT_SEEN
