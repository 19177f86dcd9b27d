"""What `gpu-autoscaler doctor` knows of the shipped rules.

The names of the rules by file with the action of each alert, the metrics that they read with the alerts that cannot
fire without them: what the program must know where the files of ``rules/`` are not.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.metric_names import LABELS_FOLLOW, TOKEN, WORDS, Token, metrics_in

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "rules"
FILE = ROOT / "receiver" / "doctor" / "shipped_rules.json"
JSON = dict[str, Any]
OPEN, CLOSED = ("(", "{", "["), (")", "}", "]")


def document() -> JSON:
    """Return what `receiver.doctor.prometheus` reads."""
    found = list(_rules())
    recorded = {rule["record"]: str(rule["expr"]) for _, rule in found if "record" in rule}
    names: dict[str, dict[str, str]] = {}
    metrics: dict[str, list[str]] = {}
    for file, rule in found:
        names.setdefault(file, {})[rule.get("alert") or rule["record"]] = rule.get("labels", {}).get("action", "")
        for name in metrics_in(str(rule["expr"]), recorded.keys()) - recorded.keys():
            metrics.setdefault(name, [])
        for name in needed(str(rule["expr"]), recorded) if "alert" in rule else ():
            metrics.setdefault(name, []).append(rule["alert"])
    return {"rules": names, "metrics": dict(sorted(metrics.items()))}


def _rules() -> Iterator[tuple[str, JSON]]:
    for path in sorted(RULES.glob("*.yaml")):
        for group in yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["groups"]:
            for rule in group["rules"]:
                yield path.name, rule


def needed(expression: str, recorded: Mapping[str, str]) -> set[str]:
    """Return the metrics without which *expression* is empty; *recorded* are expressions by the name they record.

    Both sides of an operator and of `and` are needed, the left one of `unless`, and of `or` what both sides need. A
    recording within which the search already is has an empty expression: it may read its own past.
    """
    tokens = [Token(str(m.lastgroup), m[0]) for m in TOKEN.finditer(expression) if m.lastgroup != "space"]
    return _needed(tokens, recorded)


def _needed(tokens: Sequence[Token], recorded: Mapping[str, str]) -> set[str]:
    sides = _split(tokens, "or")
    if len(sides) > 1:
        alternatives = [_needed(side, recorded) for side in sides]
        itself = {name for name, inner in recorded.items() if not inner}  # a recording begins with what is not itself
        return set.intersection(*([names for names in alternatives if not names & itself] or alternatives))
    arguments = _split(tokens, ",")
    if len(arguments) > 1:
        return set().union(*(_needed(argument, recorded) for argument in arguments))
    found: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if kind == "word" and text in LABELS_FOLLOW and after == "(":
            at = _closing(tokens, at + 1)
        elif text == "unless":
            at = _operand_ends(tokens, at + 1) - 1
        elif text == "(":
            end = _closing(tokens, at)
            if at == 0 or tokens[at - 1].text != "absent":
                found |= _needed(tokens[at + 1 : end], recorded)
            at = end
        elif text in OPEN:
            at = _closing(tokens, at)  # matchers, ranges; a metric named by a pattern has alternatives
        elif kind == "word" and after != "(" and text not in WORDS and after not in LABELS_FOLLOW:
            found |= needed(recorded[text], {**recorded, text: ""}) - {text} if recorded.get(text) else {text}
        at += 1
    return found


def _split(tokens: Sequence[Token], word: str) -> list[Sequence[Token]]:
    """*tokens* parted at every *word* that stands in no bracket; the matching that follows an `or` is no metric."""
    parts, depth, begin = [], 0, 0
    for place, token in enumerate(tokens):
        depth += (token.text in OPEN) - (token.text in CLOSED)
        if token.text == word and depth == 0:
            parts.append(tokens[begin:place])
            begin = place + 1
    return [*parts, tokens[begin:]]


def _operand_ends(tokens: Sequence[Token], begin: int) -> int:
    """Return the end of the operand that begins at *begin*: the next `and` or `unless` outside brackets, or the end."""
    depth = 0
    for place in range(begin, len(tokens)):
        depth += (tokens[place].text in OPEN) - (tokens[place].text in CLOSED)
        if depth == 0 and tokens[place].text in ("and", "unless"):
            return place
    return len(tokens)


def _closing(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text in OPEN) - (tokens[place].text in CLOSED)
        if depth == 0:
            return place
    raise ValueError(f"nothing closes {tokens[at].text!r}")


def text() -> str:
    """Return the file's content."""
    rows = json.dumps(document(), indent=1)
    return re.sub(r"\[[^\]]*\]", lambda names: json.dumps(json.loads(names[0])), rows) + "\n"  # a list to a line


def generated() -> dict[Path, str]:
    """Return the file as it should be."""
    return {FILE: text()}
