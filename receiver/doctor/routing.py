"""Whether Alertmanager's routes bring our alerts to us: computed from its running configuration."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise

from receiver.adapters.http.sessions import shown as shown_url
from receiver.core.model.text import lasting, some
from receiver.doctor.addresses import Known, Whose
from receiver.doctor.alertmanager_config import AlertmanagerConfig, Webhook
from receiver.doctor.carried import HEARTBEAT, Carried
from receiver.doctor.finding import Check, Finding
from receiver.doctor.matchers import shown
from receiver.doctor.routes import Labels, Route
from receiver.doctor.told import few

MISSED = 3  # heartbeats: then nothing is removed any more
PROMPT = timedelta(seconds=5)
INTERVAL = timedelta(minutes=1)
REPEAT = timedelta(minutes=10)
ALL_LABELS = "..."

REACHES = Check(
    "alertmanager.routes",
    "whether every alert that the autoscaler acts on, the heartbeat too, ends at a receiver that is ours",
    ("fail", "skip"),
    "take over the first two routes of rules/alertmanager.yml (or k8s/alertmanager), before any route that takes all;"
    " amtool shows the same (docs/runbooks/GpuAutoscalerHeartbeat.md)",
)
WEBHOOK = Check(
    "alertmanager.webhook",
    "whether that receiver posts to /webhook at an address of ours, with a bearer token, and never cuts a message",
    ("warn", "fail", "skip"),
    "write url, http_config.authorization, send_resolved and max_alerts as in rules/alertmanager.yml",
)
TIMES = Check(
    "alertmanager.times",
    "whether our routes tell at once, repeat soon, and bring the heartbeat within three of its rounds",
    ("warn", "fail", "skip"),
    "write group_by, group_wait, group_interval and repeat_interval as in rules/alertmanager.yml",
)
HOURS = Check(
    "alertmanager.hours",
    "whether no time of day keeps an alert from us",
    ("fail", "skip"),
    "take mute_time_intervals and active_time_intervals from our routes: windows belong into the autoscaler's"
    " configuration, which explains what it holds back",
)
PEOPLE = Check(
    "alertmanager.people",
    "whether alerts that concern people reach a receiver that tells somebody",
    ("warn", "skip"),
    "give people's receivers a mail, chat or pager configuration",
)
CHECKS = (REACHES, WEBHOOK, TIMES, HOURS, PEOPLE)


def judge(
    config: AlertmanagerConfig, alerts: Sequence[Carried], addresses: Known, heartbeat: timedelta, life: timedelta
) -> Iterator[Finding]:
    """Yield what *config* does with our *alerts*; *heartbeat* is how often the sign of life ought to come, *life* how
    long an alert counts after its last delivery."""
    whose = {name: _whose(config, name, addresses) for name in config.webhooks}
    sure = {name for name, one in whose.items() if one in (Whose.OURS, Whose.HIDDEN)}
    ours = sure or {name for name, one in whose.items() if one is Whose.PERHAPS}
    taken = {alert.name: _ours_of(config.route, alert, ours) for alert in alerts}
    yield from reaches(config.route, alerts, taken, ours)
    routes = {route for alert in alerts for route in taken[alert.name] or ()}
    yield from webhook(config, addresses, {route.receiver for route in routes})
    if routes:
        acting = [alert for alert in alerts if alert.acts]
        beats = {r for a in acting if a.action == HEARTBEAT for r in taken[a.name] or ()}
        scales = {r for a in acting if a.action != HEARTBEAT for r in taken[a.name] or ()}
        yield from times(sorted(beats, key=_place), sorted(scales, key=_place), heartbeat, life)
        yield hours(sorted(beats | scales, key=_place))
    yield people(config, alerts, ours)


def _whose(config: AlertmanagerConfig, receiver: str, addresses: Known) -> Whose:
    found = {addresses.whose(one, receiver) for one in config.webhooks[receiver]}
    return next((kind for kind in Whose if kind in found), Whose.OTHER)


def _place(route: Route) -> str:
    return route.place


def _ours_of(root: Route, alert: Carried, ours: set[str]) -> tuple[Route, ...] | None:
    """The routes that bring *alert* to one of *ours*; None when with some of its labels it comes to none."""
    found: dict[Route, None] = {}
    for labels in alert.labels:
        here = [route for route in root.matching(labels) if route.receiver in ours]
        if not here:
            return None
        found.update(dict.fromkeys(here))
    return tuple(found)


def reaches(root: Route, alerts: Sequence[Carried], taken: Mapping[str, object], ours: set[str]) -> Iterator[Finding]:
    """Say which alerts do not come to us, by the reason."""
    lost = [alert for alert in alerts if alert.acts and taken[alert.name] is None]
    reasons: dict[str, list[str]] = {}
    for alert in lost:
        labels = next(one for one in alert.labels if not any(r.receiver in ours for r in root.matching(one)))
        reasons.setdefault(why_not(root, labels, ours), []).append(alert.name)
    for reason, names in reasons.items():
        remedy = NAMESPACE_REMEDY if TRAP in reason else ""
        yield REACHES.failed(f"{some(len(names), 'alert')} not routed to us ({few(names)}): {reason}", remedy)
    if not lost:
        yield REACHES.passed(f"{some(sum(a.acts for a in alerts), 'alert')} routed to {few(sorted(ours))}")


TRAP = "the Prometheus Operator adds that matcher"
NAMESPACE_REMEDY = (
    "put the AlertmanagerConfig into the namespace that our alerts carry (gpu-autoscaler), or set"
    " alertmanagerConfigMatcherStrategy: {type: None} on the Alertmanager"
)


def why_not(root: Route, labels: Labels, ours: set[str]) -> str:
    """Return why an alert with *labels* ends at none of *ours*, for the route to us that it comes nearest to."""
    ways = [way for way in root.walk() if way[-1].receiver in ours]
    if not ours:
        return "no receiver has a webhook that is ours"
    if not ways:
        return f"no route leads to {few(sorted(ours))}"
    nearest = max(ways, key=lambda way: _depth(way, labels))
    depth = _depth(nearest, labels)
    if depth == len(nearest):
        return _taken_first(nearest, labels)
    lacking = [one for one in nearest[depth].matchers if not one.matches(labels)]
    if len(lacking) == 1 and lacking[0].name == "namespace":
        has = f'they carry namespace="{labels.get("namespace", "")}"'
        return f"{nearest[depth].place} wants {shown(lacking[0])} and {has}; {TRAP}"
    return f"{nearest[depth].place} wants {', '.join(map(shown, lacking))}"


def _depth(way: Sequence[Route], labels: Labels) -> int:
    """How many routes of *way* match *labels* before one does not."""
    for depth, route in enumerate(way):
        if not route.matching(labels):
            return depth
    return len(way)


def _taken_first(way: Sequence[Route], labels: Labels) -> str:
    """Say who takes an alert that every route of *way* would match."""
    for parent, child in pairwise(way):
        for sibling in parent.children:
            if sibling is child:
                break
            if not sibling.goes_on and sibling.matching(labels):
                who = f"{sibling.place} (receiver {sibling.receiver})"
                return f"{who} takes them first and does not continue"
    deeper = [route for route in way[-1].children if route.matching(labels)]
    return f"{few(r.place for r in deeper)} below {way[-1].place} take them to {few(r.receiver for r in deeper)}"


def webhook(config: AlertmanagerConfig, addresses: Known, reached: set[str]) -> Iterator[Finding]:
    """Judge the webhooks to us of the receivers that our alerts reach."""
    if not reached:
        yield WEBHOOK.skipped("no receiver of ours is reached")
        return
    to_us = [(name, one) for name in sorted(reached) for one in config.webhooks[name]]
    judged = [(name, one, addresses.whose(one, name)) for name, one in to_us]
    found = [f for name, one, whose in judged if whose is not Whose.OTHER for f in _one_webhook(name, one, whose)]
    yield from found
    if not found:
        hidden = any(whose is Whose.HIDDEN for _, _, whose in judged)
        note = "; Alertmanager hides its address, --send-test-alert shows whether it is ours" if hidden else ""
        yield WEBHOOK.passed(f"receiver {few(sorted(reached))} posts to us with a token{note}")


def _one_webhook(name: str, one: Webhook, whose: Whose) -> Iterator[Finding]:
    if not one.bearer:
        said = f"receiver {name} sends no bearer token, so every delivery is answered 401"
        yield WEBHOOK.failed(said, "set http_config.authorization with credentials_file")
    if one.cut:
        said = f"receiver {name} cuts messages after {some(one.cut, 'alert')}: a pool that is cut off looks quiet"
        yield WEBHOOK.warned(said, "set max_alerts: 0")
    if not one.sends_resolved:
        yield WEBHOOK.warned(f"receiver {name} does not send what is resolved", "set send_resolved: true")
    if whose is Whose.PERHAPS:
        said = f"receiver {name} posts to {shown_url(one.url)}, an address that is not known to be ours"
        remedy = "correct it, or name the host in web.hosts; --send-test-alert shows whether it arrives"
        yield WEBHOOK.warned(said, remedy)


def times(beats: Sequence[Route], scales: Sequence[Route], heartbeat: timedelta, life: timedelta) -> Iterator[Finding]:
    """Judge how soon and how often our routes tell."""
    found = [finding for route in beats for finding in _beat(route, heartbeat)]
    found += [finding for route in scales for finding in (*_scale(route), *_lapse(route, life))]
    yield from found
    if not found:
        shown_times = [
            f"{r.place} after {lasting(r.group_wait)}, then every {lasting(r.group_interval)}" for r in scales
        ]
        yield TIMES.passed(f"told at once, and again in time: {few(shown_times)}")


def _beat(route: Route, heartbeat: timedelta) -> Iterator[Finding]:
    """A repeat is sent at the first flush at which repeat_interval has passed since the last one was sent."""
    longest = flushes_between(route) * route.group_interval
    if longest > MISSED * heartbeat:
        said = f"{route.place} brings the heartbeat every {lasting(longest)}"
        missed = f"after {lasting(MISSED * heartbeat)} without it nothing is removed"
        yield TIMES.failed(f"{said}; {missed}", "write group_interval: 1m and repeat_interval: 50s there")
    elif longest > heartbeat:
        said = (
            f"{route.place} brings the heartbeat every {lasting(longest)}, heartbeat_interval is {lasting(heartbeat)}"
        )
        yield TIMES.warned(
            said, "write group_interval: 1m and repeat_interval: 50s there, or another heartbeat_interval"
        )


def flushes_between(route: Route) -> int:
    """Return after how many flushes at most an alert that goes on is told again. What falls due at a flush may just
    miss it, so equal intervals count as two."""
    return int(route.repeat_interval // route.group_interval) + 1


def _scale(route: Route) -> Iterator[Finding]:
    if route.group_wait > PROMPT:
        said = f"{route.place} waits {lasting(route.group_wait)} (group_wait) before it tells us of a new alert"
        yield TIMES.warned(said, "write group_wait: 0s: every growth waits that long")
    if route.group_interval > INTERVAL:
        said = f"{route.place} tells of a change in a group after {lasting(route.group_interval)} (group_interval)"
        yield TIMES.warned(said, "write group_interval: 30s")
    if route.repeat_interval > REPEAT:
        said = f"{route.place} repeats after {lasting(route.repeat_interval)}: so long a lost delivery is missing"
        yield TIMES.warned(said, "write repeat_interval: 2m")
    if not {"alertname", "pool"} <= set(route.group_by) and ALL_LABELS not in route.group_by:
        said = (
            f"{route.place} groups by {few(route.group_by) or 'nothing'}: a second pool waits for the first one's group"
        )
        yield TIMES.warned(said, "write group_by: [alertname, pool]")


def _lapse(route: Route, life: timedelta) -> Iterator[Finding]:
    """An alert that repeats later than it counts would end while it fires, once the API does not answer."""
    longest = flushes_between(route) * route.group_interval
    if longest > life:
        said = (
            f"{route.place} repeats a firing alert after up to {lasting(longest)}, and a delivered alert counts for"
            f" {lasting(life)} while the API does not answer: a freeze would end too early"
        )
        remedy = "set alertmanager.repeat_interval and group_interval to those of the route"
        yield TIMES.warned(said, remedy)


def hours(routes: Sequence[Route]) -> Finding:
    """Say which routes to us are closed at times."""
    timed = [route for route in routes if route.muted or route.active]
    if timed:
        names = few(name for route in timed for name in (*route.muted, *route.active))
        return HOURS.failed(f"{few(r.place for r in timed)} is silent at times ({names}): the autoscaler is blind then")
    return HOURS.passed("no time interval on our routes")


def people(config: AlertmanagerConfig, alerts: Sequence[Carried], ours: set[str]) -> Finding:
    """Say which alerts for people end at receivers that tell nobody."""
    unheard = []
    for alert in alerts:
        heard = {route.receiver for labels in alert.labels for route in config.route.matching(labels)}
        if not alert.acts and not (heard - ours) & config.tells:
            unheard.append(alert.name)
    if unheard:
        said = f"{some(len(unheard), 'alert')} for people reach nobody: {few(unheard)}"
        return PEOPLE.warned(said)
    if not any(not alert.acts for alert in alerts):
        return PEOPLE.skipped("no alert is for people")
    return PEOPLE.passed(f"{some(sum(not a.acts for a in alerts), 'alert')} for people reach a receiver of theirs")
