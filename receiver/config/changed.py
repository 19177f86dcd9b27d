"""A configuration with a few keys changed, as `what-if` takes it: ``pools.l40s.max_nodes: 6``."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import yaml

from receiver.config.values import AND_MORE, MOST_MISTAKES, ConfigError, Mistake, did_you_mean
from receiver.config.yaml_text import DEEPEST, read

NAMES = ("name", "civo_pool_id")  # of the items of a list
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's takes a tenth of the time
NAME_A_KEY = "name a key such as pools.l40s.max_nodes"


def with_changes(text: str, changes: str) -> str:
    """Return the file *text* with *changes* over it, both YAML; ``a.b: 1`` means ``a: {b: 1}``, and an item of a list
    goes by its name. Raises ConfigError for a change of what is not there, and for text that is not YAML."""
    document, _ = read(text)
    edits, mistakes = read(changes)
    for key, value in edits.items():
        if len(mistakes) >= MOST_MISTAKES:  # each takes a search for what may be meant
            raise ConfigError([*mistakes, AND_MORE])
        path = key.split(".")
        if len(path) > DEEPEST:
            mistakes.append(Mistake(path=key, problem="names no key", remedy=NAME_A_KEY))
        else:
            mistakes += islice(_put(document, path, value, key), MOST_MISTAKES)
    if mistakes:
        raise ConfigError(mistakes)
    return str(yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True))


def _at_the_longest_name(into: Any, path: Sequence[str]) -> Sequence[str]:
    """*path* with what stands in *into* as its first part: names of pools and teams may have dots in them."""
    items = [item for item in into if isinstance(item, dict)] if isinstance(into, list) else []
    names = {item.get(key) for item in items for key in NAMES} if isinstance(into, list) else set(into)
    ways = (".".join(path[:length]) for length in range(len(path), 1, -1))
    name = next((way for way in ways if way in names), None)
    return path if name is None else (name, *path[name.count(".") + 1 :])


def _put(into: Any, path: Sequence[str], value: Any, at: str) -> Iterator[Mistake]:
    """Put *value* at *path* of the mapping or list *into*; yield a mistake where there is no such place."""
    name, *subpath = _at_the_longest_name(into, path)
    if isinstance(into, list):
        items = [item for item in into if isinstance(item, dict)]
        target: Any = next((item for item in items if name in (item.get(key) for key in NAMES)), None)
        if target is None:
            item_names = [str(item[NAMES[0]]) for item in items if NAMES[0] in item]
            remedy = did_you_mean(name, item_names) if item_names else "change the whole list"
            yield Mistake(path=at, problem=f"nothing here is named {name}", remedy=remedy)
            return
    else:
        target = into.setdefault(name, {}) if subpath else into.get(name)
    if subpath and isinstance(target, dict | list):
        yield from _put(target, subpath, value, at)
    elif not subpath and isinstance(value, dict) and isinstance(target, dict | list):
        for key, each in value.items():
            yield from _put(target, [key], each, f"{at}.{key}")
    elif subpath or isinstance(into, list):
        yield Mistake(path=at, problem="names no key", remedy=NAME_A_KEY)
    else:
        into[name] = value
