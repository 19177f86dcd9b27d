"""Decisions by episode: a pool that stays blocked by one rule, and tries again meanwhile, is told once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from receiver.ports import DecisionFilter, DecisionKind, StoredDecision
from receiver.reports.state import ScalingState, StateWord, scaling_state, unseen
from receiver.web.parts import WebParts

READ = 60  # decisions in which episodes are looked for: most may be steady


def state_of(stored: StoredDecision) -> ScalingState:
    """Return the state in which a decision left its pool."""
    decision, evidence = stored.decision, stored.decision.evidence
    mode, present = evidence.get("mode"), decision.present
    return scaling_state(decision.change, decision.reasons, mode, present=present, unseen=unseen(evidence))


@dataclass(slots=True)
class Episode:
    """A change of a pool, or a time in which it was blocked: the *decisions* of it, the newest first, and the *state*
    in which the newest left the pool."""

    decisions: list[StoredDecision]
    state: ScalingState

    @property
    def latest(self) -> StoredDecision:
        """The newest decision of it, which tells how it stands."""
        return self.decisions[0]

    @property
    def since(self) -> datetime:
        """When it began."""
        return self.decisions[-1].decision.at

    @property
    def tries(self) -> int:
        """How often a change was tried in vain in it."""
        if self.state.word is not StateWord.BLOCKED:
            return 0
        return sum(stored.decision.present != stored.decision.target for stored in self.decisions)

    def takes(self, older: StoredDecision, state: ScalingState) -> bool:
        """True if *older*, which left the pool in *state*, is a part of it: the same rule blocked the pool at the same
        size, or it tried a change that had no effect."""
        if self.state.word is not StateWord.BLOCKED or older.decision.present != self.decisions[-1].decision.present:
            return False
        if state.word is StateWord.BLOCKED:
            return state.blocked_by == self.state.blocked_by
        return not state.would


def episodes(decisions: Iterable[StoredDecision]) -> list[Episode]:
    """Return the episodes in *decisions*, which are the newest first; what is steady ends one, and is none itself."""
    history: list[Episode] = []
    current: dict[str, Episode | None] = {}  # by pool: the episode that the next older decision may belong to
    for stored in decisions:
        state, pool = state_of(stored), stored.decision.pool
        episode = current.get(pool)
        if state.word is StateWord.STEADY:
            current[pool] = None
        elif episode is not None and episode.takes(stored, state):
            episode.decisions.append(stored)
        else:
            current[pool] = started = Episode([stored], state)
            history.append(started)
    return history


def latest_episodes(parts: WebParts, only: DecisionFilter, most: int) -> Sequence[Episode]:
    """Return the newest episodes of the decisions that pass *only*, whose kind counts for nothing; at most *most*."""
    every, news = replace(only, kind=None), replace(only, kind=DecisionKind.NEWS)
    newest = parts.store.decisions(every, limit=READ)
    history = episodes(newest)
    if len(history) < most and len(newest) == READ:
        history += episodes(parts.store.decisions(replace(news, before=newest[-1].id), limit=most))
    return history[:most]
