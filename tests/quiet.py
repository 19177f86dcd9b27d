"""The log of the product while tests run."""

import structlog


def silence() -> None:
    """One canonical line per step is right for production and drowns a failing test's report.

    Lines are made as in production all the same: structlog's own choice draws each exception with rich, for seconds.
    """
    structlog.reset_defaults()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.ReturnLoggerFactory(),
    )
