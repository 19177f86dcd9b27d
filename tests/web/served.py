"""A WSGI application over a store in memory and gunicorn settings around it, for a real server in a test.

The settings are ours but for the hooks, which leave a note instead of starting a loop.
"""

import json
import os
from ipaddress import ip_network
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from flask import Flask, g

from receiver.server import gunicorn_conf, gunicorn_worker
from receiver.web.app import create_app
from tests.web.builders import Bench

globals().update({name: value for name, value in vars(gunicorn_conf).items() if not name.startswith("_")})
gunicorn_worker.READ_SECONDS = 2.0
gunicorn_worker.SEND_SECONDS = 1
gunicorn_worker.MOST_BYTES = 100_000
wsgi_app = "tests.web.served:app()"


def app() -> Flask:
    """Return the application."""
    proxies = (ip_network("127.0.0.1/32"),)
    bench = Bench(max_body_bytes=2000, user_header="X-Forwarded-User", trusted_proxies=proxies)
    served = create_app(bench.parts())
    served.add_url_rule("/name", "name", view_func=lambda: f"[{g.visitor.name}]")
    served.add_url_rule("/large", view_func=lambda: "x" * 20_000_000)  # more than the kernel takes at once
    served.add_url_rule("/slow", view_func=_slow)
    return served


def _slow() -> str:
    """A page that takes until somebody writes the file that says so."""
    wanted, until = Path(os.environ["NOTES"]).with_name("enough"), monotonic() + 30
    while not wanted.exists() and monotonic() < until:
        sleep(0.02)
    return "made"


def _note(event: str, worker: Any) -> None:
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(json.dumps({"event": event, "pid": os.getpid(), "app": type(worker.wsgi).__name__}) + "\n")


def post_worker_init(worker: Any) -> None:
    """Note that the worker began, and when it is told to stop."""
    worker.told_to_stop = lambda: _note("told", worker)
    _note("started", worker)


def worker_exit(server: Any, worker: Any) -> None:
    """Note that the worker ended."""
    _note("stopped", worker)
