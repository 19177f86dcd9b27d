"""The file and the environment together, as the values that the rest of the program uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path as File
from typing import Any

from receiver.config import model, pools
from receiver.config.document import load as load_document
from receiver.config.environment import Environment, read_environment
from receiver.config.lint import price_of, warnings_of
from receiver.config.model import Configuration, ReadAccess
from receiver.config.prices import Prices, overlaid
from receiver.config.values import ConfigError, Mistake, Section
from receiver.core.model import policy, windows
from receiver.core.model.policy import Policy

# The core's class of each section. Fields of the same name are copied; READ says how the others are read.
CORE: Mapping[type[Section], type] = {
    Configuration: Policy,
    pools.PoolSpec: policy.Pool,
    pools.TaintSpec: policy.Taint,
    pools.WindowSpec: windows.Window,
    pools.ApprovalSpec: policy.Approval,
    model.BudgetSpec: policy.Budget,
    model.HoldSpec: policy.KeepOut,
    model.StatedSpec: policy.Stated,
    model.BillingSpec: policy.Billing,
    model.LimitsSpec: policy.Limits,
    model.AttributionSection: policy.Attribution,
    model.KeepUntilSpec: policy.KeepUntil,
    model.ReportsSpec: policy.ReportPolicy,
    model.UnitSpec: policy.UnitOfWork,
    model.CommitmentSpec: policy.Commitment,
    model.MonthlySpec: policy.Monthly,
}
READ: Mapping[type, Mapping[str, Callable[[Any], Any]]] = {
    Policy: {
        "idle_shutdown_grace": lambda file: file.idle_shutdown.grace,
        "longest_override": lambda file: file.overrides.longest,
        "startup_taints": lambda file: file.kubernetes.startup_taints,
    },
    policy.Pool: {
        "id": lambda pool: pool.civo_pool_id,
        "grow_cooldown": lambda pool: pool.cooldown.grow,
        "shrink_cooldown": lambda pool: pool.cooldown.shrink,
        "utilization_high": lambda pool: float(pool.utilization.high),
        "utilization_low": lambda pool: float(pool.utilization.low),
        "underutilized": lambda pool: float(pool.utilization.underutilized),
        "idle": lambda pool: float(pool.utilization.idle),
    },
    policy.Budget: {
        "passing": lambda budget: frozenset(budget.passing_priority_classes),
        "keep_out": lambda budget: to_core(budget.hold),
        "stated": lambda budget: to_core(budget.spent_usd_stated),
    },
    policy.KeepOut: {"cluster_queues": lambda hold: hold.kueue_cluster_queues},
    policy.KeepUntil: {"namespaces": lambda keep: frozenset(keep.namespaces)},
    policy.UnitOfWork: {
        "per": lambda unit: Decimal(unit.per),
        "only": lambda unit: unit.only.model_dump(exclude_none=True),
    },
    windows.Window: {"times": lambda window: tuple((span.start_time, span.end_time) for span in window.times)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """The file's keys, the core's policy with prices, and warnings."""

    configuration: Configuration
    policy: Policy
    prices: Prices
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(FileSettings):
    """The file and the *environment*."""

    environment: Environment


def load(environ: Mapping[str, str]) -> Settings:
    """Return the settings of *environ* and the file it names; raise ConfigError with every mistake of both."""
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
        odd.append("GPU_AUTOSCALER_READER_TOKEN: is unused while web.reading is open; write web: {reading: token}")
    return Settings(
        configuration=settings.configuration,
        environment=environment,
        policy=settings.policy,
        prices=settings.prices,
        warnings=(*settings.warnings, *odd),
    )


def _unreadable(configuration: Configuration, environment: Environment) -> list[Mistake]:
    """Return the mistake of pages that need a token while none is set."""
    if configuration.web.reading is ReadAccess.OPEN or environment.operator_token or environment.reader_token:
        return []
    return [
        Mistake(
            path="web.reading",
            problem="is token, and no token is set, so the pages cannot be opened",
            remedy="set GPU_AUTOSCALER_OPERATOR_TOKEN or GPU_AUTOSCALER_READER_TOKEN, or write open",
        )
    ]


def load_file(path: File) -> FileSettings:
    """Return the settings in the file at *path*; raise ConfigError with every mistake."""
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        problem = f"cannot read {path}: {error.strerror or error}"
        raise ConfigError([Mistake(path="", problem=problem, remedy="check the path and its permissions")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Mistake(path="", problem=f"{path} is not UTF-8", remedy="save it as UTF-8")]) from error
    return load_text(content, directory=path.parent)


def load_text(content: str, *, directory: File = File()) -> FileSettings:
    """Return the settings in *content* (YAML); raise ConfigError with every mistake.

    A relative ``prices_file`` is read from *directory*.
    """
    configuration, mistakes = load_document(Configuration, content)
    if configuration is None:
        raise ConfigError(mistakes)
    prices, wrong = overlaid(configuration.prices_file, directory)
    if mistakes or wrong:
        raise ConfigError([*mistakes, *wrong])
    return FileSettings(
        configuration=configuration,
        policy=to_core(
            configuration,
            pools=tuple(to_core(p, price_usd_per_hour=price_of(p, prices)) for p in configuration.pools),
            charge_prices=prices.charges(),
            gpu_kinds={size: price.kind for size, price in prices.sizes.items() if price.kind},
            gpu_prices=prices.per_gpu_hour(),
        ),
        prices=prices,
        warnings=tuple(warnings_of(configuration, prices)),
    )


def to_core(found: Any, **given: Any) -> Any:
    """Return the core's value of *found*: a section, a list or mapping of them, or a plain value.

    *given* are fields of the core's class that do not come from the section.
    """
    if isinstance(found, tuple):
        return tuple(to_core(each) for each in found)
    if isinstance(found, dict):
        return dict(found)
    kind = CORE.get(type(found))
    if kind is None:
        return found
    read = READ.get(kind, {})
    values = {
        name: read[name](found) if name in read else to_core(getattr(found, name))
        for name in (field.name for field in fields(kind))
        if name not in given
    }
    return kind(**values, **given)
