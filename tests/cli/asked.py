"""A server over any store, and commands asked of it as a person would."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from click.testing import CliRunner, Result
from werkzeug.serving import make_server

from receiver.cli.main import main
from receiver.web.app import create_app
from receiver.web.parts import WebParts
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.web.builders import NOW, a_picture


@contextmanager
def serving(parts: WebParts) -> Iterator[str]:
    """A server over *parts* that really listens; its URL."""
    server = make_server("127.0.0.1", 0, create_app(parts), threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str, *arguments: str, at: datetime) -> Result:
    """Run ``gpu-autoscaler ARGUMENTS`` against *url* with the clock at *at*."""
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url, "NO_COLOR": None})
    return runner.invoke(main, list(arguments), obj=FixedClock(at))


def keep_picture(store: MemoryStore, **more: Any) -> None:
    """Let *store* hold a picture of four seconds ago that differs from the full one in *more*."""
    store.keep_snapshot(a_picture(**more), NOW - timedelta(seconds=4))
