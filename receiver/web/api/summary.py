"""GET /api/v1/summary: one cluster in a line, for a page elsewhere that lists many."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, NamedTuple, Self

from receiver.config.model import Mode
from receiver.core.money.budget import BudgetStage
from receiver.core.notices.notice import Level
from receiver.reports.document import Count, Instant, Month, Positive, Published, Usd, says, word
from receiver.reports.picture import Picture, PoolDocument, WaitingPod
from receiver.web.api.documents import BudgetDocument, mode_of
from receiver.web.parts import WebParts


class SummaryDocument(Published):
    """One cluster in a list of many. What is not known is null."""

    cluster_name: Annotated[str, says("as configured")] = ""
    at: Annotated[Instant | None, says("the last step")] = None
    mode: Annotated[str, word(Mode)] = ""
    version: str = ""
    alive: Annotated[bool, says("whether the loop beats")] = False
    wrong: Annotated[Count | None, says("concerns that keep work waiting or hide what happens")] = None
    to_look_at: Annotated[Count | None, says("other concerns")] = None
    gpus_paid: Annotated[Count | None, says("of the nodes that Civo was asked for")] = None
    gpus_busy: Annotated[Positive | None, says("held by GPU pods; a slice or share is a part")] = None
    pods_waiting: Count | None = None
    gpus_waiting: Annotated[Count | None, says("that those pods ask for")] = None
    waiting_since: Annotated[Instant | None, says("since when the first of them waits; null: none does")] = None
    usd_per_hour: Annotated[Usd | None, says("of those nodes; null where a price is unknown")] = None
    month: Month | None = None
    spent_usd: Usd | None = None
    monthly_usd: Annotated[Usd | None, says("the cluster's allowance")] = None
    forecast_usd: Annotated[Usd | None, says("of the month; null in its first day")] = None
    stage: Annotated[str, word(BudgetStage)] | None = None

    @classmethod
    def of_picture(cls, picture: Picture, parts: WebParts) -> Self:
        """Return the summary of the last step."""
        stepped, money = picture.at is not None, BudgetDocument.of_picture(picture, parts)
        bad = sum(concern.level == Level.BAD for concern in picture.concerns)
        return cls(
            cluster_name=parts.configuration.cluster_name,
            at=picture.at,
            mode=mode_of(picture, parts),
            version=parts.version,
            alive=parts.heartbeat().alive,
            wrong=bad if stepped else None,
            to_look_at=len(picture.concerns) - bad if stepped else None,
            pods_waiting=picture.waiting_total,
            month=money.month,
            spent_usd=money.spent_usd,
            monthly_usd=money.monthly_usd,
            forecast_usd=picture.budget.forecast_usd if picture.budget else None,
            stage=money.stage,
            **(totals(picture.pools, picture.waiting, picture.waiting_total)._asdict() if stepped else {}),
        )


class PoolTotals(NamedTuple):
    """What people look for first, of some pools; None where a part of it is not known."""

    gpus_paid: int | None
    gpus_busy: float | None
    gpus_waiting: int | None
    waiting_since: datetime | None
    usd_per_hour: Decimal | None


def totals(pools: Sequence[PoolDocument], pods: Sequence[WaitingPod], pods_total: int | None) -> PoolTotals:
    """Return the figures of *pools*, and of the waiting *pods* if they are all of *pods_total*."""
    prices = [(pool.required, pool.price_usd_per_hour) for pool in pools]
    costs = [required * price for required, price in prices if required is not None and price is not None]
    return PoolTotals(
        gpus_paid=_gpus(pools, "required"),
        gpus_busy=_held(pools),
        gpus_waiting=sum(pod.gpus for pod in pods) if len(pods) == pods_total else None,
        waiting_since=min((pod.since for pod in pods if pod.since is not None), default=None),
        usd_per_hour=sum(costs, Decimal(0)) if len(costs) == len(prices) else None,
    )


def _held(pools: Sequence[PoolDocument]) -> float | None:
    """Return the GPUs that pods hold; None where a pool does not know."""
    gpus_by_pool = [pool.held_gpus for pool in pools if pool.held_gpus is not None]
    return round(sum(gpus_by_pool), 2) if len(gpus_by_pool) == len(pools) else None


def _gpus(pools: Sequence[PoolDocument], of: str) -> int | None:
    """Return the GPUs of the nodes that each pool counts as *of*; None where a pool does not know."""
    counts: list[tuple[int | None, int | None]] = [(getattr(pool, of), pool.gpus_per_node) for pool in pools]
    gpu_counts = [nodes * gpus for nodes, gpus in counts if nodes is not None and gpus is not None]
    return sum(gpu_counts) if len(gpu_counts) == len(counts) else None
