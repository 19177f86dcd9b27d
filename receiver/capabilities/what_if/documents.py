"""What if, as JSON: the answers of POST /api/v1/what-if and GET /api/v1/nodes/{name}/what-if."""

from typing import Annotated

from receiver.core.explain.explain import State
from receiver.core.money.budget import BudgetStage
from receiver.reports.document import Cents, Count, Instant, Listed, Published, Usd, says, word


class PoolSide(Published):
    """What one configuration decides for a pool."""

    nodes: Annotated[Count, says("the size that it wants")]
    rule: Annotated[str, says("the deciding rule")]
    because: Annotated[str, says("why, in a sentence")]
    usd_per_hour: Annotated[Usd, says("of that size")]


class PoolWhatIf(Published):
    """One pool under both configurations. A side is null where that configuration does not have the pool."""

    pool: Annotated[str, says("its id at Civo")]
    name: str
    nodes: Annotated[Count, says("that it has now or has requested")]
    in_force: PoolSide | None
    other: PoolSide | None


class FateDocument(Published):
    """What becomes of a workload that waits."""

    state: Annotated[str, word(State)]
    detail: Annotated[str, says("in a sentence")]
    pool: Annotated[str | None, says("the name of the pool that it is about")]
    node: Annotated[str | None, says("the name of the node that has room for it")]
    rule: Annotated[str | None, says("the rule that holds it")]


class WorkloadWhatIf(Published):
    """A workload that waits, under both configurations."""

    workload: str
    gpus: Count
    pods: Count
    in_force: FateDocument
    other: FateDocument

    @property
    def differs(self) -> bool:
        """True where its outcome differs under the other configuration, whatever the sentences say."""
        sides = ((f.state, f.pool, f.node, f.rule) for f in (self.in_force, self.other))
        return len(set(sides)) > 1


class BudgetSide(Published):
    """One budget under a configuration."""

    title: str
    stage: Annotated[str, word(BudgetStage)]
    spent_usd: Cents
    monthly_usd: Usd


class MoneySide(Published):
    """What a configuration costs once every pool has its size. Nodes that are not managed count too."""

    usd_per_hour: Usd
    month_usd: Annotated[Cents | None, says("the month's cost if that is paid until its end; null: unknown")]
    budgets: Listed[BudgetSide]


class WhatIfDocument(Published):
    """The facts of one step, decided by the configuration in force and by another one."""

    at: Annotated[Instant, says("of the facts")]
    changes: Annotated[Listed[str], says("the keys that differ")]
    warnings: Annotated[Listed[str], says("that only the other configuration causes")]
    assumptions: Annotated[Listed[str], says("what stays as under the configuration in force")]
    pools: Listed[PoolWhatIf]
    waiting: Annotated[Listed[WorkloadWhatIf], says("500, a different outcome first, in the order of service")]
    waiting_total: Count
    differs_total: Annotated[Count, says("of all: those with a different outcome")]
    in_force: MoneySide
    other: MoneySide


class TurnDocument(Published):
    """A workload without the node. *before* is null for one that runs there."""

    workload: str
    gpus: Count
    before: FateDocument | None
    after: FateDocument


class BoughtDocument(Published):
    """Nodes that would be bought."""

    pool: Annotated[str, says("the pool's name")]
    nodes: Count
    usd_per_hour: Annotated[Usd | None, says("of all of them; null without a price")]


class NodeWhatIfDocument(Published):
    """What would happen if a node were removed now."""

    at: Annotated[Instant, says("of the facts")]
    node: str
    pool: Annotated[str, says("the pool's name")]
    stage: str
    blocks: Annotated[Listed[str], says("what prevents its removal now; empty if it may go")]
    may_go_at: Annotated[Instant | None, says("unless something changes; null: not known")]
    moved: Annotated[Listed[TurnDocument], says("the work that runs on it")]
    affected: Annotated[Listed[TurnDocument], says("work that waits already and would have a different outcome")]
    lost: Annotated[Listed[str], says("pods on it that no controller recreates")]
    bought: Listed[BoughtDocument]
    usd_per_hour: Annotated[Usd | None, says("what the node costs; null without a price")]
    saves_usd_per_hour: Annotated[Usd | None, says("that, less the nodes bought; negative: it costs more")]
    paid_until: Annotated[Instant, says("when its next paid unit begins: nothing is saved before")]
    unused_usd: Annotated[Cents | None, says("paid for the time until then")]
