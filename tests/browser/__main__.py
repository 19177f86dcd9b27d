"""Pictures of every page over the live stack, wide and on a phone, light and dark: `make screenshots OUT=dir`."""

import argparse
import sys
import tempfile
from pathlib import Path

from demo.stack import signals_end_the_block
from tests.browser.chromium import DESK, PHONE, SCHEMES, a_tab, chromium
from tests.browser.places import PLACES, path_of, token_for
from tests.browser.scene import playing


def main() -> None:
    """Write a picture per page, width and colour scheme into a folder."""
    asked = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    asked.add_argument("--out", type=Path, default=Path(".build/screenshots"))
    out: Path = asked.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with (
        signals_end_the_block(),
        tempfile.TemporaryDirectory() as folder,
        playing(Path(folder)) as stack,
        chromium() as browser,
    ):
        url = stack.places.url("receiver")
        for width, size in (("wide", DESK), ("phone", PHONE)):
            for scheme in SCHEMES:
                for place in PLACES:
                    with a_tab(browser, url, size, scheme, token=token_for(place)) as tab:
                        tab.page.goto(path_of(place, stack))
                        tab.page.screenshot(path=out / f"{place}-{width}-{scheme}.png", full_page=True)
                        height = tab.page.evaluate("document.documentElement.scrollHeight")
                        sys.stdout.write(f"{height:6} px  {place}, {width}, {scheme}\n")
    sys.stdout.write(f"pictures are in {out}\n")


if __name__ == "__main__":
    main()
