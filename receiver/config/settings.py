"""The file and the environment together, as the values that the rest of the program uses; and secrets in files, which
are read again while it runs. Kubernetes updates the mounted files of a pod."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path as File
from time import monotonic
from typing import Any

import structlog

from receiver.config import model, pools
from receiver.config.completion import completed, named
from receiver.config.devices import devices_text
from receiver.config.environment import Environment, read_environment
from receiver.config.lint import price_of, warnings_of
from receiver.config.model import Configuration
from receiver.config.notify import oddities, routes_of, unsendable
from receiver.config.prices import Prices, Read, overlaid
from receiver.config.values import ConfigError, Mistake, Section, validated
from receiver.config.web import ReadAccess
from receiver.config.yaml_text import read as read_document
from receiver.core.model import policy, windows
from receiver.core.model.policy import Policy
from receiver.core.model.pool_facts import PoolFacts
from receiver.core.notices.routing import Route

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
    model.IdleShutdown: policy.IdlePolicy,
    model.KeepUntilSpec: policy.KeepUntil,
    model.PatienceSpec: policy.Patience,
    model.ReportsSpec: policy.ReportPolicy,
    model.UnitSpec: policy.UnitOfWork,
    model.CommitmentSpec: policy.Commitment,
    model.MonthlySpec: policy.Monthly,
}
READ: Mapping[type, Mapping[str, Callable[[Any], Any]]] = {
    Policy: {
        "idle_shutdown_grace": lambda file: file.idle_shutdown.grace,
        "idle": lambda file: to_core(file.idle_shutdown),
        "longest_override": lambda file: file.overrides.longest,
        "startup_taints": lambda file: (*policy.STARTUP_TAINTS, *file.kubernetes.startup_taints),
        "sick_conditions": lambda file: file.kubernetes.sick_conditions,
    },
    policy.Pool: {
        "id": lambda pool: pool.civo_pool_id,
        "grow_cooldown": lambda pool: pool.cooldown.grow,
        "shrink_cooldown": lambda pool: pool.cooldown.shrink,
        "utilization_high": lambda pool: float(pool.utilization.high),
        "utilization_low": lambda pool: float(pool.utilization.low),
        "underutilized": lambda pool: float(pool.utilization.underutilized),
        "idle": lambda pool: float(pool.utilization.idle),
        "devices": lambda pool: devices_text(pool.devices, pool.device_counters),
    },
    policy.Budget: {
        "passing": lambda budget: frozenset(budget.passing_priority_classes),
        "keep_out": lambda budget: to_core(budget.hold),
        "stated": lambda budget: to_core(budget.spent_usd_stated),
    },
    policy.KeepOut: {"cluster_queues": lambda hold: hold.kueue_cluster_queues},
    policy.IdlePolicy: {
        "namespaces": lambda idle: idle.named("namespace"),
        "priority_classes": lambda idle: idle.named("priorityclass"),
    },
    policy.KeepUntil: {"namespaces": lambda keep: frozenset(keep.namespaces)},
    policy.UnitOfWork: {
        "per": lambda unit: Decimal(unit.per),
        "only": lambda unit: unit.only.model_dump(exclude_none=True),
    },
    windows.Window: {"times": lambda window: tuple((span.start_time, span.end_time) for span in window.times)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    configuration: Configuration
    policy: Policy
    prices: Prices
    warnings: tuple[str, ...] = ()
    from_civo: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys that the file leaves to Civo, by pool id."""
    pending: tuple[pools.PoolSpec, ...] = ()
    """The pools with a placeholder for what Civo has not said yet. Until then there are no others, and nothing is
    decided."""
    text: str = field(default="", compare=False, repr=False)  # YAML

    @property
    def configured(self) -> Mapping[str, str]:
        """The size of each pool by its id, empty while it is not known."""
        sizes = {pool.id: pool.size for pool in self.policy.pools}
        return sizes | {p.civo_pool_id: "" if "size" in self.left(p.civo_pool_id) else p.size for p in self.pending}

    def left(self, pool: str) -> tuple[str, ...]:
        """Return the keys of *pool*, an id, that the file leaves to Civo."""
        return self.from_civo.get(pool, ())

    @property
    def routes(self) -> Mapping[str, Route]:
        """The filters of destinations by name."""
        return routes_of(self.configuration.notify, {pool.name: pool.id for pool in self.policy.pools})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(FileSettings):
    environment: Environment


def load(environ: Mapping[str, str], facts: PoolFacts | None = None) -> Settings:
    """Return the settings of *environ* and the file it names; raise ConfigError with every mistake of both. *facts* are
    what Civo says of the pools, None while that is unknown."""
    environment, mistakes, odd = read_environment(environ)
    settings: FileSettings | None = None
    path = environ.get("GPU_AUTOSCALER_CONFIG", "").strip()
    if path:
        try:
            settings = load_file(File(path), region=environ.get("CIVO_REGION", "").strip(), facts=facts)
        except ConfigError as error:
            mistakes += error.mistakes
    if environment is None or settings is None:
        raise ConfigError(mistakes)
    mistakes += locked_out(settings.configuration, environment)
    notify, entries = settings.configuration.notify, environment.destinations()[0]
    mistakes += unsendable(notify, entries)
    if mistakes:
        raise ConfigError(mistakes)
    if environment.reader_token and settings.configuration.web.reading is ReadAccess.OPEN:
        odd.append("GPU_AUTOSCALER_READER_TOKEN: is unused while web.reading is open; write web: {reading: token}")
    odd += oddities(notify, entries)
    file_settings = {each.name: getattr(settings, each.name) for each in fields(FileSettings)}
    return Settings(**{**file_settings, "warnings": (*settings.warnings, *odd)}, environment=environment)


def locked_out(configuration: Configuration, environment: Environment) -> Iterable[Mistake]:
    """Yield a mistake if reading takes a token and none is set."""
    if configuration.web.reading is ReadAccess.OPEN or environment.operator_token or environment.reader_token:
        return
    problem = "is token, and no token is set, so the pages cannot be opened"
    remedy = "set GPU_AUTOSCALER_OPERATOR_TOKEN or GPU_AUTOSCALER_READER_TOKEN, or write open"
    yield Mistake(path="web.reading", problem=problem, remedy=remedy)


def load_file(
    path: File, read: Read = File.read_bytes, region: str = "", facts: PoolFacts | None = None
) -> FileSettings:
    """Return the settings in the file at *path*; raise ConfigError with every mistake. *read* reads it and its
    ``prices_file``. *region* is Civo's, and so are *facts*."""
    try:
        content = read(path).decode()
    except OSError as error:
        problem = f"cannot read {path}: {error.strerror or error}"
        raise ConfigError([Mistake(path="", problem=problem, remedy="check the path and its permissions")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Mistake(path="", problem=f"{path} is not UTF-8", remedy="save it as UTF-8")]) from error
    return load_text(content, directory=path.parent, read=read, region=region, facts=facts)


def load_text(
    content: str,
    *,
    directory: File = File(),
    read: Read = File.read_bytes,
    region: str = "",
    facts: PoolFacts | None = None,
) -> FileSettings:
    """Return the settings in *content* (YAML); raise ConfigError with every mistake. A relative ``prices_file`` is read
    from *directory*. *facts* complete the pools; without them those that need Civo are pending."""
    document, mistakes = read_document(content)
    whole = completed(document, facts)
    configuration, mistakes = validated(Configuration, whole.document, [*mistakes, *whole.mistakes])
    prices_file = whole.document.get("prices_file")
    prices_file = prices_file.strip() if isinstance(prices_file, str) else ""
    prices, wrong = overlaid(prices_file or None, directory, read)
    if configuration is None or mistakes or wrong:
        raise ConfigError([*mistakes, *wrong])
    listed = configuration.pools
    if whole.pending:
        configuration = configuration.model_copy(update={"pools": ()})
    return FileSettings(
        configuration=configuration,
        policy=to_core(
            configuration,
            pools=tuple(to_core(p, price_usd_per_hour=price_of(p, prices), region=region) for p in configuration.pools),
            billing=to_core(configuration.billing, committed=tuple(_committed(configuration.pools))),
            charge_prices=prices.charges(),
            gpu_kinds={size: price.kind for size, price in prices.sizes.items() if price.kind},
            gpu_prices=prices.per_gpu_hour(),
        ),
        prices=prices,
        warnings=tuple(warnings_of(configuration, prices)),
        from_civo={listed[place].civo_pool_id: keys for place, keys in whole.left.items()},
        pending=listed if whole.pending else (),
        text=content if whole.pending else named(document, whole.document) or content,
    )


def _committed(specs: Iterable[pools.PoolSpec]) -> Iterator[policy.CommittedNodes]:
    for spec in specs:
        if (committed := spec.committed) is not None:
            yield policy.CommittedNodes(
                pool=spec.civo_pool_id,
                size=spec.size,
                nodes=committed.nodes,
                usd_per_hour=committed.usd_per_hour,
                until=datetime.combine(committed.until, time(), UTC),
            )


def to_core(section: Any, **other_fields: object) -> Any:
    """Return the core's value of *section*: a section, a list or mapping of them, or a plain value. *other_fields* are
    fields of the core's class that do not come from the section."""
    if isinstance(section, tuple):
        return tuple(to_core(each) for each in section)
    if isinstance(section, dict):
        return dict(section)
    kind = CORE.get(type(section))
    if kind is None:
        return section
    read = READ.get(kind, {})
    values = {
        name: read[name](section) if name in read else to_core(getattr(section, name))
        for name in (field.name for field in fields(kind))
        if name not in other_fields
    }
    return kind(**values, **other_fields)


FilesState = tuple[object, ...]  # changes when a file does
LOOK_EVERY = 1.0  # seconds between looks at the disk, however many requests come
ROTATED = (
    "CIVO_API_KEY",
    "GPU_AUTOSCALER_WEBHOOK_TOKEN",
    "GPU_AUTOSCALER_OPERATOR_TOKEN",
    "GPU_AUTOSCALER_READER_TOKEN",
)
_SENT = re.compile(r"[!-~]+")  # characters that a header can hold

log = structlog.get_logger("receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The valid tokens: the webhook's (two during a rotation), the operator's and the reader's."""

    webhook: tuple[str, ...] = field(repr=False)
    operator: str | None = field(default=None, repr=False)
    reader: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise ValueError for an empty webhook token, which would let everyone in."""
        if any(not token.strip() for token in self.webhook):
            raise ValueError("a webhook token is empty: set GPU_AUTOSCALER_WEBHOOK_TOKEN to a long random word")


class LiveSecrets:
    """The secrets of *ROTATED*; those in files are read again when a file changes. Thread-safe.

    A change is taken when two looks in a row find the same: half a token may be a valid token. Unusable secrets (an
    empty or unreadable file, one token for two purposes) change nothing: the previous ones stay valid, `refused` is
    true, and the log names the mistake once.
    """

    def __init__(
        self, environ: Mapping[str, str], environment: Environment, now: Callable[[], float] = monotonic
    ) -> None:
        self._environ, self._now = environ, now
        files = (environ.get(f"{name}_FILE", "").strip() for name in ROTATED)
        self._files = tuple(File(name) for name in files if name)
        self._key, self._tokens = environment.civo_api_key.get_secret_value(), _tokens(environment)
        self._seen: FilesState | None = None  # a file may have changed since: look once
        self._changing: FilesState | None = None  # their state at the last look, if it had changed
        self._looked_at = now()
        self._lock = threading.Lock()
        self.refused = False

    def tokens(self) -> Tokens:
        self._look()
        return self._tokens

    def civo_key(self) -> str:
        self._look()
        return self._key

    def _look(self) -> None:
        if not self._files or self._now() - self._looked_at < LOOK_EVERY:
            return
        with self._lock:
            if self._now() - self._looked_at < LOOK_EVERY:
                return
            self._looked_at = self._now()
            state = _state_of(self._files)
            if state == self._seen:
                return
            settled, self._changing = state == self._changing, state
            if settled:
                self._take(state)

    def _take(self, state: FilesState) -> None:
        """Read all secrets again, and apply all of them or none; leave it to the next look if the files are not in
        *state* any more."""
        environment, mistakes, _ = read_environment(self._environ)
        if _state_of(self._files) != state:
            return
        self._seen = state
        if environment is not None:
            mistakes = [*mistakes, *_lost(self._tokens, environment)]
        self.refused = environment is None or bool(mistakes)
        if environment is None or self.refused:
            log.error("secrets refused", detail="the previous ones stay valid", mistakes=[str(m) for m in mistakes])
            return
        had, has = (self._key, self._tokens), (environment.civo_api_key.get_secret_value(), _tokens(environment))
        self._key, self._tokens = has
        was, now = ((key, tokens.webhook, tokens.operator, tokens.reader) for key, tokens in (had, has))
        changed = [name for name, before, after in zip(ROTATED, was, now, strict=True) if before != after]
        if changed:
            log.info("secrets changed", names=changed)


def _tokens(environment: Environment) -> Tokens:
    operator, reader = environment.operator_token, environment.reader_token
    return Tokens(
        webhook=tuple(t.get_secret_value() for t in environment.webhook_tokens),
        operator=operator.get_secret_value() if operator else None,
        reader=reader.get_secret_value() if reader else None,
    )


def _lost(before: Tokens, environment: Environment) -> Iterable[Mistake]:
    """Yield what a file may cause that is empty or holds something else: a missing token, a key that cannot be sent."""
    for name, had, has in (
        ("GPU_AUTOSCALER_OPERATOR_TOKEN", before.operator, environment.operator_token),
        ("GPU_AUTOSCALER_READER_TOKEN", before.reader, environment.reader_token),
    ):
        if had and not has:
            yield Mistake(path=f"{name}_FILE", problem="is empty now", remedy="restart to remove a token")
    if not _SENT.fullmatch(environment.civo_api_key.get_secret_value()):
        remedy = "write the API key alone into it"
        yield Mistake(path="CIVO_API_KEY_FILE", problem="holds characters that no API key has", remedy=remedy)


def _state_of(files: Sequence[File]) -> FilesState:
    """Return a value that changes when one of *files* does, also behind the symlinks that Kubernetes switches."""
    stats: list[object] = []
    for file in files:
        try:
            stat = file.stat()
            stats.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
        except OSError:
            stats.append(None)
    return tuple(stats)
