"""A reflector's cache: equal to the server's truth, never claimed to be fresher than it is, whatever the watch does."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from receiver.adapters.kubernetes import reflector as module
from receiver.adapters.kubernetes.reflector import LONGEST_BACKOFF_SECONDS, Listing, Reflector, Watching, backoff
from receiver.ports import TryLater, WontWork
from tests.e2e.waiting import until

QUIET = 0.1
STALE_AFTER = 0.3
SLACK = 0.4  # seconds for the threads of a busy machine
GONE = TryLater("too old", code="http_410")


def an_object(name: str, version: int, value: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ml", "resourceVersion": str(version)}, "spec": {"value": value}}


def a_bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


def value_of(raw: Any) -> tuple[str, int]:
    return raw["metadata"]["name"], raw["spec"]["value"]


class AServer:
    """One list and its watch, in the place of the wire. `plans` say what the next watches do, each as events
    that is given the version to watch from; without a plan the watch works."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.objects: dict[str, dict[str, Any]] = {}
        self.version, self.lives = 100_000, 1
        self.history: list[tuple[int, dict[str, Any]]] = []
        self.lists = 0
        self.watched: list[int] = []
        self.windows: list[float] = []
        self.away: Exception | None = None
        self.refuses: Exception | None = None
        self.plans: list[Callable[[int], Iterator[dict[str, Any]]]] = []
        self.otherwise = self.works
        self.snapshots: list[tuple[float, frozenset[tuple[str, int]]]] = []
        self.closing = threading.Event()
        self._snap()

    def put(self, name: str, value: int) -> dict[str, Any]:
        with self.changed:
            self.version += 1
            raw = an_object(name, self.version, value)
            kind = "MODIFIED" if name in self.objects else "ADDED"
            self.objects[name] = raw
            self._note(kind, raw)
            return raw

    def drop(self, name: str) -> None:
        with self.changed:
            raw = self.objects.pop(name)
            self.version += 1
            metadata = {**raw["metadata"], "resourceVersion": str(self.version)}
            self._note("DELETED", {**raw, "metadata": metadata})

    def restart(self) -> None:
        """Come back from a backup: everything has lower versions, and the history is gone."""
        with self.changed:
            self.version, self.lives = self.version - 500, self.lives + 1
            self.history.clear()
            self.objects = {n: an_object(n, self.version, raw["spec"]["value"]) for n, raw in self.objects.items()}
            self._snap()

    def _note(self, kind: str, raw: dict[str, Any]) -> None:
        self.history.append((self.version, {"type": kind, "object": raw}))
        self._snap()
        self.changed.notify_all()

    def _snap(self) -> None:
        self.snapshots.append((time.monotonic(), frozenset(map(value_of, self.objects.values()))))

    def since(self, moment: float) -> list[frozenset[tuple[str, int]]]:
        """Return everything that was true at *moment* or later."""
        with self.changed:
            ended = [at for at, _ in self.snapshots[1:]] + [time.monotonic()]
            return [truth for (_, truth), end in zip(self.snapshots, ended, strict=True) if end >= moment]

    def listed(self, resource: str, path: str, view: Callable[[Any], Any]) -> tuple[list[Any], str]:
        self.lists += 1
        if self.away is not None:
            raise self.away
        with self.changed:
            return [view(raw) for raw in self.objects.values()], str(self.version)

    def watch(
        self,
        resource: str,
        path: str,
        parts: Any,
        opened: Any,
        seconds: float,
        silence: float,
        resource_version: str,
        **_: Any,
    ) -> Iterator[dict[str, Any]]:
        self.watched.append(int(resource_version))
        self.windows.append(seconds)
        if self.refuses is not None:
            raise self.refuses
        opened(None)
        plan = self.plans.pop(0) if self.plans else self.otherwise
        ends = heard = time.monotonic()
        ends += seconds
        for event in plan(int(resource_version)):
            now = time.monotonic()
            if self.closing.is_set() or (event and now > ends):  # a dead connection is not ended by the server
                break
            if now - heard > silence:
                raise TryLater("it did not answer in time", code="timeout")
            if event:
                heard = now
                yield event

    def works(self, version: int) -> Iterator[dict[str, Any]]:
        """Tell every change since *version*, and in between a bookmark."""
        lives = self.lives
        while True:
            with self.changed:
                if self.history and version < self.history[0][0] - 1:
                    raise GONE
                if lives != self.lives:
                    raise TryLater("cut", code="unreachable")
                news = [(v, event) for v, event in self.history if v > version]
                now = self.version
            for _, event in news:
                yield event
            version = now
            if not news:
                yield a_bookmark(now)
                time.sleep(0.01)


class Scene:
    """A reflector over a server, and what it made of it."""

    def __init__(self) -> None:
        self.server, self.leads = AServer(), True
        self.calls: list[str] = []
        self.later = 0.0  # seconds that the reflector's clock is ahead of the server's
        watching = Watching(
            leads=lambda: self.leads,
            wake=lambda: self.calls.append("wake"),
            stands=lambda: self.calls.append("stands"),
            fell=lambda: self.calls.append("fell"),
            idle=lambda: self.calls.append("idle"),
        )
        wire: Any = self.server
        listing = Listing(resource="things", path="", view=value_of, wanted=lambda _, after: after[1] == 99)
        self.reflector = Reflector(listing, wire, watching, 5, QUIET, lambda: time.monotonic() + self.later)

    def read(self) -> dict[str, int]:
        return dict(self.reflector.objects())

    def serves_from_cache(self) -> bool:
        lists = self.server.lists
        self.read()
        return self.server.lists == lists

    def stop(self) -> None:
        self.server.closing.set()
        self.reflector.stop()
        if self.reflector.ident is not None:
            self.reflector.join(60)
            assert not self.reflector.is_alive()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(module, "PROBE_SECONDS", QUIET)
    monkeypatch.setattr(module, "HANGS_AFTER_SECONDS", QUIET)
    monkeypatch.setattr(module, "LONGEST_BACKOFF_SECONDS", 0.02)
    found = Scene()
    with capture_logs():
        yield found
        found.stop()


def silent(version: int) -> Iterator[dict[str, Any]]:
    """The connection stands, and nothing comes."""
    for _ in range(200):
        time.sleep(0.01)
        yield {}


def failing(error: Exception) -> Callable[[int], Iterator[dict[str, Any]]]:
    def plan(version: int) -> Iterator[dict[str, Any]]:
        yield a_bookmark(version)
        raise error

    return plan


def saying(*events: dict[str, Any]) -> Callable[[int], Iterator[dict[str, Any]]]:
    def plan(version: int) -> Iterator[dict[str, Any]]:
        yield from events
        yield from silent(version)

    return plan


def test_a_list_is_asked_for_once_and_changes_come_by_the_watch(scene: Scene) -> None:
    scene.server.put("one", 1)
    assert scene.read() == {"one": 1}
    until(scene.serves_from_cache, "a fresh cache")
    lists = scene.server.lists
    scene.server.put("two", 2)
    scene.server.put("one", 3)
    until(lambda: scene.read() == {"one": 3, "two": 2}, "the changes")
    scene.server.drop("one")
    until(lambda: scene.read() == {"two": 2}, "the end of one")
    assert scene.server.lists == lists


def test_a_change_that_is_wanted_wakes_the_loop_and_others_do_not(scene: Scene) -> None:
    scene.read()
    until(lambda: "stands" in scene.calls, "a watch")
    scene.server.put("one", 1)
    scene.server.put("two", 99)
    until(lambda: "wake" in scene.calls, "a wake-up")
    assert scene.calls.count("wake") == 1


def test_a_silent_watch_makes_the_cache_stale_and_the_next_read_lists(scene: Scene) -> None:
    scene.server.plans = [silent]
    scene.read()
    until(lambda: "stands" in scene.calls, "a watch")
    scene.server.put("one", 1)  # which the watch does not tell
    scene.later = STALE_AFTER
    assert scene.read() == {"one": 1}


def test_bookmarks_alone_keep_the_cache_fresh(scene: Scene) -> None:
    """A list in which nothing changes is never read again while its watch stands."""
    scene.server.put("one", 1)
    scene.read()
    until(scene.serves_from_cache, "a fresh cache")
    lists = scene.server.lists
    for _ in range(4):
        scene.later += STALE_AFTER
        until(lambda: (scene.reflector.age or 0) < QUIET, "a bookmark")
        assert scene.read() == {"one": 1}
    assert scene.server.lists == lists


def test_after_a_silence_a_short_watch_asks_for_a_bookmark_and_nothing_is_listed(scene: Scene) -> None:
    scene.server.plans = [silent]  # then the watch works
    scene.read()
    until(lambda: len(scene.server.watched) >= 3, "the watch after the short one")
    assert (scene.server.lists, "fell" in scene.calls) == (1, False)
    assert scene.server.windows[0] >= 2 > QUIET == scene.server.windows[1]


def test_a_silent_short_watch_means_a_dead_connection(scene: Scene) -> None:
    scene.server.plans = [silent, silent]
    scene.read()
    until(lambda: "fell" in scene.calls, "the end of the watch")
    assert scene.server.windows[1] == QUIET


def test_a_watch_ends_with_its_next_bookmark_where_the_lead_is_lost(scene: Scene) -> None:
    scene.read()
    until(lambda: "stands" in scene.calls, "a watch")
    scene.leads = False
    until(lambda: "idle" in scene.calls, "an idle watch")
    assert "fell" not in scene.calls


def test_a_stale_cache_fails_as_a_list_fails_and_is_never_empty(scene: Scene) -> None:
    scene.server.put("one", 1)
    scene.server.plans = [silent] * 3
    scene.read()
    scene.server.away = TryLater("away", code="http_503")
    scene.later = STALE_AFTER
    with pytest.raises(TryLater, match="away"):
        scene.read()


def test_a_cut_watch_goes_on_from_its_last_version(scene: Scene) -> None:
    scene.server.plans = [failing(TryLater("cut", code="unreachable"))]
    scene.read()
    until(lambda: len(scene.server.watched) >= 2, "the next watch")
    assert scene.server.watched[:2] == [100_000, 100_000]
    assert "fell" in scene.calls


@pytest.mark.parametrize(
    "plan",
    [
        failing(GONE),
        failing(TryLater("no JSON", code="malformed")),
        saying({"type": "ADDED", "object": {"metadata": {"name": "one"}}}),
        saying({"type": "ADDED", "object": {"metadata": {"resourceVersion": "100002"}}}),
        saying({"type": "TELEPORTED", "object": an_object("one", 100_002)}),
        saying(a_bookmark(300)),
    ],
    ids=["410", "no JSON", "no version", "no name", "unknown kind", "versions went back"],
)
def test_a_watch_that_lost_its_place_wakes_the_loop_and_the_next_read_lists(
    scene: Scene, plan: Callable[[int], Iterator[dict[str, Any]]]
) -> None:
    scene.server.plans = [plan]
    scene.read()
    until(lambda: "wake" in scene.calls, "a wake-up")
    lists = scene.server.lists
    scene.server.put("one", 1)
    assert scene.read() == {"one": 1}
    assert scene.server.lists == lists + 1
    until(scene.serves_from_cache, "a fresh cache")


def test_a_watch_that_is_refused_leaves_a_list_for_each_read_and_names_the_right(scene: Scene) -> None:
    scene.server.refuses = WontWork('grant the verb "watch" on "things"', code="http_403")
    with capture_logs() as said:
        for _ in range(3):
            scene.read()
        until(lambda: bool(said), "a warning")
    assert scene.server.lists == 3
    assert (said[0]["event"], said[0]["resource"]) == ("not watched", "things")
    scene.server.refuses = None
    until(scene.serves_from_cache, "a fresh cache")


def test_a_write_of_ours_is_seen_by_the_next_read(scene: Scene) -> None:
    scene.server.put("one", 1)
    scene.server.plans = [silent, silent]
    scene.read()
    until(lambda: "stands" in scene.calls, "a watch")
    scene.reflector.wrote(scene.server.put("one", 2))
    assert scene.read() == {"one": 2}  # by a list: the watch does not tell


def test_a_write_that_the_watch_tells_costs_no_list(scene: Scene) -> None:
    scene.server.put("one", 1)
    scene.read()
    until(scene.serves_from_cache, "a fresh cache")
    lists = scene.server.lists
    scene.reflector.wrote(scene.server.put("one", 2))
    assert scene.read() == {"one": 2}
    assert scene.server.lists == lists


def test_a_write_of_unknown_outcome_makes_the_next_read_list(scene: Scene) -> None:
    scene.read()
    until(scene.serves_from_cache, "a fresh cache")
    scene.reflector.wrote(None)
    assert not scene.serves_from_cache()


def test_without_the_lead_nothing_is_watched_or_kept(scene: Scene) -> None:
    scene.server.put("one", 1)
    scene.read()
    scene.leads = False
    until(lambda: "idle" in scene.calls, "an idle watch")
    assert scene.reflector.age is None
    scene.leads = True
    assert scene.read() == {"one": 1}
    until(scene.serves_from_cache, "a fresh cache")


def test_an_old_list_is_not_trusted_for_ever(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANGS_AFTER_SECONDS", 2 * module.RELIST_AFTER_SECONDS)
    scene.read()
    until(scene.serves_from_cache, "a fresh cache")
    scene.later = module.RELIST_AFTER_SECONDS
    assert not scene.serves_from_cache()


def test_waits_double_up_to_a_minute_less_a_random_half() -> None:
    assert [backoff(n, lambda: 0.0) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff(3, lambda: 1.0) == 2
    assert backoff(10_000, lambda: 0.0) == LONGEST_BACKOFF_SECONDS


class Chaos:
    """A server whose watches break in every way, by chance."""

    def __init__(self, server: AServer, chance: random.Random) -> None:
        self.server, self.chance, self.on = server, chance, True

    def watch(self, version: int) -> Iterator[dict[str, Any]]:
        """Tell the changes since *version* until something happens to the connection."""
        told: list[dict[str, Any]] = []
        for event in self.server.works(version):
            what = self.chance.random() if self.on else 1.0
            if what < 0.05:
                raise TryLater("cut", code="unreachable")  # with what was about to come
            if what < 0.07:
                raise GONE
            if what < 0.09:
                yield {"type": "ADDED", "object": {}}
            elif what < 0.11:
                yield from silent(version)  # half open
                raise TryLater("timeout", code="timeout")
            elif what < 0.16 and told:
                yield self.chance.choice(told)  # once more, or out of order
            elif what < 0.2:
                yield a_bookmark(version - self.chance.randrange(3))
            version = int(event["object"]["metadata"]["resourceVersion"])
            told.append(event)
            yield event

    def change(self) -> None:
        """Change something at the server."""
        name = f"n{self.chance.randrange(6)}"
        what = self.chance.random()
        if what < 0.03:
            self.server.restart()
        elif what < 0.08:
            with self.server.changed:
                del self.server.history[: len(self.server.history) // 2]
        elif what < 0.12:
            self.server.away = TryLater("away", code="http_503") if self.server.away is None else None
        elif what < 0.3 and name in self.server.objects:
            self.server.drop(name)
        else:
            self.server.put(name, self.chance.randrange(50))


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_the_cache_is_true_as_of_moments_ago_and_equal_in_the_end(scene: Scene, seed: int) -> None:
    server, chance = scene.server, random.Random(seed)
    chaos = Chaos(server, chance)
    server.otherwise = chaos.watch
    ends = time.monotonic() + 1.5
    while time.monotonic() < ends:
        chaos.change()
        began = time.monotonic()
        try:
            found = frozenset(scene.reflector.objects())
        except TryLater:
            continue
        finally:
            time.sleep(chance.random() * 0.02)
        assert found in server.since(began - STALE_AFTER - SLACK)
    chaos.on, server.away = False, None
    until(lambda: frozenset(scene.reflector.objects()) == server.snapshots[-1][1], "the truth")
    until(scene.serves_from_cache, "a fresh cache")
    assert frozenset(scene.reflector.objects()) == server.snapshots[-1][1]
