"""The files that are refused: ``bad.yaml`` says how each differs from a good one, and what is reported about it.

``top`` stands above a good pool. Lines of ``pool`` replace those of the same key in it, or are added; ``without`` names
a key that it lacks. ``second_pool`` is one more pool. A case that shares nothing with a good file has all of it in
``file``. The messages are generated: leave ``message`` out, run ``make generate``, and read the diff.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

from receiver.config import ConfigError
from receiver.config.settings import load_text
from tests.config.builders import POOL
from tests.lint import load_yaml
from tests.refused import with_messages

TABLE = Path(__file__).parent / "bad.yaml"
GOOD = {line.partition(":")[0]: line for line in dedent(POOL.replace("- ", "  ", 1)).strip().splitlines()}
KEY = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
FIELDS = ("top", "pool", "without", "second_pool", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file that is refused, and the message about it; empty where none is written down yet."""

    name: str
    differs: Mapping[str, str]
    message: str = ""

    @property
    def text(self) -> str:
        """The whole file."""
        if "file" in self.differs:
            return self.differs["file"]
        pools = [_pool(self.differs), *filter(None, [self.differs.get("second_pool")])]
        return f"{self.differs.get('top', '')}pools:\n" + "".join(f"  - {indent(pool, '    ')[4:]}" for pool in pools)

    @property
    def reported(self) -> str:
        """What is reported about the file now; empty when it is accepted."""
        try:
            load_text(self.text)
        except ConfigError as error:
            return f"{error}\n"
        return ""


def _pool(differs: Mapping[str, str]) -> str:
    """The good pool with the lines of *differs*."""
    parts = {part.partition(":")[0]: part for part in KEY.split(differs.get("pool", "")) if part}
    kept = {key: f"{line}\n" for key, line in GOOD.items() if key != differs.get("without")}
    return "".join({**kept, **parts}.values())


def cases(table: str) -> Iterator[Case]:
    """Yield the cases of *table*, which is the text of ``bad.yaml``."""
    for name, fields in load_yaml(table).items():
        differs = {field: fields[field] for field in FIELDS if field in fields}
        yield Case(name=name, differs=differs, message=fields.get("message", ""))


def filled(table: str) -> str:
    """Return *table* with the messages that are reported now."""
    found = {case.name: case for case in cases(table)}
    return with_messages(table, lambda name: found[name].reported)


def generated() -> dict[Path, str]:
    """Return the table as it should be."""
    return {TABLE: filled(TABLE.read_text(encoding="utf-8"))}
