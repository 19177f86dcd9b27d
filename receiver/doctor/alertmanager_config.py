"""A running Alertmanager's configuration, read from ``config.original`` of its answer to ``/api/v2/status``.

It prints what it has loaded, with ``<secret>`` in the place of secrets; from 0.26 on the address of a webhook is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from receiver.core.model.silences import Matcher
from receiver.doctor.matchers import Unreadable
from receiver.doctor.routes import Route, read_matchers, read_route

HIDDEN = "<secret>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One webhook of a receiver. *url* is `HIDDEN` where Alertmanager does not show it; *bearer* tells whether it sends
    a token, *cut* after how many alerts a message is cut (0: never)."""

    url: str
    sends_resolved: bool = True
    bearer: bool = False
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InhibitRule:
    """While an alert matches *source*, those that match *target* and are alike in the labels *equal* are held back."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerConfig:
    """What matters of it here. *webhooks* by receiver; *tells* are the receivers that tell anybody at all."""

    route: Route
    webhooks: Mapping[str, tuple[Webhook, ...]]
    tells: frozenset[str]
    inhibit_rules: tuple[InhibitRule, ...] = ()


class _Texts(yaml.SafeLoader):
    """Every value stays the text that it was, ``on`` and ``0123`` are values of labels; null alone stays null."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (overwrites one of the library's)
        sign: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
        for sign, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_config(text: str) -> AlertmanagerConfig:
    """Return the configuration in *text*; raise Unreadable where it is none that this program understands."""
    try:
        raw = yaml.load(text, Loader=_Texts)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError:
        raise Unreadable("the configuration that Alertmanager shows is no YAML") from None
    if not isinstance(raw, Mapping):
        raise Unreadable("Alertmanager shows no configuration")
    receivers = {str(r.get("name")): r for r in raw.get("receivers") or () if isinstance(r, Mapping)}
    return AlertmanagerConfig(
        route=read_route(raw.get("route")),
        webhooks={
            name: tuple(_webhook(one) for one in receiver.get("webhook_configs") or ())
            for name, receiver in receivers.items()
        },
        tells=frozenset(n for n, r in receivers.items() if any(k.endswith("_configs") and r[k] for k in r)),
        inhibit_rules=tuple(_inhibit_rule(one) for one in raw.get("inhibit_rules") or ()),
    )


def _webhook(raw: Mapping[str, Any]) -> Webhook:
    http = raw.get("http_config")
    authorization = http.get("authorization") if isinstance(http, Mapping) else None
    kind = str(authorization.get("type") or "Bearer") if isinstance(authorization, Mapping) else ""
    cut = str(raw.get("max_alerts") or "0")
    return Webhook(
        url=str(raw.get("url") or HIDDEN),  # in a url_file, which nobody shows
        sends_resolved=str(raw.get("send_resolved", "true")).lower() == "true",
        bearer=kind.lower() == "bearer",
        cut=int(cut) if cut.isdigit() else 0,
    )


def _inhibit_rule(raw: Mapping[str, Any]) -> InhibitRule:
    return InhibitRule(
        source=read_matchers(raw, "source_match", "source_match_re", "source_matchers"),
        target=read_matchers(raw, "target_match", "target_match_re", "target_matchers"),
        equal=tuple(str(label) for label in raw.get("equal") or ()),
    )
