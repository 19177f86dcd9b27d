"""Documents that were right once: somewhere in them something else stands, is missing, or is there twice."""

import copy
from typing import Any

from hypothesis import strategies as st

TIMES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "2026-11-20T10:00:00", "2026-13-40T99:99:99Z"]
NUMBERS = ["0", "-1", "NaN", "Infinity", "1e999", "9" * 400, "9" * 5000]
WORDS = ["", " ", "..", "/", "\x00", "\u202e", "\ud800", "a" * 300, "true", "null"]
ODD_TEXTS = st.sampled_from([*TIMES, *NUMBERS, *WORDS]) | st.text(max_size=6)
ODD_NUMBERS = st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("inf"), float("nan")])
ODD = st.recursive(
    st.none() | st.booleans() | ODD_NUMBERS | ODD_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, document: Any, most: int = 3) -> Any:
    """Return *document* with one to *most* places changed."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, most))):
        found = _changed(draw, found)
    return found


def _changed(draw: st.DrawFn, value: Any) -> Any:
    """Change *value* itself, or something in it: the deeper, the more places there are."""
    inside = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not inside or draw(st.integers(0, 9)) == 0:
        return draw(ODD)
    place = draw(st.sampled_from(inside))
    what = draw(st.sampled_from(["change", "change", "change", "drop", "double"]))
    if what == "change":
        value[place] = _changed(draw, value[place])
    elif what == "drop":
        del value[place]
    elif isinstance(value, list):
        value.insert(place, copy.deepcopy(value[place]))
    else:
        value[draw(ODD_TEXTS)] = copy.deepcopy(value[place])
    return value


@st.composite
def garbled(draw: st.DrawFn, text: bytes) -> bytes:
    """Return *text* with bytes changed, cut out or put in, or with brackets that never end."""
    found = bytearray(text)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(found)))
        end = at + draw(st.integers(0, 8))
        found[at:end] = draw(st.binary(max_size=8) | st.sampled_from([b"[" * 2000, b'{"a":' * 2000, b"9" * 5000]))
    return bytes(found)
