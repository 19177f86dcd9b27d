"""The product without one of its capabilities, as a person would delete it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def product_without(name: str, folder: Path) -> None:
    """Put the product into *folder* without that capability and its line in the registry. What stays is linked."""
    home = folder / "receiver"
    (home / "capabilities").mkdir(parents=True)
    for inside in (".", "capabilities"):
        for path in (ROOT / "receiver" / inside).iterdir():
            if path.name not in (name, "capabilities", "registry.py", "__pycache__"):
                (home / inside / path.name).symlink_to(path)
    source = (ROOT / "receiver" / "capabilities" / "registry.py").read_text(encoding="utf-8")
    line = f'    "{name}",\n'
    assert source.count(line) == 1
    (home / "capabilities" / "registry.py").write_text(source.replace(line, ""), encoding="utf-8")
