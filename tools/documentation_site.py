"""Write docs/ as a static site into .build/site: ``make site``. It is also the hook of mkdocs.yml.

``python -m tools.documentation_site --words`` prints the words of README.md and of each page of docs/, counted as
``wc -w`` does, and their sum; pages of folders are not counted.

Pages, navigation, anchors and lists come from `receiver.web.pages.guides`, so that the site is what the running server
shows at /docs. Links that leave docs/ become plain text, as there: the site has no other files. MkDocs is installed
from requirements/site.lock into a folder of its own: no test needs it.
"""

import os
import posixpath
import subprocess
import sys
from typing import Any

from receiver.web.pages.guide_text import portable, slug, stackable
from receiver.web.pages.guides import GROUPS, HOME, shipped
from tools.make_venv import BUILD, ROOT, NotMade, install_beside

LOCK = ROOT / "requirements" / "site.lock"
SITE = BUILD / "site"
TABLES = ROOT / "receiver" / "web" / "static" / "guide-tables.css"
GUIDES = shipped()


def navigation() -> list[dict[str, Any]]:
    """Return the navigation in MkDocs' form; a folder's pages follow its list."""
    return [{group: [_entry(entry) for entry in entries]} for group, entries in GROUPS.items()]


def _entry(entry: str) -> Any:
    name = GUIDES.find(entry)
    if name is None or name == entry:
        return entry
    return {GUIDES.title(name): [page for page in GUIDES if posixpath.dirname(page) == entry]}


def on_config(config: Any) -> Any:
    """Give MkDocs the navigation, and GitHub's rule for anchors."""
    config.nav = navigation()
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the list of each folder that has no page of its own."""
    from mkdocs.structure.files import File  # only there while MkDocs runs

    for name in GUIDES:
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, content=GUIDES.text(name)))
    files.append(File.generated(config, TABLES.name, content=TABLES.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of *page* for Python-Markdown."""
    here = page.file.src_uri

    def link(target: str) -> str | None:
        found = GUIDES.target(here, target)
        return posixpath.relpath(found[0], posixpath.dirname(here) or ".") + found[1] if found else None

    return portable(markdown, link)


def on_page_content(html: str, **_: Any) -> str:
    """Return *html* with tables that a phone shows as cards."""
    return stackable(html)


def print_words() -> None:
    """Print the words of each page, and their sum."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    counted = {page.relative_to(ROOT): len(page.read_text(encoding="utf-8").split()) for page in pages}
    for page, words in sorted(counted.items(), key=lambda pair: pair[1]):
        print(f"{words:6,} {page}")
    print(f"{sum(counted.values()):6,} together")


def main() -> int:
    """Install MkDocs, build the site, and return MkDocs' exit status: a warning is an error."""
    if sys.argv[1:] == ["--words"]:
        print_words()
        return 0
    packages = BUILD / "mkdocs"
    try:
        install_beside(LOCK, packages)
    except NotMade as error:
        print(error, file=sys.stderr)
        return 1
    path = os.pathsep.join([str(packages), str(ROOT)])
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(ROOT / "mkdocs.yml"),
    ]
    status = subprocess.run([*command, "--site-dir", str(SITE)], env={**os.environ, "PYTHONPATH": path}).returncode
    if status == 0:
        print(f"open {(SITE / HOME).with_name('index.html').relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
