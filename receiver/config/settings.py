"""The file and the environment together, as the values that the rest of the program takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as File

from receiver.config.checks import contradictions, warnings_of
from receiver.config.document import read
from receiver.config.environment import Environment, read_environment
from receiver.config.mistakes import ConfigError, Mistake
from receiver.config.model import Configuration, PoolSpec, ReadAccess
from receiver.config.prices import (
    Prices,
    charge_prices,
    commitment_warnings,
    overlaid,
    per_gpu_hour,
    price_of,
    price_warnings,
)
from receiver.config.validation import validate
from receiver.core.model.policy import (
    Approval,
    Attribution,
    Billing,
    Budget,
    KeepOut,
    KeepUntil,
    Limits,
    Policy,
    Pool,
    Stated,
    Taint,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """What the file alone says: the keys as written, the core's policy with prices, and what is odd."""

    configuration: Configuration
    policy: Policy
    prices: Prices
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(FileSettings):
    """Everything the operator said, in the file and in the *environment*."""

    environment: Environment


def load(environ: Mapping[str, str]) -> Settings:
    """Return the settings that *environ* and the file it names hold; raise ConfigError with every mistake of both."""
    environment, mistakes, odd = read_environment(environ)
    settings: FileSettings | None = None
    path = environ.get("GPU_AUTOSCALER_CONFIG", "").strip()
    if path:
        try:
            settings = load_file(File(path))
        except ConfigError as error:
            mistakes += error.mistakes
    if environment is not None and settings is not None:
        mistakes += _unreadable(settings.configuration, environment)
    if mistakes or environment is None or settings is None:
        raise ConfigError(mistakes)
    if environment.reader_token and settings.configuration.web.reading is ReadAccess.OPEN:
        odd.append(
            "GPU_AUTOSCALER_READER_TOKEN: nobody needs it while web.reading is open; write web: {reading: token}"
        )
    return Settings(
        configuration=settings.configuration,
        environment=environment,
        policy=settings.policy,
        prices=settings.prices,
        warnings=(*settings.warnings, *odd),
    )


def _unreadable(configuration: Configuration, environment: Environment) -> list[Mistake]:
    """The mistake of pages that nobody could open: reading takes a token, and there is none."""
    if configuration.web.reading is ReadAccess.OPEN or environment.operator_token or environment.reader_token:
        return []
    return [
        Mistake(
            path="web.reading",
            problem="is token, and no token is set, so nobody could read",
            remedy="set GPU_AUTOSCALER_OPERATOR_TOKEN or GPU_AUTOSCALER_READER_TOKEN, or write open",
        )
    ]


def load_file(path: File) -> FileSettings:
    """Return what the file at *path* says; raise ConfigError with every mistake."""
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        mistake = Mistake(
            path="",
            problem=f"cannot read {path}: {error.strerror or error}",
            remedy="check the path and its permissions",
        )
        raise ConfigError([mistake]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Mistake(path="", problem=f"{path} is not UTF-8", remedy="save it as UTF-8")]) from error
    return load_text(content, directory=path.parent)


def load_text(content: str, *, directory: File = File()) -> FileSettings:
    """Return what *content* (YAML) says; raise ConfigError with every mistake.

    *directory* is where a relative ``prices_file`` is looked for.
    """
    document, mistakes = read(content)
    found = validate(Configuration, document)
    noted = {mistake.path for mistake in mistakes}  # a key without a value is not missing as well
    mistakes += [mistake for mistake in found.mistakes if mistake.path not in noted or "missing" not in mistake.problem]
    configuration = found.model
    if configuration is None:
        raise ConfigError(mistakes)
    mistakes += [c.mistake() for c in contradictions(configuration) if found.concerns(c.path, *c.over)]
    prices, wrong = overlaid(configuration, directory)
    mistakes += wrong
    if mistakes:
        raise ConfigError(mistakes)
    odd = list(warnings_of(configuration))
    for index, pool in enumerate(configuration.pools):
        odd += price_warnings(pool, prices, f"pools[{index}]")
    odd += commitment_warnings(configuration, prices)
    return FileSettings(
        configuration=configuration, policy=_policy(configuration, prices), prices=prices, warnings=tuple(odd)
    )


def _policy(configuration: Configuration, prices: Prices) -> Policy:
    budget, billing, limits = configuration.budget, configuration.billing, configuration.limits
    return Policy(
        pools=tuple(_pool(pool, prices) for pool in configuration.pools),
        objective=configuration.objective,
        budget=Budget(
            monthly_usd=budget.monthly_usd,
            timezone=budget.timezone,
            warn_at=budget.warn_at,
            hold_at=budget.hold_at,
            stop_at=budget.stop_at,
            account_usd=budget.account_usd,
            teams=dict(budget.teams),
            passing=frozenset(budget.passing_priority_classes),
            keep_out=KeepOut(namespaces=budget.hold.namespaces, cluster_queues=budget.hold.kueue_cluster_queues),
            stated=Stated(month=budget.spent_usd_stated.month, usd=budget.spent_usd_stated.usd)
            if budget.spent_usd_stated
            else None,
        )
        if budget
        else None,
        packing=configuration.packing,
        billing=Billing(
            granularity=billing.granularity,
            rounding=billing.rounding,
            anchor=billing.anchor,
            removal_margin=billing.removal_margin,
            charges_tolerance_usd=billing.charges_tolerance_usd,
        ),
        limits=Limits(
            max_gpus=limits.max_gpus,
            max_growth_per_hour=limits.max_growth_per_hour,
            max_removals_per_hour=limits.max_removals_per_hour,
        ),
        fallback=configuration.fallback,
        heartbeat_interval=configuration.heartbeat_interval,
        unknown_after=configuration.unknown_after,
        idle_shutdown_grace=configuration.idle_shutdown.grace,
        longest_override=configuration.overrides.longest,
        keep_until=KeepUntil(
            namespaces=frozenset(configuration.keep_until.namespaces), longest=configuration.keep_until.longest
        ),
        charge_prices=charge_prices(prices),
        attribution=Attribution(**configuration.attribution.model_dump()),
        gpu_kinds={size: price.kind for size, price in prices.sizes.items() if price.kind},
        reports=configuration.reports.policy(),
        gpu_prices=per_gpu_hour(prices),
        queue_wait=dict(configuration.queue_wait),
        idle_cost_usd_per_hour=configuration.idle_cost_usd_per_hour,
        startup_taints=configuration.kubernetes.startup_taints,
    )


def _pool(pool: PoolSpec, prices: Prices) -> Pool:
    return Pool(
        id=pool.civo_pool_id,
        name=pool.name,
        size=pool.size,
        resources=dict(pool.resources),
        max_nodes=pool.max_nodes,
        price_usd_per_hour=price_of(pool, prices),
        labels=dict(pool.labels),
        taints=tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in pool.taints),
        min_nodes=pool.min_nodes,
        standby_nodes=pool.standby_nodes,
        grow_cooldown=pool.cooldown.grow,
        shrink_cooldown=pool.cooldown.shrink,
        utilization_high=float(pool.utilization.high),
        utilization_low=float(pool.utilization.low),
        underutilized=float(pool.utilization.underutilized),
        idle=float(pool.utilization.idle),
        temperature_celsius=pool.temperature_celsius,
        idle_for=pool.idle_for,
        provision_timeout=pool.provision_timeout,
        apply_to_nodes=pool.apply_to_nodes,
        windows=tuple(window.window() for window in pool.windows),
        budget_usd=pool.budget_usd,
        approval=Approval(**pool.approval.model_dump()) if pool.approval else None,
    )
