"""The bytes of a trace as lines of text, or why they are none."""

from collections.abc import Iterator
from pathlib import Path

from receiver.ports.past import Trouble
from receiver.replay.traces.trace import BadTrace

BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
PACKED = {b"\x1f\x8b": "gunzip", b"BZ": "bunzip2", b"\xfd7zXZ": "unxz", b"PK": "unzip", b"(\xb5/\xfd": "unzstd"}
BEGINNING = 65536


def beginning(path: Path) -> str:
    """Return the first lines of a file. Raises BadTrace where it is no text, or empty; OSError."""
    with path.open("rb") as file:
        head = file.read(BEGINNING)
    for magic, tool in PACKED.items():
        if head.startswith(magic):
            raise _bad("is compressed", f"unpack it first ({tool})")
    if head.startswith(UTF16) or b"\0" in head[:200]:
        raise _bad("is UTF-16 or binary", "save it as UTF-8 (iconv -f utf-16 -t utf-8)")
    text = head.removeprefix(BOM).decode("utf-8", errors="replace")
    if not text.strip():
        raise _bad("is empty", "export it again")
    return text


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file with their ends, without a byte order mark. Raises BadTrace where one is not UTF-8."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield (raw.removeprefix(BOM) if number == 1 else raw).decode("utf-8")
            except UnicodeDecodeError as error:
                problem = f"byte 0x{raw[error.start]:02x} is not UTF-8"
                remedy = "save the file as UTF-8 (iconv -f latin1 -t utf-8)"
                raise BadTrace(
                    [Trouble(where=f"line {number}", field="text", problem=problem, remedy=remedy)]
                ) from None


def _bad(problem: str, remedy: str) -> BadTrace:
    return BadTrace([Trouble(where="file", field="text", problem=problem, remedy=remedy)])
