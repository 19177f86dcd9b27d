"""What a person should know first: what the last step published, and how the loop and the outbox do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from receiver.core.model.policy import Policy
from receiver.core.model.text import some, span
from receiver.core.notices.notice import Level
from receiver.core.notices.wording import capital, sentence
from receiver.ports import LoopHealth, StoredNotice
from receiver.reports.picture import ConcernDocument, Picture, kept_picture
from receiver.web.pages.show import ago
from receiver.web.parts import WebParts

PLURAL = {"is": "are", "has": "have", "waits": "wait", "grows": "grow", "does": "do"}
LONGEST = 400  # characters of what another system or a person wrote


class ShownConcern(ConcernDocument):
    """A concern with the *pools* (id and name) that have it, if there are any, before its clause *what*."""

    level: Level = Level.WARN
    pools: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that is looked at: *found* is the picture, *at* its time (None: no step has finished yet)."""

    found: Picture
    at: datetime | None
    now: datetime
    health: LoopHealth
    policy: Policy
    undelivered: Sequence[StoredNotice]


def scene_of(parts: WebParts) -> Scene:
    """Return what the last step saw, how the loop does, and what waits to be told."""
    found, at = kept_picture(parts.store)
    return Scene(
        found=found,
        at=at,
        now=parts.clock.now(),
        health=parts.heartbeat(),
        policy=parts.policy,
        undelivered=parts.store.undelivered(),
    )


def concerns(scene: Scene) -> list[ShownConcern]:
    """Return everything that needs attention, the worst first; what several pools have in common is told once."""
    by_cause: dict[tuple[str, str], ShownConcern] = {}
    for concern in (*_ourselves(scene), *_published(scene), *_messages(scene)):
        key = (concern.kind, concern.what)
        before = by_cause.get(key)
        if before is None:
            by_cause[key] = concern
            continue
        verb, _, rest = concern.what.partition(" ")
        change = {
            "what": f"{PLURAL.get(verb, verb)} {rest}",
            "pools": (*before.pools, *concern.pools),
            "doing": before.doing if before.doing == concern.doing else "",  # what differs is on the pools' pages
            "decision": None,
        }
        by_cause[key] = before.model_copy(update=change)
    return sorted(by_cause.values(), key=lambda concern: concern.level.rank)


def headline(scene: Scene, found: Sequence[ShownConcern]) -> str:
    """Return one sentence for a screen reader and a hurried eye. It names no time: it changes only with news."""
    wrong, odd = (sum(concern.level is level for concern in found) for level in (Level.BAD, Level.WARN))
    if scene.at is None:
        return "No data yet."
    if wrong:
        things = "1 thing is wrong" if wrong == 1 else f"{wrong} things are wrong"
        return f"{things}, {odd} more to look at." if odd else f"{things}."
    if odd:
        return f"{some(odd, 'thing')} to look at."
    return f"All is well with {some(len(scene.found.pools or scene.policy.pools), 'pool')}."


def _ourselves(scene: Scene) -> Iterator[ShownConcern]:
    health = scene.health
    if not health.alive:
        yield ShownConcern(
            kind="loop",
            level=Level.BAD,
            what="The loop is not running.",
            doing=f"Its last heartbeat was {span(health.beat_age.total_seconds())} ago (state: {health.state}). Alerts "
            "are kept and nothing is decided until it runs again.",
            guide="runbooks/GpuAutoscalerDown.md",
        )
    # Older than a loop that beats would leave it.
    stale = scene.at is not None and scene.now - scene.at > health.fresh
    if scene.at is None:
        yield ShownConcern(
            kind="no_step",
            level=Level.WARN,
            what="No step has finished yet.",
            doing=f"Nothing is known about the {some(len(scene.policy.pools), 'configured pool')}; the first step "
            "looks at Civo and the cluster.",
        )
    elif stale:
        yield ShownConcern(
            kind="stale",
            level=Level.BAD,
            what="This page shows old data.",
            doing=f"The last finished step was {ago(scene.at, scene.now)}; the numbers below may no longer hold.",
            guide="runbooks/GpuAutoscalerStepsFail.md",
        )
    if health.alive and not stale and not health.steps_well and health.good_age is not None:
        yield ShownConcern(
            kind="steps_fail",
            level=Level.BAD,
            what="Steps fail.",
            doing=f"No step has succeeded for {span(health.good_age.total_seconds())}. Alerts are kept; pools may"
            " neither grow nor shrink.",
            guide="runbooks/GpuAutoscalerStepsFail.md",
        )


def _published(scene: Scene) -> Iterator[ShownConcern]:
    """What the last step found; a picture that an older version kept has none."""
    for concern in scene.found.concerns:
        pool = scene.policy.pool(concern.pool)
        lasts = f"For {span((scene.now - concern.since).total_seconds())}" if concern.since is not None else ""
        said = (lasts, concern.why, concern.doing)
        yield ShownConcern.of(
            concern,
            level=Level(concern.level) if concern.level in set(Level) else Level.WARN,
            doing=" ".join(sentence(capital(part), LONGEST) for part in said if part),
            pools=((pool.id, pool.name),) if pool is not None else (),
        )


def _messages(scene: Scene) -> Iterator[ShownConcern]:
    failing = [told for told in scene.undelivered if told.attempts]
    if failing:
        yield ShownConcern(
            kind="messages",
            level=Level.WARN,
            what=f"{some(len(failing), 'message')} could not be delivered: {failing[-1].last_error}.",
            doing="Each is tried again for a while; scaling does not wait for it.",
            guide="runbooks/GpuAutoscalerNoticesStuck.md",
            page="sources",
        )
