"""Warnings: settings that are valid and probably a mistake."""

from collections.abc import Iterator
from decimal import Decimal

from receiver.config.model import Configuration
from receiver.config.pools import PoolSpec, contradict
from receiver.config.prices import Prices
from receiver.config.values import nearest
from receiver.core.model.text import dollars, lasting


def price_of(pool: PoolSpec, prices: Prices) -> Decimal | None:
    """Return USD per node-hour of *pool*: its own, else the price file's, else None."""
    if pool.price_usd_per_hour is not None:
        return pool.price_usd_per_hour
    known = prices.sizes.get(pool.size)
    return known.usd_per_hour if known else None


def warnings_of(configuration: Configuration, prices: Prices) -> Iterator[str]:
    yield from _missing(configuration)
    floor = sum(pool.min_nodes * pool.gpus_per_node for pool in configuration.pools)
    most = configuration.limits.max_gpus
    if most is not None and floor > most:
        yield f"limits.max_gpus: {most} is below the {floor} GPUs that min_nodes of all pools require; the limit wins"
    for index, pool in enumerate(configuration.pools):
        if pool.approval is not None and configuration.public_url is None:
            yield f"pools[{index}].approval: public_url is not set, so approval messages have no link to answer with"
        yield from _windows(pool, f"pools[{index}]")
    for index, pool in enumerate(configuration.pools):
        yield from _price(pool, prices, f"pools[{index}]")
    yield from _commitments(configuration, prices)


def _missing(configuration: Configuration) -> Iterator[str]:
    if configuration.budget is None:
        yield "budget: none is set, so only max_nodes and limits bound the cost of nodes"
    if configuration.prometheus.url is None:
        yield "prometheus.url: none is set, so utilization is unknown and missing rules go unnoticed"
    alarms = configuration.alertmanager
    if not alarms.urls and "repeat_interval" not in alarms.model_fields_set:
        yield (
            "alertmanager.repeat_interval: is not set, and without alertmanager.urls a delivered alert that is never "
            f"resolved counts for {lasting(alarms.payload_life)}; write the repeat_interval of the route to the "
            "autoscaler"
        )
    if not configuration.kubernetes.enabled:
        yield "kubernetes.enabled: is false, so it is unknown which nodes are in use and none is ever removed"


def _windows(pool: PoolSpec, path: str) -> Iterator[str]:
    for number, window in enumerate(pool.windows):
        if window.max_nodes is not None and window.max_nodes > pool.max_nodes:
            yield (
                f"{path}.windows[{number}].max_nodes: {window.max_nodes} is above the pool's max_nodes "
                f"({pool.max_nodes}), which wins"
            )
        for other in pool.windows:
            if contradict(window, other) and window.location != other.location:
                yield (
                    f"{path}.windows[{number}].min_nodes: {window.min_nodes} is above max_nodes ({other.max_nodes}) of "
                    f"window {other.name} in another zone; while both are open the maximum wins"
                )


def _price(pool: PoolSpec, prices: Prices, path: str) -> Iterator[str]:
    price = price_of(pool, prices)
    known = prices.sizes.get(pool.size)
    if price is None:
        close = nearest(pool.size, prices.sizes, cutoff=0.8)
        meant = f", or did you mean {close}?" if close else ""
        yield (
            f"{path}.size: no price is known for {pool.size}, so this pool cannot grow; "
            f"set price_usd_per_hour or a prices_file{meant}"
        )
    if known is None or known.gpus is None:
        return
    kind = prices.kinds.get(known.kind or "")
    if price is not None and kind is not None:
        per_gpu = price / known.gpus
        if not kind.from_usd_per_gpu_hour <= per_gpu <= kind.to_usd_per_gpu_hour:
            yield (
                f"{path}.price_usd_per_hour: {dollars(per_gpu)} per {known.kind} and hour is unusual "
                f"({dollars(kind.from_usd_per_gpu_hour)} to {dollars(kind.to_usd_per_gpu_hour)}); "
                "is it per month, in cents or in another currency?"
            )
    if set(pool.resources) == {"nvidia.com/gpu"} and pool.gpus_per_node < known.gpus:
        yield (
            f"{path}.resources: {pool.size} has {known.gpus} GPUs and resources lists {pool.gpus_per_node}; "
            "more nodes would be bought than the demand needs"
        )


def _commitments(configuration: Configuration, prices: Prices) -> Iterator[str]:
    for index, offer in enumerate(configuration.reports.commitments):
        path = f"reports.commitments[{index}]"
        own = [price for pool in configuration.pools if pool.size == offer.size and (price := price_of(pool, prices))]
        listed = prices.sizes.get(offer.size)
        price = own[0] if own else listed.usd_per_hour if listed else None
        if price is None:
            yield f"{path}.size: no on-demand price is known for {offer.size}, so there is nothing to compare with"
        elif offer.usd_per_hour >= price:
            yield (
                f"{path}.usd_per_hour: {offer.usd_per_hour} is not below the on-demand price ({price}), so it never "
                "pays; is it the price of all GPUs of a node?"
            )
