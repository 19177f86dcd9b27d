"""The pictures of README.md: there, and small. `make release-check` says which are old."""

from tests.browser.pictures import PICTURES, SHOWS, digest, old
from tests.docs.pages import text_of
from tests.lint import none_of

TWO_MEGABYTES = 2 * 1024 * 1024


def test_a_picture_is_old_once_what_it_shows_has_changed() -> None:
    made = {name: digest(name) for name in SHOWS}
    assert old(made) == []
    assert old({**made, "pool.png": "of another page"}) == ["pool.png"]


def test_every_picture_of_the_readme_is_there_and_together_they_are_small() -> None:
    files = {path.name: path for path in PICTURES.iterdir() if path.suffix in (".png", ".svg")}
    page = text_of("README.md")
    none_of(name for name in files if f"](docs/pictures/{name})" not in page)
    assert files.keys() >= SHOWS.keys()
    assert sum(path.stat().st_size for path in files.values()) < TWO_MEGABYTES
