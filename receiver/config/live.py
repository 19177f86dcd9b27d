"""The configuration file while the program runs: read again when it changes, and applied as a whole or not at all.

A few keys shape what is built once at the start (`NEEDS_RESTART`); they are named, and the others take effect.
"""

import errno
import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path as File
from typing import Any

import structlog

from receiver.config.changed import with_changes
from receiver.config.model import Configuration
from receiver.config.settings import FileSettings, Settings, load_file, load_text
from receiver.config.values import ConfigError, Mistake, Section, spell, spell_duration
from receiver.core.model.configuration import SETTLED, ConfigurationFile
from receiver.core.model.pool_facts import PoolFacts

# Keys, or sections of them, that take effect at the next start.
NEEDS_RESTART = (
    "tick",
    "warm_up",
    "prometheus",
    "alertmanager",
    "kubernetes.enabled",
    "kubernetes.watch",
    "kubernetes.keep_nodes_for",
    "kubernetes.capacity_buffers",
    "kubernetes.best_effort_atomic",
    "kueue",
    "volcano",
    "leader",
)
_ID = {"pools": "civo_pool_id", "windows": "name", "units": "name"}  # what identifies an item of a list
_EMPTY = (None, (), "")
Path = tuple[str | int, ...]

log = structlog.get_logger("receiver")


class LiveConfiguration:
    """*settings* are those in force, *file* what the last look found. `look` is called now and then. Thread-safe."""

    def __init__(
        self,
        path: File,
        settings: FileSettings,
        now: Callable[[], datetime],
        refuses: Callable[[Configuration], Iterable[Mistake]] = lambda _: (),
        facts: Callable[[], PoolFacts | None] = lambda: None,
        needs_facts: Callable[[], None] = lambda: None,
    ) -> None:
        """Start with *settings*, which the file at *path* had. *refuses* yields the mistakes of a configuration that
        the file alone does not show. *facts* are those of Civo about the pools (None: not known yet);
        *needs_facts* is called when the file has changed, and when it leaves something to Civo that is not known; it
        must return at once."""
        self.settings, self.file = settings, ConfigurationFile()
        self._path, self._started, self._now, self._refuses = path, settings, now, refuses
        self._region = settings.environment.civo_region if isinstance(settings, Settings) else ""
        self._facts, self._needs_facts = facts, needs_facts
        self._known: PoolFacts | None = None  # as of the last read
        self.asks_civo = bool(settings.from_civo)
        self._read: dict[File, bytes | None] = {}  # the content of the files that were read last
        self._changing: dict[File, bytes | None] = {}  # their content at the last look, if it had changed
        self._lock = threading.Lock()

    @property
    def refused(self) -> bool:
        """True while the file on the disk is not in force, also where it waits for Civo since the start."""
        return bool(self.file.mistakes or self.settings.pending)

    @property
    def differs(self) -> bool:
        """True while something in the file is not in force."""
        return self.refused or bool(self.file.restart)

    def look(self) -> bool:
        """Read the file if its content has changed, that of its ``prices_file``, or what Civo says of the pools; return
        whether other settings are in force now. What changed since the look before is read at the next one: the first
        half of a file may be a valid file without a budget."""
        with self._lock:
            contents, facts = {file: _content(file) for file in self._read or (self._path,)}, self._facts()
            if contents == self._read and facts == self._known:
                return False
            if self._read and contents not in (self._read, self._changing):
                self._changing = contents
                self.asks_civo = True  # until the new file is read: a refused one does not say what it leaves out
                self._needs_facts()
                return False
            news = self._known is None and facts is not None
            started_with = self.settings.text.encode()
            same = self._read == contents or (not self._read and contents.get(self._path) == started_with)
            first, self._known, self._read = news and same, facts, {}
            try:
                settings = load_file(self._path, self._noted, self._region, facts)
                self.asks_civo = bool(settings.from_civo)
                if self.asks_civo and facts is None:
                    self._needs_facts()
                if mistakes := list(self._refuses(settings.configuration)):
                    raise ConfigError(mistakes)
                if settings.pending and not self.settings.pending:
                    raise ConfigError([_no_answer(pool.civo_pool_id) for pool in settings.pending])
                return self._accept(settings, quietly=first or bool(self.settings.pending))
            except ConfigError as error:
                self._refuse(tuple(str(mistake) for mistake in error.mistakes))
            except Exception as error:  # a bug: what is not in force must not look as if it were
                log.exception("configuration not read")
                self._refuse((f"the file could not be read ({type(error).__name__}); the log has more",))
            return False

    def other(self, text: str, *, changes: bool = False) -> FileSettings:
        """Return the settings in *text* (YAML) without applying them; with *changes* it holds only the keys that differ
        from those in force. Raises ConfigError. Of the disk, only the ``prices_file`` in force is read."""
        in_force = self.settings
        prices_file = in_force.configuration.prices_file

        def read(file: File) -> bytes:
            if prices_file is None or file != self._path.parent / prices_file:
                raise OSError(errno.EACCES, "only the prices_file in force is read here")
            return file.read_bytes()

        whole = with_changes(in_force.text, text) if changes else text
        return load_text(whole, directory=self._path.parent, read=read, region=self._region, facts=self._facts())

    def _noted(self, file: File) -> bytes:
        """Return the content of *file*, noted so that a later change of it is seen."""
        self._read[file] = None
        self._read[file] = content = file.read_bytes()
        return content

    def _digest(self) -> str:
        contents = b"\0".join(content or b"" for content in self._read.values())
        return hashlib.sha256(contents).hexdigest()[:16]

    def _refuse(self, mistakes: tuple[str, ...]) -> None:
        since = self.file.at if self.file.mistakes else self._now()
        self.file = replace(self.file, at=since, mistakes=mistakes, changes=(), digest=self._digest())
        stays = "nothing is decided meanwhile" if self.settings.pending else "the previous one stays in force"
        log.error("configuration refused", detail=stays, mistakes=list(mistakes))

    def _accept(self, settings: FileSettings, *, quietly: bool) -> bool:
        """Put *settings* into force; *quietly* where it is the file of the start, completed by Civo's first answer."""
        before, now = self.settings, self._now()
        restart = tuple(path for path, _ in changes(self._started, settings) if needs_restart(path))
        if quietly and settings != before:
            self.settings = settings
            self.file = replace(self.file, at=None, mistakes=(), restart=restart)
            log.info("pools read from Civo", pools={pool: list(keys) for pool, keys in settings.from_civo.items()})
            return True
        changed = tuple(self._told(path, how, restart) for path, how in changes(before, settings))
        was_refused = self.refused and self.file.at is not None and now - self.file.at >= SETTLED
        differs = (settings.configuration, settings.prices) != (before.configuration, before.prices)
        if differs or was_refused:
            changed = changed or (("prices_file read again",) if differs else ())
            self.file = ConfigurationFile(at=now, changes=changed, restart=restart, digest=self._digest())
        elif self.refused:
            self.file = replace(self.file, at=None, mistakes=())
        if not differs:
            return False
        for warning in settings.warnings:
            if warning not in before.warnings:
                log.warning("configuration", detail=warning)
        log.info("configuration changed", changes=list(changed), needs_restart=list(restart))
        self.settings = settings
        return True

    @staticmethod
    def _told(path: str, how: str, restart: Collection[str]) -> str:
        """Return the change in words; of the keys that need a restart without values, which may hold a password."""
        if needs_restart(path):
            how = "needs a restart" if path in restart else "as at the start"
        return f"{path} {how}"


def _no_answer(pool: str) -> Mistake:
    remedy = "wait for Civo, or write name, size and resources of the pool"
    return Mistake(path=f"pool {pool}", problem="Civo has not said its size and GPUs yet", remedy=remedy)


def differences(before: FileSettings, after: FileSettings) -> Iterator[str]:
    """Yield each key whose value differs, in words; of the keys that need a restart without values, which may hold a
    password."""
    for path, how in changes(before, after):
        yield f"{path} {'takes effect at the next start' if needs_restart(path) else how}"


def needs_restart(path: str) -> bool:
    return any(path == key or path.startswith(f"{key}.") for key in NEEDS_RESTART)


def changes(before: FileSettings, after: FileSettings) -> Iterator[tuple[str, str]]:
    """Yield each key whose value differs, and how: ``pools.l40s.max_nodes`` and ``4 -> 6``."""
    for at, how in _between(before.configuration, after.configuration, ()):
        yield spell(at), how
    for prices in ("sizes", "codes"):
        for at, how in _between(getattr(before.prices, prices), getattr(after.prices, prices), ("prices",)):
            yield spell(at), how


def _between(was: object, now: object, at: Path) -> Iterator[tuple[Path, str]]:
    if was == now:
        return
    if isinstance(was, Section) and isinstance(now, Section):
        for name in type(now).model_fields:
            yield from _between(getattr(was, name), getattr(now, name), (*at, name))
        return
    old, new = _items(was, at), _items(now, at)
    if old is None or new is None:
        yield at, _how(was, now)
        return
    for key in dict.fromkeys((*old, *new)):
        name, before, after = (new.get(key) or old[key])[0], old.get(key, ("", None))[1], new.get(key, ("", None))[1]
        yield from _between(before, after, (*at, name))
    if old.keys() == new.keys() and list(old) != list(new):
        yield at, "in another order"


def _items(value: object, at: Path) -> Mapping[str, tuple[str, Any]] | None:
    """Return the items of *value* by what identifies them, each with what people call it; None if nothing does."""
    if isinstance(value, dict):
        return {key: (key, item) for key, item in value.items()}
    if isinstance(value, tuple) and at and at[-1] in _ID and all(isinstance(item, Section) for item in value):
        return {getattr(item, _ID[str(at[-1])]): (item.name, item) for item in value}
    return None


def _how(was: object, now: object) -> str:
    if was in _EMPTY:
        return "added" if _said(now) is None else f"set to {_said(now)}"
    if now in _EMPTY:
        return "removed"
    texts = _said(was), _said(now)
    return "changed" if None in texts else f"{texts[0]} -> {texts[1]}"


def _said(value: object) -> str | None:
    """Return *value* as a file says it; None if it is more than one line can show."""
    if isinstance(value, tuple):
        each = [_said(item) for item in value]
        return None if None in each else ", ".join(map(str, each))
    if isinstance(value, Section):
        return None
    if isinstance(value, timedelta):
        return spell_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value if isinstance(value, Enum) else value)


def _content(file: File) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
