"""How the configuration file on the disk relates to the configuration in force."""

from dataclasses import dataclass
from datetime import datetime, timedelta

SETTLED = timedelta(seconds=10)  # an editor may leave a file half-written for that long: no message is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationFile:
    """What the last read of the file found, *at* when; None: as at the start.

    With *mistakes* it is refused, and the configuration before it stays in force. *changes* are those of the last
    accepted file, such as ``pools.l40s.max_nodes 4 -> 6``; none where an accepted file followed a refused one and
    changed nothing. *restart* are keys that differ from those of the start and only change with a restart. *digest* is
    that of the content.
    """

    at: datetime | None = None
    mistakes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    digest: str = ""
