"""A headless Chromium, and pages in it that note whatever is wrong while they are looked at."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, ViewportSize, sync_playwright

from tools.fetch_chromium import FOUND

DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 375, "height": 812}
SCHEMES = ("light", "dark")
SECONDS = 20  # a page on a busy machine takes one


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the Chromium that `make browser` has found. Raises FileNotFoundError when it was not asked to."""
    if not FOUND.exists():
        raise FileNotFoundError(f"{FOUND} is not there: run `make browser` once")
    found: dict[str, Any] = json.loads(FOUND.read_text())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found["at"], chromium_sandbox=found["sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One page of a browser with *base* as its address; `wrong` is what it complained of."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.wrong = page, list[str]()
        self._host = urlsplit(base).netloc
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(f"error in a script: {error}"))
        page.on("request", self._asked)
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):  # a refusal by the content security policy is an error, too
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "about") and address.netloc != self._host:
            self.wrong.append(f"asked another host: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the reader left before it was answered
            self.wrong.append(f"failed: {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.wrong.append(f"HTTP {response.status}: {response.url}")


@contextmanager
def a_tab(
    browser: Browser,
    base: str,
    size: ViewportSize = DESK,
    scheme: Any = "light",
    *,
    scripts: bool = True,
    token: str = "",
) -> Iterator[Tab]:
    """Yield a page of its own, with no cookies but those of a log-in with *token*.

    *scripts* False is a reader who has switched JavaScript off.
    """
    context = browser.new_context(
        base_url=base, viewport=size, color_scheme=scheme, java_script_enabled=scripts, reduced_motion="reduce"
    )
    context.set_default_timeout(SECONDS * 1000)
    try:
        if token:
            context.request.post("/login", form={"token": token}, headers={"Origin": base}, fail_on_status_code=True)
        yield Tab(context.new_page(), base)
    finally:
        context.close()
