"""Reads the objects of JSON lists one by one, so that large files need little memory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

CHUNK = 1 << 20
BLANK = " \t\r\n"


class NoJson(ValueError):
    """Invalid JSON in *line*, or JSON other than objects and lists under ``items``."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


def items(path: Path) -> Iterator[Any]:
    """Yield the ``items`` of the JSON objects in a file, and objects without such a list themselves.

    Several objects may follow each other, as several exports do. Raises NoJson, UnicodeDecodeError, OSError.
    """
    with path.open(encoding="utf-8-sig") as file:
        yield from _Scanner(file).documents()


class _Scanner:
    """A JSON decoder that reads more of the file while a value is incomplete."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._line = 1

    def documents(self) -> Iterator[Any]:
        """Yield the items of every document."""
        while (mark := self._peek()) != "":
            if mark == "[":
                yield from self._list()
            else:
                yield from self._document()

    def _document(self) -> Iterator[Any]:
        self._expect("{")
        alone: dict[str, Any] = {}
        listed = False
        while self._peek() != "}":
            if alone or listed:
                self._expect(",")
            name = self._value()
            if not isinstance(name, str):
                raise NoJson(self._line, "an object's key is not a string")
            self._expect(":")
            if name == "items" and self._peek() == "[":
                listed = True
                yield from self._list()
            else:
                alone[name] = self._value()
        self._expect("}")
        if not listed:
            yield alone

    def _list(self) -> Iterator[Any]:
        self._expect("[")
        first = True
        while self._peek() != "]":
            if not first:
                self._expect(",")
            first = False
            yield self._value()
        self._expect("]")

    def _peek(self) -> str:
        """Return the next character that is not white space without consuming it; an empty string at the end."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in BLANK:
                at += 1
            self._take(at)
            if at < len(text) or not self._more():
                return self._text[self._at : self._at + 1]

    def _expect(self, mark: str) -> None:
        found = self._peek()
        if found != mark:
            problem = f"expected {mark}, found {found}" if found else "it ends in the middle of an object"
            raise NoJson(self._line, problem)
        self._take(self._at + 1)

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    line = self._line + self._text.count("\n", self._at, error.pos)
                    raise NoJson(line, f"invalid JSON ({error.msg})") from None
                continue
            except RecursionError:
                raise NoJson(self._line, "it is nested too deeply") from None
            if end < len(self._text) or not self._more():  # a number may go on in the next chunk
                self._take(end)
                return value

    def _take(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to

    def _more(self) -> bool:
        """Read more; return False at the end of the file."""
        chunk = self._file.read(CHUNK)
        if chunk:
            self._text, self._at = self._text[self._at :] + chunk, 0
        return bool(chunk)
