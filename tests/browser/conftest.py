"""One Chromium and one live stack for the tests of this folder; both end when others follow: these run in quiet."""

from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import chromium
from tests.browser.live import LiveStack
from tests.browser.scene import playing

_running = ExitStack()
_kept: dict[str, Browser | LiveStack] = {}


@pytest.fixture(scope="module")
def browser() -> Browser:
    """A headless Chromium."""
    if "browser" not in _kept:
        _kept["browser"] = _running.enter_context(chromium())
    found = _kept["browser"]
    assert isinstance(found, Browser)
    return found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> LiveStack:
    """The stack on whose pages everything happens at once."""
    if "scene" not in _kept:
        _kept["scene"] = _running.enter_context(playing(tmp_path_factory.mktemp("scene")))
    found = _kept["scene"]
    assert isinstance(found, LiveStack)
    return found


@pytest.hookimpl(trylast=True)  # after the fixtures that use them
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End both when what comes next is not of this folder."""
    if nextitem is None or "tests/browser/" not in nextitem.nodeid:
        _kept.clear()
        _running.close()
