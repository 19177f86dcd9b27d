"""The pictures of README.md: there, small, and of what they show as it is now."""

import json

from tests.browser.pictures import MADE_OF, PICTURES, SHOWS, digest
from tests.docs.pages import text_of
from tests.lint import none_of

TWO_MEGABYTES = 2 * 1024 * 1024


def test_no_picture_is_older_than_what_it_shows() -> None:
    made = json.loads(MADE_OF.read_text(encoding="utf-8"))
    none_of(f"{name}: run `make readme-pictures`" for name in SHOWS if made.get(name) != digest(name))


def test_every_picture_of_the_readme_is_there_and_together_they_are_small() -> None:
    files = {path.name: path for path in PICTURES.iterdir() if path.suffix in (".png", ".svg")}
    page = text_of("README.md")
    none_of(name for name in files if f"](docs/pictures/{name})" not in page)
    assert files.keys() >= SHOWS.keys()
    assert sum(path.stat().st_size for path in files.values()) < TWO_MEGABYTES
