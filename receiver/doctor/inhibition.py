"""Whether an inhibition rule can hold back an alert that the autoscaler acts on: by design none does.

Which of two contrary alerts counts is decided by the autoscaler, with a reason. Whether an alert of somebody else can
be the source is judged by what it cannot be: named as one of ours, or of our component.
"""

from collections.abc import Mapping, Sequence

from receiver.core.model.silences import COMPONENT, Matcher
from receiver.core.model.text import some
from receiver.doctor.alertmanager_config import AlertmanagerConfig, InhibitRule
from receiver.doctor.carried import Carried
from receiver.doctor.finding import Check, Finding
from receiver.doctor.matchers import all_match, shown
from receiver.doctor.told import few

Labels = Mapping[str, str]

INHIBITION = Check(
    "alertmanager.inhibition",
    "whether no inhibition rule can hold back an alert that the autoscaler acts on",
    ("fail", "skip"),
    'add the matcher component!="gpu-autoscaler", or action="notify", to the target of that rule',
)


def judge(config: AlertmanagerConfig, alerts: Sequence[Carried]) -> list[Finding]:
    """Return what there is to say of every inhibition rule of *config* that can hit one of the acting *alerts*."""
    found = []
    for number, rule in enumerate(config.inhibit_rules):
        hit = [alert.name for alert in alerts if alert.acts and _can_hit(rule, alert, alerts)]
        if hit:
            source = ", ".join(map(shown, rule.source)) or "every alert"
            said = f"inhibit_rules[{number}] ({source}) can hold back {some(len(hit), 'alert')}: {few(hit)}"
            found.append(INHIBITION.failed(said))
    return found or [
        INHIBITION.passed(f"none of {some(len(config.inhibit_rules), 'rule')} can hold back such an alert")
    ]


def _can_hit(rule: InhibitRule, alert: Carried, alerts: Sequence[Carried]) -> bool:
    return any(
        all_match(rule.target, labels) and (_by_another(rule, labels, alerts) or _by_ours(rule, labels, alerts))
        for labels in alert.labels
    )


def _by_ours(rule: InhibitRule, target: Labels, alerts: Sequence[Carried]) -> bool:
    """True when one of our own alerts can be the source. One that is source and target at once holds back no such."""
    both = all_match(rule.source, target)
    return any(
        labels != target
        and all(labels.get(name, "") == target.get(name, "") for name in rule.equal)
        and all_match(rule.source, labels)
        and not (both and all_match(rule.target, labels))
        for other in alerts
        for labels in other.labels
    )


def _by_another(rule: InhibitRule, target: Labels, alerts: Sequence[Carried]) -> bool:
    """True when an alert of somebody else can be the source: nothing says that it must be one of ours."""
    if {"alertname", "component"} & set(rule.equal):
        return False
    named = {alert.name for alert in alerts}
    for one in rule.source:
        if one.name == "component" and _only(one, {COMPONENT}):
            return False
        if one.name == "alertname" and _only(one, named):
            return False
        if one.name in rule.equal and not one.matches(target):
            return False  # it would have to be otherwise than the target, and alike
    return True


def _only(one: Matcher, values: set[str]) -> bool:
    """True when *one* matches nothing but what is among *values*, as far as its text shows."""
    if not one.is_equal:
        return False
    options = one.value.split("|") if one.is_regex else [one.value]
    return set(options) <= values
