"""Servers for the tests of what gunicorn does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.gunicorns import Server, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A gunicorn of a test's own, which may stop it."""
    with serving(tmp_path) as served:
        yield served


@pytest.fixture(scope="module")
def http_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gunicorn that speaks http, for several tests."""
    with serving(tmp_path_factory.mktemp("http")) as served:
        yield served


@pytest.fixture(scope="module")
def https_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gunicorn that speaks https, for several tests."""
    with serving(tmp_path_factory.mktemp("https"), https=True) as served:
        yield served
