"""For tests over many files: YAML by libyaml, ten times as fast as PyYAML's own parser, and all offenders at once."""

from collections.abc import Iterable
from typing import Any

import yaml


class Loader(yaml.CSafeLoader):
    """Reads ``=`` as the word that it is: YAML 1.1 has a meaning for it, which no one wants."""


Loader.yaml_implicit_resolvers = {
    letter: [(tag, regex) for tag, regex in found if tag != "tag:yaml.org,2002:value"]
    for letter, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load_yaml(text: str) -> Any:
    """Return the one document in *text*."""
    return yaml.load(text, Loader=Loader)


def load_yamls(text: str) -> list[Any]:
    """Return the documents in *text* that are not empty."""
    return [found for found in yaml.load_all(text, Loader=Loader) if found is not None]


def none_of(offenders: Iterable[str]) -> None:
    """Fail with every one of *offenders* on a line of its own; pass when there is none."""
    told = list(offenders)
    if told:
        raise AssertionError("\n".join([f"{len(told)} found:", *told]))
