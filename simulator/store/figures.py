"""Figures in memory for pages and metrics: samples of pools and turns of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from receiver.adapters.store.figures import A_MINUTE, AN_HOUR, HELD_MILLISECONDS, PROMISES, hour_of, living_turns
from receiver.core.explain.samples import Doing, HeldHours, NodeTurn, PoolMinutes, PoolSample, minute_of
from simulator.store.forms import kept
from simulator.store.part import StorePart


class Figures(StorePart):
    """Samples by pool and minute, turns by node."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: dict[tuple[str, datetime], PoolSample] = {}
        self._turns: dict[str, dict[datetime, NodeTurn]] = {}  # by instance and moment
        self._minute: tuple[datetime, Mapping[str, NodeTurn]] | None = None  # the last, and every living node's turn

    def keep_samples(self, measured: Sequence[PoolSample], doing: Sequence[NodeTurn] | None, at: datetime) -> None:
        minute, last = minute_of(at), self._minute
        if last is not None and last[0] == minute:
            return
        self._writes()
        known = last[1] if last is not None and minute - last[0] == A_MINUTE else self._living()
        living = living_turns(known, doing, minute)
        gone = [replace(turn, at=minute, doing=Doing.GONE) for name, turn in known.items() if name not in living]
        for sample in map(kept, measured):
            self._samples.setdefault((sample.pool, sample.at), sample)
        for turn in (*living.values(), *gone):
            if known.get(turn.instance) != turn:
                self._turns.setdefault(turn.instance, {}).setdefault(turn.at, kept(turn))
        self._minute = minute, living

    def _living(self) -> dict[str, NodeTurn]:
        """The last turn of every node that is not gone."""
        last = (turns[max(turns)] for turns in self._turns.values())
        return {turn.instance: turn for turn in last if turn.doing is not Doing.GONE}

    def samples(self, since: datetime, until: datetime, *, pool: str) -> Sequence[PoolSample]:
        self._reads()
        found = (s for s in self._samples.values() if s.pool == pool and since <= s.at <= until)
        return tuple(sorted(found, key=lambda s: s.at))

    def pool_minutes(self, since: datetime, until: datetime) -> Mapping[str, PoolMinutes]:
        self._reads()
        found: dict[str, PoolMinutes] = {}
        for sample in self._samples.values():
            if since <= sample.at < until:
                sums = found.get(sample.pool, PoolMinutes())
                found[sample.pool] = PoolMinutes(
                    known=sums.known + (sample.busy is not None),
                    busy=sums.busy + (sample.busy or 0),
                    idle=sums.idle + (sample.idle or 0),
                )
        return found

    def held(self, since: datetime, until: datetime) -> HeldHours:
        self._reads()
        hours = {hour_of(since + n * AN_HOUR) for n in range(round((until - since) / AN_HOUR))}
        found = [self._totals[key] for key in ((HELD_MILLISECONDS, hour) for hour in hours) if key in self._totals]
        return HeldHours(gpu_hours=sum(found) / 3_600_000, known=len(found) / len(hours) if hours else 0.0)

    def turns(self, pool: str, since: datetime, until: datetime) -> Sequence[NodeTurn]:
        self._reads()
        found: list[NodeTurn] = []
        for turns in self._turns.values():
            of_pool = [turn for turn in turns.values() if turn.pool == pool]
            earlier = [turn for turn in of_pool if turn.at < since]
            if earlier:
                found.append(max(earlier, key=lambda turn: turn.at))
            found += [turn for turn in of_pool if since <= turn.at <= until]
        return tuple(sorted(found, key=lambda turn: turn.at))

    def count_promises(self, ended: Mapping[tuple[str, str], int]) -> None:
        self._writes()
        for labels, number in ended.items():
            self._add(PROMISES, *labels, by=number)
