"""What every test shares."""

import structlog

# One canonical line per step is right for production and drowns a failing test's report.
structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
