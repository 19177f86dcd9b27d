"""Warnings: settings that are valid and probably a mistake."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

from receiver.config.model import Configuration
from receiver.config.pools import PoolSpec, contradict
from receiver.config.prices import Prices
from receiver.config.values import nearest, spell_duration
from receiver.core.model.text import dollars, lasting, some
from receiver.core.money.accounting import CONTINUOUS

FIRST_YEAR = 2026  # of a release: years before it are over
READY = timedelta(minutes=5)  # a node of Civo until its GPUs are allocatable
HEARD = timedelta(seconds=30)  # the shipped heartbeat alert arrives once a minute; three missed ones stop every pool
SMALLEST_DELIVERY = 64 * 1024  # bytes that one group of alerts may need
LONG_WARM_UP = timedelta(hours=1)


def price_of(pool: PoolSpec, prices: Prices) -> Decimal | None:
    """Return USD per node-hour of *pool*: its own, else the price file's, else None."""
    if pool.price_usd_per_hour is not None:
        return pool.price_usd_per_hour
    size_price = prices.sizes.get(pool.size)
    return size_price.usd_per_hour if size_price else None


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
        yield from _committed(pool, prices, f"pools[{index}].committed")
    yield from _commitments(configuration, prices)
    yield from _standing(configuration)
    for index, pool in enumerate(configuration.pools):
        yield from _standing_pool(pool, f"pools[{index}]")
    yield from _unaffordable(configuration, prices)


def _standing(configuration: Configuration) -> Iterator[str]:
    """Yield the limits and intervals under which no pool changes."""
    limits = configuration.limits
    for pool in configuration.pools:
        if limits.max_gpus is not None and limits.max_gpus < pool.gpus_per_node:
            one_node = f"{some(pool.gpus_per_node, 'GPU')} of one node of {pool.name}"
            yield f"limits.max_gpus: {limits.max_gpus} is below the {one_node}, so that pool never grows"
    if limits.max_growth_per_hour == 0:
        yield "limits.max_growth_per_hour: is 0, so no pool ever grows"
    if limits.max_removals_per_hour == 0:
        yield "limits.max_removals_per_hour: is 0, so no node is ever removed"
    if configuration.heartbeat_interval < HEARD:
        yield (
            f"heartbeat_interval: {spell_duration(configuration.heartbeat_interval)} is too short for the heartbeats "
            "of the shipped rules, one a minute: they count as missing, and nothing grows or is removed meanwhile"
        )
    if configuration.tick >= CONTINUOUS:
        yield (
            f"tick: steps {spell_duration(configuration.tick)} apart count as outages in the cost reports; "
            f"write less than {spell_duration(CONTINUOUS)}"
        )
    if configuration.warm_up > LONG_WARM_UP:
        yield f"warm_up: for {lasting(configuration.warm_up)} after a start with a new store no pool changes"
    if configuration.webhook.max_bytes < SMALLEST_DELIVERY:
        yield (
            f"webhook.max_bytes: {configuration.webhook.max_bytes} is less than Alertmanager may send at once, and "
            "alerts that are refused count as missing; write at least 65536"
        )
    if configuration.patience.lowest_priority > 0:
        yield (
            f"patience.lowest_priority: {configuration.patience.lowest_priority} is above 0, the priority of pods "
            "without a PriorityClass, so no node is bought for them"
        )


def _standing_pool(pool: PoolSpec, path: str) -> Iterator[str]:
    """Yield what keeps one pool empty."""
    if pool.max_nodes == 0:
        yield f"{path}.max_nodes: is 0, so {pool.name} never grows"
    if pool.provision_timeout < READY:
        yield (
            f"{path}.provision_timeout: {spell_duration(pool.provision_timeout)} is shorter than a node of Civo needs "
            f"until its GPUs are allocatable, so new nodes are removed before they are used; write at least "
            f"{spell_duration(READY)}"
        )
    for number, window in enumerate(pool.windows):
        always = not (window.times or window.weekdays or window.days_of_month or window.months or window.years)
        if always and window.max_nodes == 0 and pool.max_nodes > 0:
            yield f"{path}.windows[{number}].max_nodes: is 0 and the window is always open, so {pool.name} never grows"
        if window.years and all(last < FIRST_YEAR for _, last in window.years):
            yield f"{path}.windows[{number}].years: are over, so the window never opens again"


def _unaffordable(configuration: Configuration, prices: Prices) -> Iterator[str]:
    """Yield the allowances that do not cover one paid unit of a node, so that they buy none."""
    budget = configuration.budget
    priced = {pool.name: price for pool in configuration.pools if (price := price_of(pool, prices)) is not None}
    if budget is None or not priced:
        return
    granularity = configuration.billing.granularity
    first, hours = f"the first {spell_duration(granularity)}", Decimal(granularity // timedelta(seconds=1)) / 3600
    for index, pool in enumerate(configuration.pools):
        if pool.name not in priced:
            continue
        unit = priced[pool.name] * hours
        allowances = [("budget.monthly_usd", budget.monthly_usd), (f"pools[{index}].budget_usd", pool.budget_usd)]
        for key, usd in allowances:
            if usd is not None and usd * budget.stop_at < unit:
                yield (
                    f"{key}: {dollars(usd)} does not pay for {first} of a node of {pool.name} ({dollars(unit)}), so "
                    "that pool never grows"
                )
    cheapest = min(priced.values()) * hours
    for team, usd in budget.teams.items():
        if usd * budget.stop_at < cheapest <= budget.monthly_usd * budget.stop_at:
            yield (
                f"budget.teams.{team}: {dollars(usd)} does not pay for {first} of any node ({dollars(cheapest)} or "
                "more), so no node is bought for this team"
            )


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
    size_price = prices.sizes.get(pool.size)
    if price is None:
        close = nearest(pool.size, prices.sizes, cutoff=0.8)
        meant = f", or did you mean {close}?" if close else ""
        yield (
            f"{path}.size: no price is known for {pool.size}, so this pool cannot grow; "
            f"set price_usd_per_hour or a prices_file{meant}"
        )
    if size_price is None or size_price.gpus is None:
        return
    kind = prices.kinds.get(size_price.kind or "")
    if price is not None and kind is not None:
        per_gpu = price / size_price.gpus
        if not kind.from_usd_per_gpu_hour <= per_gpu <= kind.to_usd_per_gpu_hour:
            yield (
                f"{path}.price_usd_per_hour: {dollars(per_gpu)} per {size_price.kind} and hour is unusual "
                f"({dollars(kind.from_usd_per_gpu_hour)} to {dollars(kind.to_usd_per_gpu_hour)}); "
                "is it per month, in cents or in another currency?"
            )
    if set(pool.resources) == {"nvidia.com/gpu"} and pool.gpus_per_node < size_price.gpus:
        yield (
            f"{path}.resources: {pool.size} has {size_price.gpus} GPUs and resources lists {pool.gpus_per_node}; "
            "more nodes would be bought than the demand needs"
        )


def _committed(pool: PoolSpec, prices: Prices, path: str) -> Iterator[str]:
    """Yield where a commitment cannot be used, or costs no less."""
    committed, price = pool.committed, price_of(pool, prices)
    if committed is None:
        return
    if committed.nodes > pool.max_nodes:
        yield f"{path}.nodes: {committed.nodes} is above max_nodes ({pool.max_nodes}): the others are paid for in vain"
    if price is not None and committed.usd_per_hour >= price:
        yield (
            f"{path}.usd_per_hour: {committed.usd_per_hour} is not below the price of other nodes ({price}); is it the "
            "price of one node?"
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
