"""The pictures of README.md, made anew: `make readme-pictures`.

`pool.png` is a page over the live stack, `message.png` a message as chats show it, `dashboard.png` the top of a
dashboard over a played scenario. ``docs/pictures/made-of.json`` keeps a digest of what each shows, by which
`make release-check` finds pictures that are older than that.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from demo.stack import signals_end_the_block
from tests.browser.chromium import DESK, a_tab, chromium
from tests.browser.places import path_of, token_for
from tests.browser.scene import playing

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
MADE_OF = PICTURES / "made-of.json"
MESSAGE = ROOT / "tests" / "core" / "notices" / "wire" / "slack.grew.json"
BOARD = "gpu-autoscaler-pools"
WEB = ROOT / "receiver" / "web"
# What each picture shows: when one of these changes, the picture is old.
SHOWS: Mapping[str, tuple[Path, ...]] = {
    "pool.png": (WEB / "templates" / "pool.html", WEB / "templates" / "base.html", WEB / "static" / "style.css"),
    "message.png": (MESSAGE,),
    "dashboard.png": (ROOT / "dashboards" / f"{BOARD}.json",),
}
CARD = """<!doctype html><meta charset="utf-8"><style>
body{{margin:0;padding:16px;width:688px;background:#fff;color:#1d1c1d}}
body{{font:15px/1.47 Lato,"Helvetica Neue",Arial,sans-serif}}
.who{{font-weight:900}} .at{{color:#616061;font-size:12px}}
.app{{background:#ddd;border-radius:2px;font-size:10px;padding:1px 3px;margin:0 6px;color:#616061}}
b{{display:block;margin:6px 0;font-size:18px}} p{{margin:0 0 2px;overflow-wrap:anywhere}}
i{{display:inline-block;width:15px;height:15px;border-radius:50%;background:#2eb67d;vertical-align:-1px}}
small{{display:block;color:#616061;margin:8px 0}}
a{{display:inline-block;border:1px solid #bbb;border-radius:4px;padding:4px 12px;margin-right:8px;font-weight:700}}
</style><span class="who">gpu-autoscaler</span><span class="app">APP</span><span class="at">12:00</span>
<b>{title}</b>{lines}<small>{context}</small>{buttons}"""


def digest(picture: str) -> str:
    """Return the digest of what *picture* shows."""
    parts = b"".join(path.read_bytes() for path in SHOWS[picture])
    return hashlib.sha256(parts).hexdigest()[:16]


def old(made: Mapping[str, str]) -> list[str]:
    """Return the pictures that are older than what they show, by the digests of when they were *made*."""
    return [name for name in SHOWS if made.get(name) != digest(name)]


def message() -> str:
    """Return a message as HTML, like Slack shows its blocks."""
    header, section, context, actions = json.loads(MESSAGE.read_text(encoding="utf-8"))["blocks"]
    lines = "".join(
        f"<p>{line}</p>" for line in section["text"]["text"].splitlines()
    )  # Slack's text is escaped already
    buttons = "".join(f"<a>{button['text']['text']}</a>" for button in actions["elements"])
    said = context["elements"][0]["text"]
    title = header["text"]["text"].replace("\N{LARGE GREEN CIRCLE}", "<i></i>")  # no font here has the sign
    return CARD.format(title=title, lines=lines, context=said, buttons=buttons)


def take(browser: Browser, html: str, picture: Path, clip: Any = None) -> None:
    """Write the picture of a page of our own."""
    size: Any = {"width": 1400, "height": 500} if clip else {"width": 720, "height": 100}
    page = browser.new_page(viewport=size, device_scale_factor=1.5)
    page.set_content(html)
    page.screenshot(path=picture, full_page=True, clip=clip)
    page.close()


def take_pool(browser: Browser, folder: Path) -> None:
    """Play the live stack, and take the upper part of a pool's page."""
    with playing(folder) as stack:
        url = stack.places.url("receiver")
        with a_tab(browser, url, DESK, "light", token=token_for("pool")) as tab:
            tab.page.goto(f"{path_of('pool', stack)}?span=6h")
            clip: Any = {"x": 0, "y": 0, "width": 1280, "height": 1120}  # to the end of the first chart
            tab.page.screenshot(path=PICTURES / "pool.png", full_page=True, clip=clip)


def take_message(browser: Browser, _folder: Path) -> None:
    """Draw the message."""
    take(browser, message(), PICTURES / "message.png")


def take_dashboard(browser: Browser, folder: Path) -> None:
    """Play the dashboards' scenario for six minutes, and take the upper part of one."""
    subprocess.run([sys.executable, "-m", "tools.grafana.scenario", "--out", folder], check=True, cwd=ROOT)
    html = (folder / f"{BOARD}.html").read_text(encoding="utf-8")
    take(browser, html, PICTURES / "dashboard.png", {"x": 0, "y": 0, "width": 1400, "height": 826})


TAKE = {"pool.png": take_pool, "message.png": take_message, "dashboard.png": take_dashboard}


def main() -> None:
    """Play, and write the pictures and what they are made of."""
    asked = argparse.ArgumentParser(prog="make readme-pictures", description=__doc__)
    asked.add_argument("names", nargs="*", choices=[[], *TAKE], help="all without")
    asked.add_argument("--check", action="store_true", help="take none; fail if one is older than what it shows")
    said = asked.parse_args()
    names = said.names or [*TAKE]
    PICTURES.mkdir(exist_ok=True)
    made = json.loads(MADE_OF.read_text(encoding="utf-8")) if MADE_OF.exists() else {}
    if said.check:
        sys.exit("\n".join(f"{name} is older than what it shows: make readme-pictures" for name in old(made)) or 0)
    with signals_end_the_block(), tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for name in names:
            TAKE[name](browser, Path(folder) / name)
            made[name] = digest(name)
            MADE_OF.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            sys.stdout.write(f"{PICTURES / name}\n")


if __name__ == "__main__":
    main()
