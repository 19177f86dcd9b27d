"""One Chromium and one live stack for the tests of this folder; both end with them, so that others run in quiet."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import chromium
from tests.browser.live import LiveStack
from tests.browser.scene import playing


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The stack on whose pages everything happens at once."""
    folder: Path = tmp_path_factory.mktemp("scene")
    with playing(folder) as stack:
        yield stack
