"""Plant one bug at a time into the core and show which tests see it: `make mutants`.

Each guardrail has at least one. A mutant that no test kills is a hole in the tests and fails the run. The
laws (hypothesis) and the examples are run apart, so that a property that sees nothing is seen too; the laws
are run for the mutants that break an invariant by themselves (budget, maximum and limits are checked in a row,
so that where one guardrail sleeps the next leaves no more).
"""

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAWS = "tests/core/test_laws.py"
EXAMPLES = ("tests/core/test_assign.py", "tests/core/test_decide.py", "tests/core/test_cost.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """Replace *old* by *new* once in *file* (of receiver/core); *lawful* expects a law to see it too."""

    name: str
    file: str
    old: str
    new: str
    lawful: bool = False


MUTANTS = (
    # assign
    Mutant(
        name="nodes on their way are forgotten",
        file="capacity.py",
        old="if _is_coming(node, pool, facts):",
        new="if False:",
    ),
    Mutant(
        name="nodes that Civo does not list yet are forgotten",
        file="capacity.py",
        old="for _ in range(0 if unlisted_too_long(pool, state, facts.at) else state.unlisted):",
        new="for _ in range(0):",
        lawful=True,
    ),
    Mutant(
        name="a gang takes what it can get",
        file="assign.py",
        old="elif workload.gang:",
        new="elif False:",
        lawful=True,
    ),
    Mutant(
        name="the budget is not shared between pools",
        file="capacity.py",
        old="self.usd -= count * unit_price(tally.pool.price_usd_per_hour, self.policy.billing)",
        new="pass",
        lawful=True,
    ),
    Mutant(
        name="the budget is not looked at",
        file="capacity.py",
        old="> self.usd):\n            return 0",
        new="> self.usd):\n            pass",
        lawful=True,
    ),
    Mutant(
        name="growth per hour is not shared between pools",
        file="capacity.py",
        old="            self.nodes -= count",
        new="            pass",
        lawful=True,
    ),
    Mutant(
        name="max_gpus is not shared between pools",
        file="capacity.py",
        old="            self.gpus -= count * tally.pool.gpus_per_node",
        new="            pass",
        lawful=True,
    ),
    Mutant(
        name="the maximum is off by one in the assignment",
        file="capacity.py",
        old="+ count > tally.bounds.max_nodes",
        new="+ count > tally.bounds.max_nodes + 1",
    ),
    Mutant(
        name="the dearest pool first",
        file="assign.py",
        old="price / max(1, pool.gpus_per_node)",
        new="-price / max(1, pool.gpus_per_node)",
    ),
    Mutant(
        name="low priority first",
        file="demand.py",
        old="key=lambda w: (-w.priority,",
        new="key=lambda w: (w.priority,",
    ),
    Mutant(
        name="taints are not looked at",
        file="demand.py",
        old='if taint.effect != "PreferNoSchedule" and',
        new="if False and",
    ),
    # budget and cost
    Mutant(
        name="the running nodes' next hour is not reserved",
        file="budget.py",
        old="return nodes * unit_price(price, policy.billing)",
        new="return Decimal(0)",
        lawful=True,
    ),
    Mutant(
        name="growth goes on at the hold line",
        file="budget.py",
        old="if self.stage in (BudgetStage.HOLD, BudgetStage.STOP) or self.unpriced:",
        new="if self.stage is BudgetStage.STOP or self.unpriced:",
        lawful=True,
    ),
    Mutant(name="an unpriced size costs nothing", file="budget.py", old=" or self.unpriced:", new=":"),
    Mutant(
        name="the started hour is free",
        file="cost.py",
        old="return -((start - at) // billing.granularity)",
        new="return (at - start) // billing.granularity",
    ),
    # decide
    Mutant(
        name="busy nodes may go",
        file="decide.py",
        old="        and not node.busy\n",
        new="",
        lawful=True,
    ),
    Mutant(
        name="protected nodes may go", file="decide.py", old="        and not node.protected\n", new="", lawful=True
    ),
    Mutant(
        name="nodes that host monitoring may go",
        file="decide.py",
        old="        and not node.hosts\n",
        new="",
        lawful=True,
    ),
    Mutant(
        name="nodes that somebody else cordoned may go",
        file="decide.py",
        old="        and node.cordoned_by is not CordonedBy.SOMEONE\n",
        new="",
        lawful=True,
    ),
    Mutant(
        name="nodes that waiting work needs may go",
        file="decide.py",
        old="        and node.instance not in case.wanted.needed\n        and not _was_refused",
        new="        and not _was_refused",
    ),
    Mutant(name="idle nodes go at once", file="moments.py", old="return max(rested, moment)", new="return rested"),
    Mutant(
        name="removal beats demand",
        file="decide.py",
        old="if target == case.present and due:",
        new="if due:",
    ),
    Mutant(
        name="standby nodes go",
        file="decide.py",
        old="len(spare) - keep",
        new="len(spare)",
    ),
    Mutant(
        name="the decision forgets the cooldown's end",
        file="moments.py",
        old="yield state.last_grow_at + pool.grow_cooldown",
        new="yield case.now",
        lawful=True,
    ),
    Mutant(
        name="the decision forgets when idle nodes may go",
        file="moments.py",
        old="        yield removal_moment(node, case.pool, case.policy, case.now)\n",
        new="",
        lawful=True,
    ),
    # guardrails, one each
    Mutant(
        name="sources_answer allows growth blind",
        file="guardrails.py",
        old="if not case.up(Source.PROMETHEUS) and",
        new="if False and",
    ),
    Mutant(
        name="sources_answer allows removal blind",
        file="guardrails.py",
        old="if not optional and not case.up(source):",
        new="if False:",
    ),
    Mutant(
        name="price_is_known sleeps",
        file="guardrails.py",
        old="if target > case.present and case.pool.price_usd_per_hour is None:",
        new="if False:",
        lawful=True,
    ),
    Mutant(
        name="within_budget sleeps",
        file="guardrails.py",
        old="if target <= case.present or budget is None:",
        new="if True or budget is None:",
    ),
    Mutant(
        name="within_maximum sleeps",
        file="guardrails.py",
        old="    if target <= case.present:\n        return None\n    left = max(",
        new="    if True:\n        return None\n    left = max(",
    ),
    Mutant(
        name="within_limits forgets growth",
        file="guardrails.py",
        old="if target == case.present or left >= target:",
        new="if True:",
        lawful=True,
    ),
    Mutant(
        name="within_limits forgets removals",
        file="guardrails.py",
        old="if left is None or case.present - left <= target:",
        new="if True:",
        lawful=True,
    ),
    Mutant(
        name="not_frozen sleeps",
        file="guardrails.py",
        old="signal = case.firing(SignalAction.FREEZE)",
        new="signal = None",
    ),
    Mutant(
        name="not_silenced sleeps",
        file="guardrails.py",
        old="return (case.present, case.state.silenced_by) if case.state.silenced_by else None",
        new="return None",
    ),
    Mutant(
        name="growth_is_not_paused sleeps",
        file="guardrails.py",
        old="signal = case.firing(SignalAction.PAUSE_SCALE_UP)",
        new="signal = None",
    ),
    Mutant(
        name="above_the_floor sleeps",
        file="guardrails.py",
        old="if target >= case.present or target >= floor or",
        new="if True or",
    ),
    Mutant(
        name="not_backing_off ends a second early",
        file="guardrails.py",
        old="not backoff.holds(case.now, longest)",
        new="not backoff.holds(case.now + timedelta(seconds=1), longest)",
    ),
    Mutant(
        name="a node refused a moment ago is chosen again",
        file="decide.py",
        old="node.instance in backoff.instances and case.now < backoff.until",
        new="False",
    ),
    Mutant(name="provisioning_works sleeps", file="guardrails.py", old="    if not stuck:\n", new="    if True:\n"),
    Mutant(
        name="cooled_down ends a second early",
        file="guardrails.py",
        old="case.now >= last + cooldown or",
        new="case.now >= last + cooldown - timedelta(seconds=1) or",
    ),
    Mutant(
        name="one_change_at_a_time sleeps",
        file="guardrails.py",
        old="if action is None or (target > case.present)",
        new="if True or (target > case.present)",
    ),
    Mutant(
        name="a guardrail may enlarge a change",
        file="guardrails.py",
        old="allowed = min(max(left[0], low), high)",
        new="allowed = left[0] + 1",
        lawful=True,
    ),
    # plan
    Mutant(
        name="the plan takes one victim too many",
        file="plan.py",
        old="decision.candidates[: decision.present - decision.target]",
        new="decision.candidates[: decision.present - decision.target + 1]",
        lawful=True,
    ),
    Mutant(
        name="the plan grows by one too many",
        file="plan.py",
        old="to_count=decision.target,",
        new="to_count=decision.target + 1,",
        lawful=True,
    ),
    Mutant(
        name="nothing is reserved for growth",
        file="plan.py",
        old="new_nodes * unit_price(price, policy.billing)",
        new="Decimal(0)",
    ),
)


def killers(copy: Path, tests: tuple[str, ...]) -> list[str]:
    """Names of the tests that fail in *copy*."""
    existing = [t for t in tests if (copy / t).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *existing]
    ran = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return re.findall(r"^FAILED \S+::(\S+)", ran.stdout, flags=re.MULTILINE)


def main() -> int:
    """Run every mutant (or those whose name holds the words given); 1 when one survives where it must not."""
    words = " ".join(sys.argv[1:])
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("receiver", "tests", "pyproject.toml"):
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / part)
        for mutant in (m for m in MUTANTS if words in m.name):
            path = copy / "receiver" / "core" / mutant.file
            sound = path.read_text()
            if sound.count(mutant.old) < 1:
                raise SystemExit(f"{mutant.name}: {mutant.file} no longer holds {mutant.old!r}")
            path.write_text(
                ("from datetime import timedelta\n" if "timedelta(" in mutant.new else "")
                + sound.replace(mutant.old, mutant.new, 1)
            )
            if "from __future__" in sound:
                raise SystemExit("a mutant may not go before a __future__ import")
            by_law = killers(copy, (LAWS,)) if mutant.lawful else []
            by_example = killers(copy, EXAMPLES)
            path.write_text(sound)
            dead = bool(by_example or by_law) and (bool(by_law) or not mutant.lawful)
            survivors += not dead
            seen = f"law: {by_law[0] if by_law else '-'}; example: {by_example[0] if by_example else '-'}"
            print(f"{'killed' if dead else 'SURVIVED':8} {mutant.name}\n         {seen}", flush=True)
    print(f"{len(MUTANTS)} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
