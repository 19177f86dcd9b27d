"""What may change while the program runs: secrets in files, read again when a file changes, and whether the
configuration on the disk could still be used.

Kubernetes writes a Secret or ConfigMap that was changed into the mounted files of a running pod.
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from time import monotonic

import structlog

from receiver.config.environment import Environment, read_environment
from receiver.config.mistakes import ConfigError, Mistake
from receiver.config.settings import load_file

LOOK_EVERY = 1.0  # seconds: a change is seen that late, and a storm of requests asks the disk no more often
ROTATED = (
    "CIVO_API_KEY",
    "GPU_AUTOSCALER_WEBHOOK_TOKEN",
    "GPU_AUTOSCALER_OPERATOR_TOKEN",
    "GPU_AUTOSCALER_READER_TOKEN",
)
_SENT = re.compile(r"[!-~]+")  # what a header can hold

log = structlog.get_logger("receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Who may send what: the words of Alertmanager (two during a rotation), of an operator, of a reader."""

    webhook: tuple[str, ...] = field(repr=False)
    operator: str | None = field(default=None, repr=False)
    reader: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise ValueError for an empty token of the webhook, which every caller would know."""
        if any(not token.strip() for token in self.webhook):
            raise ValueError("a webhook token is empty: set GPU_AUTOSCALER_WEBHOOK_TOKEN to a long random word")


class LiveSecrets:
    """The secrets of *ROTATED*, those in files as they are now.

    What cannot be used (an empty or unreadable file, one word for two purposes) changes nothing: the secrets from
    before stay, `refused` says so, and the log says once what is wrong. Safe for many threads.
    """

    def __init__(
        self, environ: Mapping[str, str], environment: Environment, now: Callable[[], float] = monotonic
    ) -> None:
        """Begin with *environment*, which was read from *environ* a moment ago."""
        self._environ, self._now = environ, now
        files = (environ.get(f"{name}_FILE", "").strip() for name in ROTATED)
        self._files = tuple(File(name) for name in files if name)
        self._key, self._tokens = environment.civo_api_key.get_secret_value(), _tokens(environment)
        self._seen: tuple[object, ...] | None = None  # a file may have changed since it was read: look once
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
        """Read everything anew, and take all of it or nothing."""
        environment, mistakes, _ = read_environment(self._environ)
        if environment is not None:
            mistakes = [*mistakes, *_lost(self._tokens, environment)]
        if environment is None or mistakes:
            self.refused = True
            log.error("secrets refused", detail="those from before stay valid", mistakes=[str(m) for m in mistakes])
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
    """Whether the file on the disk is the one that runs, and whether the next start would take it.

    The file is read once, at the start: a mistake in it would show at the next one, which may be a node that died at
    night. *look* is called now and then.
    """

    def __init__(self, path: File) -> None:
        self._path = path
        self._seen = _state_of((path,))
        self._running = _content(path)
        self.refused = self.differs = False

    def look(self) -> None:
        """Read the file anew if it was changed, and log what that means."""
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
            log.error("configuration refused", detail="the next start would end with this", mistakes=mistakes)
            return
        self.refused = False
        if self.differs:
            log.info("configuration changed", detail="the file on the disk holds from the next start on")


def _tokens(environment: Environment) -> Tokens:
    operator, reader = environment.operator_token, environment.reader_token
    return Tokens(
        webhook=tuple(t.get_secret_value() for t in environment.webhook_tokens),
        operator=operator.get_secret_value() if operator else None,
        reader=reader.get_secret_value() if reader else None,
    )


def _lost(before: Tokens, environment: Environment) -> Iterable[Mistake]:
    """What must not happen by a file that is half written: a token that is gone, a key that cannot be sent."""
    for name, had, has in (
        ("GPU_AUTOSCALER_OPERATOR_TOKEN", before.operator, environment.operator_token),
        ("GPU_AUTOSCALER_READER_TOKEN", before.reader, environment.reader_token),
    ):
        if had and not has:
            yield Mistake(path=f"{name}_FILE", problem="is empty now", remedy="restart to take a token away")
    if not _SENT.fullmatch(environment.civo_api_key.get_secret_value()):
        remedy = "write the key alone into it"
        yield Mistake(path="CIVO_API_KEY_FILE", problem="holds characters that no key has", remedy=remedy)


def _state_of(files: Sequence[File]) -> tuple[object, ...]:
    """What changes when one of *files* does, also behind the links that Kubernetes turns around."""
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
