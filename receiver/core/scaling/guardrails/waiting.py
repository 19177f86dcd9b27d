"""What a change waits for: alerts, silences, people, failures, cooldowns and changes under way."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.actions import Action, ActionKind
from receiver.core.model.flights import MUST_FALL_WITHIN
from receiver.core.model.model import Backoff
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Pool
from receiver.core.model.signals import PoolSilence, Signal, SignalAction
from receiver.core.model.text import lasting, listed, minute, moment, some
from receiver.core.scaling.guardrails.rule import B, Case, Guardrail, Held, Said
from receiver.core.scaling.waits import Direction, Shortage, Wait, WaitKind, probes_left, shortage_of, stuck_on_the_way


def _standstill(
    target: int, case: Case, because: B | None, until: datetime | None = None, *, going: int = 0
) -> Held[B] | None:
    """Hold everything, except for *going* nodes; at the stop line of a budget all empty nodes go."""
    if because is None:
        return None
    if target > case.present:
        return Held(left=case.present, because=because, until=until)
    if case.wanted.money.stopped:
        going = case.empty
    allowed_target = case.present - going
    return None if allowed_target <= target else Held(left=allowed_target, because=because, until=until)


def _say_alert(alert: Signal, case: Case) -> Said:
    end = f"fix what alert {alert.alertname} reports (firing since {minute(alert.starts_at, case.now)})"
    sentence = f"alert {alert.alertname} is firing (action: {alert.action.value})"
    return sentence, [(f"{end}, or silence it: amtool silence add alertname={alert.alertname}", None)]


def not_frozen(target: int, case: Case) -> Held[Signal] | None:
    """A firing alert with action freeze stops every change."""
    return _standstill(target, case, case.firing(SignalAction.FREEZE))


NOT_FROZEN = Guardrail(
    check=not_frozen,
    say=_say_alert,
    cause=lambda alert, _: f"frozen by alert {alert.alertname}",
    meaning="An alert with action freeze stops every change.",
    plain="an alert stops every change",
    advice="find out why the alert in the reason fires; it freezes the pool",
    told=True,
)


def not_silenced(target: int, case: Case) -> Held[PoolSilence] | None:
    """A silence in Alertmanager that names the pool pauses it."""
    silence = case.state.silence
    return _standstill(target, case, silence, silence.until if silence else None)


def _say_silence(silence: PoolSilence, _case: Case) -> Said:
    end = f"wait until the silence of {silence.by} ends at {moment(silence.until)}"
    sooner = f"expire the silence: amtool silence expire {silence.id}"
    return str(silence), [(end, silence.until), (sooner, None)]


NOT_SILENCED = Guardrail(
    check=not_silenced,
    say=_say_silence,
    cause=lambda silence, case: f"paused by a silence of {silence.by} until {minute(silence.until, case.now)}",
    meaning="A silence in Alertmanager that names the pool pauses it.",
    plain="a silence in Alertmanager pauses it",
    advice="expire the silence in Alertmanager (`amtool silence expire`) if the pool may grow again",
)


def not_paused(target: int, case: Case) -> Held[Override] | None:
    """A person's pause stops every change."""
    pause = case.wanted.bounds.overrides.pause
    return _standstill(target, case, pause, pause.until if pause else None)


def _say_override(override: Override, _case: Case) -> Said:
    return str(override), [override.ends]


NOT_PAUSED = Guardrail(
    check=not_paused,
    say=_say_override,
    cause=lambda pause, case: f"paused by {pause.who} until {minute(pause.until, case.now)}",
    meaning="A person's pause stops every change.",
    plain="it is paused by an override",
    advice="end the pause in the reason (`gpu-autoscaler override list`, then `gpu-autoscaler override end ID`)",
)


def growth_is_not_paused(target: int, case: Case) -> Held[Signal] | None:
    """A firing alert with action pause_scale_up stops growth."""
    signal = case.firing(SignalAction.PAUSE_SCALE_UP)
    return Held(left=case.present, because=signal) if signal and target > case.present else None


GROWTH_IS_NOT_PAUSED = Guardrail(
    check=growth_is_not_paused,
    say=_say_alert,
    cause=lambda alert, _: f"alert {alert.alertname} stops growth",
    meaning="An alert with action pause_scale_up stops growth.",
    plain="an alert stops growth",
    advice="find out why the alert in the reason fires; it pauses growth",
    told=True,
)


def removal_is_not_snoozed(target: int, case: Case) -> Held[Override] | None:
    """A person's snooze keeps every node that is not dead."""
    snooze = case.wanted.bounds.overrides.snooze if target < case.present else None
    return _standstill(target, case, snooze, snooze.until if snooze else None, going=case.dead)


REMOVAL_IS_NOT_SNOOZED = Guardrail(
    check=removal_is_not_snoozed,
    say=_say_override,
    cause=lambda snooze, case: f"snoozed by {snooze.who} until {minute(snooze.until, case.now)}",
    meaning="A person's snooze keeps every node that is not dead.",
    plain="removals are snoozed by an override",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerRequested:
    """Civo has just refused *refused* nodes with *reason*, so fewer are requested *until* the next attempt."""

    refused: int
    reason: str
    until: datetime


def not_backing_off(target: int, case: Case) -> Held[Wait | FewerRequested] | None:
    """What failed is not tried again until its back-off ends; growth and removal back off apart."""
    wait = case.wait(WaitKind.BACKOFF, target)
    if wait is None or wait.nodes:
        return None
    if wait.direction is Direction.GROW and case.wanted.allowed.stock is not None:  # fewer are requested at once
        allowed_target = case.present + case.wanted.allowed.stock
        fewer = FewerRequested(refused=case.state.backoffs.refused or 0, reason=wait.reason, until=wait.until)
        return None if allowed_target >= target else Held(left=allowed_target, because=fewer, until=wait.until)
    return Held(left=case.present, because=wait, until=wait.until)


def _say_backoff(wait: Wait | FewerRequested, _case: Case) -> Said:
    if isinstance(wait, FewerRequested):
        sentence = f"Civo has just refused {some(wait.refused, 'node')}, so fewer are requested: {wait.reason}"
    else:
        failures = some(wait.failures, "failure")
        sentence = f"backing off until {moment(wait.until)} after {failures}: {wait.reason}"
    attempt = f"wait for the next attempt at {moment(wait.until)}; the last error: {wait.reason}"
    return sentence, [(attempt, wait.until)]


def why_backing_off(wait: Wait, pool: Pool, now: datetime) -> str:
    """What failed in *pool* and when it is tried again, as a clause without the words of Civo."""
    failed = "the last removal failed"
    if wait.direction is Direction.GROW:
        failed = {
            Shortage.STOCK: f"too few {pool.size} are free at Civo",
            Shortage.QUOTA: "the account's quota at Civo is used up",
            Shortage.OTHER: "the last try failed",
        }[shortage_of(wait.reason)]
    return f"{failed}, next try at {minute(wait.until, now)}"


def _name_backoff(wait: Wait | FewerRequested, case: Case) -> str:
    if isinstance(wait, FewerRequested):
        return f"Civo has just refused {some(wait.refused, 'node')}, fewer are requested"
    return why_backing_off(wait, case.pool, case.now)


NOT_BACKING_OFF = Guardrail(
    check=not_backing_off,
    say=_say_backoff,
    cause=_name_backoff,
    meaning="A failed change is not tried again before its back-off ends.",
    plain="it waits after a failure",
    advice="read the error in the reason; the change is tried again when the back-off ends",
)


def not_undone_by_others(target: int, case: Case) -> Held[Wait] | None:
    """A change that another system reverted three times in a day is not tried again for a day."""
    wait = case.wait(WaitKind.UNDONE, target)
    return Held(left=case.present, because=wait, until=wait.until) if wait is not None else None


def _say_undone(wait: Wait, _case: Case) -> Said:
    change, way = ("growth", "lowered") if wait.direction is Direction.GROW else ("removals", "raised")
    until = f"none before {wait.until:%Y-%m-%d %H:%M} UTC"
    end = f"wait until {moment(wait.until)}, and let only the autoscaler change the count at Civo"
    return f"another system {way} the count repeatedly after our {change}: {until}", [(end, wait.until)]


NOT_UNDONE_BY_OTHERS = Guardrail(
    check=not_undone_by_others,
    say=_say_undone,
    cause=lambda wait, case: f"another system keeps reverting our changes, next try at {minute(wait.until, case.now)}",
    meaning="A change that another system reverted three times in a day is not tried again for a day.",
    plain="another system keeps reverting our changes",
    advice="find out what else changes the pool's count at Civo, and let only one system size the pool",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckNodes:
    """*nodes* that are not usable *within* their provision timeout."""

    nodes: tuple[str, ...]
    within: timedelta


def provisioning_works(target: int, case: Case) -> Held[StuckNodes | Wait | Backoff] | None:
    """While a node is stuck on its way, or shortly after one was, none is bought; then one on trial until one works."""
    if target <= case.present:
        return None
    stuck = stuck_on_the_way(case.pool, case.state, case.now)
    if stuck:
        return Held(left=case.present, because=StuckNodes(nodes=stuck, within=case.pool.provision_timeout))
    failed, probes = case.state.backoffs.trial, probes_left(case.state, case.now)
    if failed is None or probes is None or case.present + probes >= target:
        return None
    wait = case.wait(WaitKind.PROVISIONING, target)
    if wait is not None:
        return Held(left=case.present, because=wait, until=wait.until)
    return Held(left=case.present + probes, because=failed)


def _say_provisioning(because: StuckNodes | Wait | Backoff, case: Case) -> Said:
    failed, sentence = None if isinstance(because, StuckNodes) else because, ""
    changes: list[tuple[str, datetime | None]] = []
    if isinstance(because, StuckNodes):
        nodes = ", ".join(because.nodes)
        sentence = f"not usable after {lasting(because.within)}: {nodes}"
        changes.append((f"wait until this is usable or gone: {nodes}", None))
        failed = case.wait(WaitKind.PROVISIONING, case.present + 1)
    failure = f"{failed.reason} ({some(failed.failures, 'failure')} in a row)" if failed is not None else ""
    if isinstance(failed, Wait):
        at = moment(failed.until)
        backoffs = case.state.backoffs
        ill = backoffs.sickened is not None and backoffs.trial == backoffs.sickened
        another = "one that stays well for 30 minutes" if ill else "any node of the pool that becomes usable"
        changes.append((f"wait until {at}, when the next single node is tried, or for {another}", failed.until))
        return sentence or f"{failure}: no other node before {at}", changes
    if failed is not None:
        changes.append(("wait for the test node: once it is usable, all wanted nodes are bought", None))
    return sentence or f"{failure}: one node at a time is tried until one becomes usable", changes


def _name_provisioning(because: StuckNodes | Wait | Backoff, case: Case) -> str:
    if isinstance(because, StuckNodes):
        return f"{listed(because.nodes, 1)} not usable after {lasting(because.within)}"
    if isinstance(because, Wait):
        return f"{PROVISIONING_WORKS.plain}, next try at {minute(because.until, case.now)}"
    return f"{PROVISIONING_WORKS.plain}, one is on trial"


PROVISIONING_WORKS = Guardrail(
    check=provisioning_works,
    say=_say_provisioning,
    cause=_name_provisioning,
    meaning="While nodes of the pool do not become usable, no others are bought.",
    plain="its last nodes never became usable",
    advice="check the node in the reason, at Civo and with `kubectl describe node`",
)


def cooled_down(target: int, case: Case) -> Held[Wait] | None:
    """A pool that has just changed is left alone for its cooldown, per direction; an override does not wait for it."""
    wait, bounds = case.wait(WaitKind.COOLDOWN, target), case.wanted.bounds
    if wait is None:
        return None
    if target > case.present:  # an override does not wait for the cooldown
        allowed_target = max(case.present, bounds.min_nodes) if bounds.overrides.least is not None else case.present
    else:
        allowed_target = min(case.present, bounds.max_nodes) if bounds.overrun else case.present
    within = allowed_target >= target if target > case.present else allowed_target <= target
    return None if within else Held(left=allowed_target, because=wait, until=wait.until)


def _say_cooldown(wait: Wait, _case: Case) -> Said:
    end = f"wait until the cooldown ends at {moment(wait.until)}"
    return f"cooldown.{wait.direction} until {wait.until:%H:%M:%S} UTC", [(end, wait.until)]


COOLED_DOWN = Guardrail(
    check=cooled_down,
    say=_say_cooldown,
    cause=lambda wait, _: f"it changed a moment ago, cooldown until {wait.until:%H:%M:%S} UTC",
    meaning="A pool that has just changed is left alone for its cooldown.",
    plain="it changed a moment ago",
    advice="nothing: it ends at the time in the reason",
    passing=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Civo still counts *nodes* that were removed. Its count falls by them later: a request for *target* sent before
    would leave a count below the nodes that exist, and Civo would choose what it deletes."""

    nodes: int
    target: int


def one_change_at_a_time(target: int, case: Case) -> Held[Uncounted | Action] | None:
    """An open removal is finished, and Civo's count has fallen, before the pool grows or other nodes are chosen."""
    if target > case.present and case.state.count.uncounted > 0:
        return Held(left=case.present, because=Uncounted(nodes=case.state.count.uncounted, target=target))
    action = case.state.open_action
    if action is None or (target > case.present) == (action.kind is ActionKind.GROW):
        return None
    return Held(left=case.present, because=action)


def _say_under_way(change: Uncounted | Action, _case: Case) -> Said:
    if isinstance(change, Uncounted):
        wait = f"the pool grows to {some(change.target, 'node')} once its count has fallen"
        minutes = f"{int(MUST_FALL_WITHIN.total_seconds() // 60)} minutes"
        helps = f"wait until Civo no longer counts the removed nodes: {minutes} at most, then its count is believed"
        return f"Civo still counts {some(change.nodes, 'removed node')}: {wait}", [(helps, None)]
    failed = f"; its last error: {change.last_error}" if change.last_error else ""
    end = f"wait until action {change.id} ends, open since {moment(change.opened_at)}{failed}"
    return f"action {change.id} is open", [(end, None)]


ONE_CHANGE_AT_A_TIME = Guardrail(
    check=one_change_at_a_time,
    say=_say_under_way,
    meaning="A change under way is finished before another starts.",
    plain="another change is under way",
    advice="nothing, if it ends within a minute; else look at the open action's last error",
    passing=True,
)
