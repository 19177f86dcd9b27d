"""The running server: its health, readiness, version and configuration."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from receiver import installed_version
from receiver.adapters.http.own_api import ServerApi
from receiver.adapters.http.sessions import quick_session
from receiver.core.model.text import some
from receiver.doctor.checks import CALL_TIMEOUTS, Area, Check, Finding, Installation, skipped
from receiver.ports import TryLater

ANSWERS = Check(
    "server.reached",
    "whether the server answers at `GPU_AUTOSCALER_URL`",
    "start it (`gpu-autoscaler serve`), or set GPU_AUTOSCALER_URL to its address (https if it has a "
    "certificate); from outside the cluster, first run "
    "`kubectl port-forward -n gpu-autoscaler svc/gpu-autoscaler 8080:8080`",
)
HEALTH = Check(
    "server.health",
    "whether its loop runs (`/healthz`)",
    "read its log; the kubelet restarts it, or restart it yourself",
)
READY = Check(
    "server.ready",
    "whether webhooks are accepted and stored, and steps succeed (`/readyz`)",
    "fix the cause it names: the store, or a failed step (see the log)",
)
VERSION = Check(
    "server.version",
    "whether it has the version of this command",
    "run the doctor of the server's own version (in its pod), or finish the upgrade",
)
SAME = Check(
    "server.configuration",
    "whether it has the mode and the number of pools of the local file",
    "see its log for a refused file, or run the doctor with the server's file and environment",
)
SOURCES = Check(
    "server.sources",
    "whether every source answered in its last step, the heartbeat included",
    "see the page /sources for the consequences and remedies (docs/troubleshooting.md)",
)
CHECKS = (ANSWERS, HEALTH, READY, VERSION, SAME, SOURCES)


def look(installation: Installation) -> Iterator[Finding]:
    """Check the probes, then the status."""
    configuration = installation.settings.configuration
    with closing(opened(installation)) as server:
        try:
            beats, health = server.probe("/healthz")
            takes, ready = server.probe("/readyz")
            status, document = server.probe("/api/v1/status")
        except TryLater as error:
            named = bool(installation.environ.get("GPU_AUTOSCALER_URL", "").strip())
            yield (ANSWERS.failed if named else ANSWERS.warned)(str(error))
            yield from skipped(CHECKS[1:], "the server does not answer")
            return
    yield ANSWERS.passed(f"the server answers at {server.shown}")
    progress = f"the loop is {health.get('loop')}, last progress {health.get('beat_age_seconds')} s ago"
    yield HEALTH.failed_if(beats != 200, progress, progress)
    reason = ready.get("reason") or "no reason given"
    yield READY.failed_if(takes != 200, f"not ready: {reason}", "webhooks are accepted and stored, and steps succeed")
    server_version, own_version = health.get("version"), installed_version()
    yield VERSION.warned_if(
        server_version != own_version,
        f"the server is {server_version}, this command {own_version}",
        f"both are {own_version}",
    )
    mode, pools = configuration.mode.value, len(configuration.pools)
    difference = f"the server runs in mode {health.get('mode')}, the local file has {mode}"
    if health.get("mode") == mode:
        difference = f"the server has {ready.get('pools')} pools, the local file has {pools}"
    same = (health.get("mode"), ready.get("pools")) == (mode, pools)
    yield SAME.warned_if(not same, difference, f"mode {mode}, {some(pools, 'pool')}, as in the local file")
    yield sources(status, document)


def opened(installation: Installation) -> ServerApi:
    """Return a client of the server, with the reader's or operator's token and without retries."""
    environment = installation.settings.environment
    token = environment.reader_token or environment.operator_token
    reader = token.get_secret_value() if token else None
    return ServerApi(environment.url, CALL_TIMEOUTS, quick_session(repeats=0), reader)


def running_mode(installation: Installation) -> str:
    """Return the mode of the running server. Raises TryLater without an answer."""
    with closing(opened(installation)) as server:
        _, health = server.probe("/healthz")
    return str(health.get("mode"))


def sources(status: int, document: Mapping[str, Any]) -> Finding:
    """Find sources that did not answer the server."""
    entries = document.get("sources")
    if status != 200 or not isinstance(entries, list):
        return SOURCES.skipped(f"the server does not report it ({status}): no step has ended yet, or it needs a token")
    configured = [source for source in entries if source.get("configured")]
    silent = [f"{s.get('source')} ({s.get('detail') or 'no answer'})" for s in configured if not s.get("up")]
    problem = f"the server gets no answer from {'; '.join(silent)}"
    return SOURCES.warned_if(silent, problem, f"all {len(configured)} configured sources answered")


AREA = Area(
    name="server",
    source="the running server",
    checks=CHECKS,
    look=look,
    remedy="check that the server answers, and run the doctor again",
)
