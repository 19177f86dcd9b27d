"""Routes that are read once for all apps of the process, and whose URL functions are compiled at their first call.

Werkzeug does both for each of an app's 84 routes and each app, which is most of the processor time of most tests of
pages, API and simulator.
"""

from collections.abc import Callable, Hashable
from typing import Any

from werkzeug.routing import Rule

COMPILE = Rule._compile_builder
READ = Rule.compile
Url = Callable[..., tuple[str, str]]
_read: dict[Hashable, Rule] = {}  # the first rule of each text
_compiled: dict[Hashable, Url] = {}


def when_used(rule: Rule, append_unknown: bool = True) -> Url:
    """Return what `Rule._compile_builder` returns for *rule*, not compiled yet."""
    key = (*_text(rule), *(rule.defaults or {}).items(), append_unknown)

    def url(self: Rule, **values: Any) -> tuple[str, str]:
        if key not in _compiled:
            _compiled[key] = COMPILE(rule, append_unknown)
        return _compiled[key](self, **values)

    return url


def read_once(rule: Rule) -> None:
    """Do what `Rule.compile` does; what it reads from the text of *rule* is that of the first rule of this text."""
    first = _read.setdefault(_text(rule), rule)
    if first is rule:
        READ(rule)
        return
    rule._parts, rule._trace, rule._converters = first._parts, first._trace, first._converters
    rule.arguments |= first._converters.keys()
    if (rule.defaults or {}) == (first.defaults or {}):
        urls: tuple[Any, Any] = first._build.__func__, first._build_unknown.__func__  # type: ignore[attr-defined]  # bound
    else:
        urls = rule._compile_builder(False), rule._compile_builder(True)
    rule._build, rule._build_unknown = (url.__get__(rule, None) for url in urls)


def _text(rule: Rule) -> tuple[Hashable, ...]:
    """All that decides what is read from *rule*."""
    routes = rule.map
    assert routes is not None
    where = rule.host if routes.host_matching else rule.subdomain
    return (rule.rule, where, rule.merge_slashes, routes.host_matching, frozenset(routes.converters.items()))


def install() -> None:
    """Let every app of this process do so."""
    Rule._compile_builder = when_used  # type: ignore[assignment, method-assign]  # of the class, for all rules
    Rule.compile = read_once  # type: ignore[assignment, method-assign]  # the same
