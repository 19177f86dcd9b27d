"""gunicorn's settings: one worker that answers webhooks on sixteen threads and runs the loop beside them.

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

# https: both or none (check-config says so). Read anew for each connection: a renewed certificate needs no restart.
certfile = os.environ.get("GPU_AUTOSCALER_TLS_CERT_FILE") or None
keyfile = os.environ.get("GPU_AUTOSCALER_TLS_KEY_FILE") or None

# What a request may be; the body's limit is `webhook.max_bytes`.
limit_request_line = 4094  # bytes
limit_request_fields = 50
limit_request_field_size = 8190  # bytes

# One worker: two would run two loops, and each /metrics would be a matter of chance.
workers = 1
worker_class = "receiver.server.gunicorn_worker.Worker"  # gthread that no slow client can stop
threads = 16  # each holds one request from when it has come to its answer: they wait far more than they work
# Each connection is a file, and a worker that can open none ends. Many systems let a process have 1,024 files until it
# asks for more.
_MOST_FILES = 4096
_BESIDE = 200  # files that are no connection of a client: the database, its log, Civo, Kubernetes


def _files() -> int:
    """Ask for as many files as we may have, and return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


worker_connections = max(50, min(1000, _files() - _BESIDE))
# A thread that starts before the fork stays in the master, so nothing is loaded there.
preload_app = False

# For a worker to load, which takes 2 s of processor time: a busy machine needs longer, and one that was ended at the
# usual 30 s would begin anew for ever. What hangs later is found by whoever asks /healthz.
timeout = 120

# SIGTERM: answers under way and the loop's present call may end; Kubernetes kills after 30 s by default.
graceful_timeout = 20

# The control socket (gunicorn 25.1) wants a writable home, which a read-only root file system has not.
control_socket_disable = True

# The worker's heartbeat file must not wait for a disk.
_shm = Path("/dev/shm")  # noqa: S108 (a memory file system, not a guessable temporary file: gunicorn unlinks it at once)
worker_tmp_dir = str(_shm) if _shm.is_dir() and os.access(_shm, os.W_OK) else None

accesslog = None  # /metrics counts answers; a line for each scrape and probe tells nobody anything
errorlog = "-"
logger_class = "receiver.server.gunicorn_log.CarefulLogger"  # quotes nothing that a client sent
proc_name = "gpu-autoscaler"


def post_worker_init(worker: Any) -> None:
    """Start the loop in the worker, after the application was loaded there."""
    from receiver.server import bootstrap

    bootstrap.start(worker.wsgi)
    worker.told_to_stop = partial(bootstrap.tell_to_stop, worker.wsgi)


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ARG001 (gunicorn passes both)
    """Stop the loop when the worker ends, for whichever reason; a worker that failed to load has none."""
    from receiver.server import bootstrap

    if getattr(worker, "wsgi", None) is not None:
        bootstrap.stop(worker.wsgi)
