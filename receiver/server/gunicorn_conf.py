"""gunicorn's settings: one worker with sixteen threads for requests, and the loop beside them.

``gunicorn --config python:receiver.server.gunicorn_conf`` is what `gpu-autoscaler serve` becomes. The settings are
module variables because that is gunicorn's interface (https://gunicorn.org/reference/settings/).
"""

import os
import resource
from functools import partial
from pathlib import Path
from typing import Any

wsgi_app = "receiver.server.bootstrap:load_app()"

bind = os.environ.get("GPU_AUTOSCALER_LISTEN") or "0.0.0.0:8080"

# https: both or none (check-config verifies it). Read for each connection: a renewed certificate needs no restart.
certfile = os.environ.get("GPU_AUTOSCALER_TLS_CERT_FILE") or None
keyfile = os.environ.get("GPU_AUTOSCALER_TLS_KEY_FILE") or None

# Limits of a request; that of the body is `webhook.max_bytes`.
limit_request_line = 4094  # bytes
limit_request_fields = 50
limit_request_field_size = 8190  # bytes

# By default gunicorn takes SCRIPT_NAME and X-Forwarded-Proto from peers at 127.0.0.1. Such a peer may be a proxy, and
# its client would move the path past the proxy's rules.
forwarder_headers = ""
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}

# One worker: two would run two loops, and /metrics would show either.
workers = 1
worker_class = "receiver.server.gunicorn_worker.Worker"  # gthread that slow clients cannot block
threads = 16  # each has one complete request until its answer; they mostly wait
# Each connection is a file, and a worker that cannot open one ends. Many systems allow a process 1,024 files until it
# asks for more.
_MOST_FILES = 4096
_BESIDE = 200  # files beside client connections: the database, its log, Civo, Kubernetes


def _files() -> int:
    """Raise the limit of open files as far as allowed and useful; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


worker_connections = max(50, min(1000, _files() - _BESIDE))
# A thread that starts before the fork stays in the master, so the application is loaded in the worker.
preload_app = False

# For a worker to load, which takes 2 s of CPU time. On a busy machine the usual 30 s may be too short, and the worker
# would be restarted for ever. A worker that hangs later fails /healthz.
timeout = 120

# After SIGTERM, for answers under way and the loop's current call; Kubernetes kills after 30 s by default.
graceful_timeout = 20

# The control socket (gunicorn 25.1) needs a writable home, which a read-only root file system lacks.
control_socket_disable = True

# The worker's heartbeat file must not wait for a disk.
_shm = Path("/dev/shm")  # noqa: S108 (a memory file system, not a guessable temporary file: gunicorn unlinks it at once)
worker_tmp_dir = str(_shm) if _shm.is_dir() and os.access(_shm, os.W_OK) else None

accesslog = None  # /metrics counts answers; a line for each scrape and probe is noise
errorlog = "-"
logger_class = "receiver.server.gunicorn_worker.CarefulLogger"  # never quotes a request
proc_name = "gpu-autoscaler"


def on_starting(server: Any) -> None:
    """Keep the worker on SIGHUP: it reads a changed file by itself. gunicorn would start another one, and end
    altogether if that refuses the file. End without a traceback on SIGTERM while a worker gives up its start."""
    server.reload = partial(server.log.info, "SIGHUP: a changed configuration file is read within a second")
    server.stop = partial(_stop, server.stop)


def _stop(stop: Any, graceful: bool = True) -> None:
    """Call *stop*; end with the worker's status if it finds one that could not start, and has said why."""
    from gunicorn.errors import HaltServer

    try:
        stop(graceful)
    except HaltServer as halt:
        raise SystemExit(halt.exit_status) from None


def post_worker_init(worker: Any) -> None:
    """Start the loop in the worker, after the application was loaded there."""
    from receiver.server import bootstrap

    bootstrap.start(worker.wsgi)
    worker.told_to_stop = partial(bootstrap.tell_to_stop, worker.wsgi)


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ARG001 (gunicorn passes both)
    """Stop the loop when the worker ends for any reason; a worker that failed to load has none."""
    from receiver.server import bootstrap

    if getattr(worker, "wsgi", None) is not None:
        bootstrap.stop(worker.wsgi)
