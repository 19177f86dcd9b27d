"""Pictures of every incident over the real pages: `make incident-pictures OUT=dir`.

For each, the pages on a phone, light and dark, and a sheet with the overview, the terminal and the messages side by
side.
"""

import argparse
import html
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from playwright.sync_api import Browser
from werkzeug.serving import make_server

from receiver.web.app import create_app
from tests.browser.chromium import DESK, PHONE, SCHEMES, a_tab, chromium
from tests.given.life import Life
from tests.incidents.play import INCIDENTS, Incident
from tests.incidents.views import bench_of, seen
from tests.web.builders import OPERATOR

PAGES = {
    "now": "/",
    "pool": "/pools/{pool}",
    "pause": "/pools/{pool}/overrides",
    "budgets": "/budgets",
    "costs": "/costs",
    "decisions": "/decisions",
}
SHEET = """<!doctype html><meta charset="utf-8"><style>
body{{margin:16px;font:14px/1.45 system-ui,sans-serif;color:#1b2230;background:#fff;width:1700px}}
div{{display:flex;gap:16px;align-items:flex-start}} img{{width:375px;border:1px solid #999;flex:none}}
pre{{white-space:pre-wrap;margin:0;padding:12px;border:1px solid #999;font:12px/1.4 ui-monospace,monospace;flex:1}}
</style><h1>{title}</h1><div><img src="data:image/png;base64,{page}"><pre>{status}</pre><pre>{message}</pre></div>"""


@contextmanager
def serving(life: Life) -> Iterator[str]:
    """Yield the address of a server that shows *life* as it stands."""
    server = make_server("127.0.0.1", 0, create_app(bench_of(life).parts()), threaded=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


def take(browser: Browser, name: str, incident: Incident, out: Path, *, wide: bool) -> None:
    """Write the pictures of one incident."""
    life = incident.play()
    pool = life.policy.pools[0].name
    sizes = {"phone": PHONE, **({"wide": DESK} if wide else {})}
    with serving(life) as url:
        for scheme in SCHEMES:
            for width, size in sizes.items():
                with a_tab(browser, url, size, scheme, token=OPERATOR) as tab:
                    for page, path in PAGES.items():
                        tab.page.goto(path.format(pool=pool))
                        tab.page.screenshot(path=out / f"{name}-{page}-{width}-{scheme}.png", full_page=True)
    views, phone = seen(life), (out / f"{name}-now-phone-light.png").read_bytes()
    sheet = browser.new_page(viewport={"width": 1732, "height": 400})
    sheet.set_content(
        SHEET.format(
            title=html.escape(incident.title),
            page=b64encode(phone).decode(),
            status=html.escape(views.status),
            message=html.escape("\n\n".join(views.messages) or "no message"),
        )
    )
    sheet.screenshot(path=out / f"{name}-sheet.png", full_page=True)
    sheet.close()


def main() -> None:
    """Play the incidents that are named, or all, and write their pictures."""
    arguments = argparse.ArgumentParser(prog="make incident-pictures", description=__doc__)
    arguments.add_argument("names", nargs="*", choices=[[], *INCIDENTS], help="all without")
    arguments.add_argument("--out", type=Path, default=Path(".build/incidents"))
    arguments.add_argument("--wide", action="store_true", help="take pages at the width of a desk, too")
    options = arguments.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for name in options.names or INCIDENTS:
            take(browser, name, INCIDENTS[name], out, wide=options.wide)
    sys.stdout.write(f"pictures are in {out}\n")


if __name__ == "__main__":
    main()
