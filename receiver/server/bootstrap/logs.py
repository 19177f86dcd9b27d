"""How the process logs."""

import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from receiver.core.model.text import harmless


def configure_logs() -> None:
    """Write one line per event to standard output: JSON unless it is a terminal."""
    terminal = sys.stdout.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *([_shown] if terminal else []),
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,  # a storm of deliveries writes a line for each
    )


def _shown(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Keep what others wrote from steering a terminal; JSON escapes it by itself."""
    return {key: harmless(value) if isinstance(value, str) else value for key, value in event.items()}
