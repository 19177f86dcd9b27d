"""Changes while the program runs: secrets in files are read again, and a changed configuration file is checked.

Kubernetes updates the mounted files of a running pod when its Secret or ConfigMap changes.
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from time import monotonic

import structlog

from receiver.config.environment import Environment, read_environment
from receiver.config.settings import load_file
from receiver.config.values import ConfigError, Mistake

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
    """The secrets of *ROTATED*; those in files are read again when a file changes.

    Unusable secrets (an empty or unreadable file, one token for two purposes) change nothing: the previous ones stay
    valid, `refused` is true, and the log names the mistake once. Thread-safe.
    """

    def __init__(
        self, environ: Mapping[str, str], environment: Environment, now: Callable[[], float] = monotonic
    ) -> None:
        """Start with *environment*, just read from *environ*."""
        self._environ, self._now = environ, now
        files = (environ.get(f"{name}_FILE", "").strip() for name in ROTATED)
        self._files = tuple(File(name) for name in files if name)
        self._key, self._tokens = environment.civo_api_key.get_secret_value(), _tokens(environment)
        self._seen: tuple[object, ...] | None = None  # a file may have changed since: look once
        self._looked_at = now()
        self._lock = threading.Lock()
        self.refused = False

    def tokens(self) -> Tokens:
        """Return the tokens that are valid now."""
        self._look()
        return self._tokens

    def civo_key(self) -> str:
        """Return Civo's key."""
        self._look()
        return self._key

    def _look(self) -> None:
        if not self._files or self._now() - self._looked_at < LOOK_EVERY:
            return
        with self._lock:
            if self._now() - self._looked_at < LOOK_EVERY:
                return
            self._looked_at = self._now()
            seen = _state_of(self._files)
            if seen != self._seen:
                self._seen = seen
                self._take()

    def _take(self) -> None:
        """Read all secrets again, and apply all of them or none."""
        environment, mistakes, _ = read_environment(self._environ)
        if environment is not None:
            mistakes = [*mistakes, *_lost(self._tokens, environment)]
        if environment is None or mistakes:
            self.refused = True
            log.error("secrets refused", detail="the previous ones stay valid", mistakes=[str(m) for m in mistakes])
            return
        self.refused = False
        tokens, key = _tokens(environment), environment.civo_api_key.get_secret_value()
        changed = [
            name
            for name, before, after in (
                ("CIVO_API_KEY", self._key, key),
                ("GPU_AUTOSCALER_WEBHOOK_TOKEN", self._tokens.webhook, tokens.webhook),
                ("GPU_AUTOSCALER_OPERATOR_TOKEN", self._tokens.operator, tokens.operator),
                ("GPU_AUTOSCALER_READER_TOKEN", self._tokens.reader, tokens.reader),
            )
            if before != after
        ]
        self._tokens, self._key = tokens, key
        if changed:
            log.info("secrets changed", names=changed)


class ConfigurationFile:
    """Whether the file on the disk is the one in use, and whether the next start would accept it.

    The file is read once, at the start. A later mistake in it would only show at the next start, which may follow a
    node failure at night. *look* is called now and then.
    """

    def __init__(self, path: File) -> None:
        self._path = path
        self._seen = _state_of((path,))
        self._running = _content(path)
        self.refused = self.differs = False

    def look(self) -> None:
        """Check the file if it was changed, and log the result."""
        seen = _state_of((self._path,))
        if seen == self._seen:
            return
        self._seen = seen
        self.differs = _content(self._path) != self._running
        try:
            load_file(self._path)
        except ConfigError as error:
            self.refused = True
            mistakes = [str(m) for m in error.mistakes]
            log.error("configuration refused", detail="the next start would fail", mistakes=mistakes)
            return
        self.refused = False
        if self.differs:
            log.info("configuration changed", detail="it takes effect at the next start")


def _tokens(environment: Environment) -> Tokens:
    operator, reader = environment.operator_token, environment.reader_token
    return Tokens(
        webhook=tuple(t.get_secret_value() for t in environment.webhook_tokens),
        operator=operator.get_secret_value() if operator else None,
        reader=reader.get_secret_value() if reader else None,
    )


def _lost(before: Tokens, environment: Environment) -> Iterable[Mistake]:
    """Yield what a half-written file may cause: a missing token, a key that cannot be sent."""
    for name, had, has in (
        ("GPU_AUTOSCALER_OPERATOR_TOKEN", before.operator, environment.operator_token),
        ("GPU_AUTOSCALER_READER_TOKEN", before.reader, environment.reader_token),
    ):
        if had and not has:
            yield Mistake(path=f"{name}_FILE", problem="is empty now", remedy="restart to remove a token")
    if not _SENT.fullmatch(environment.civo_api_key.get_secret_value()):
        remedy = "write the API key alone into it"
        yield Mistake(path="CIVO_API_KEY_FILE", problem="holds characters that no API key has", remedy=remedy)


def _state_of(files: Sequence[File]) -> tuple[object, ...]:
    """Return a value that changes when one of *files* does, also behind the symlinks that Kubernetes switches."""
    found: list[object] = []
    for file in files:
        try:
            stat = file.stat()
            found.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def _content(path: File) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
