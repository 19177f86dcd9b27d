"""What is built of the settings is built anew when they change, and a look that fails is not the last one."""

import threading

import pytest

from receiver.runtime.reload import Latest, Reloader
from tests.e2e.waiting import until


class Settings:
    """Settings in force, which a test replaces."""

    def __init__(self) -> None:
        self.now: object = object()

    def __call__(self) -> object:
        return self.now


def test_it_is_built_once_for_each_settings() -> None:
    settings = Settings()
    built: list[object] = []

    def make(said: object) -> object:
        built.append(said)
        return said

    latest = Latest(settings, make)
    first = latest()
    settings.now = object()
    assert (first, latest(), latest()) == (built[0], settings.now, settings.now)
    assert built == [first, settings.now]


@pytest.mark.usefixtures("own_logs")
def test_what_cannot_be_built_leaves_what_was_built_before() -> None:
    settings = Settings()
    before = settings.now

    def make(said: object) -> object:
        if said is not before:
            raise ValueError("a bug")
        return said

    latest = Latest(settings, make)
    settings.now = object()
    assert latest() is latest() is before


def test_others_get_what_was_built_before_while_one_thread_builds() -> None:
    settings, building, may_end = Settings(), threading.Event(), threading.Event()
    before = settings.now

    def make(said: object) -> object:
        if said is not before:
            building.set()
            may_end.wait(60)
        return said

    latest = Latest(settings, make)
    settings.now = object()
    builder = threading.Thread(target=latest)
    builder.start()
    building.wait(60)
    assert latest() is before
    may_end.set()
    builder.join(60)
    assert latest() is settings.now


@pytest.mark.usefixtures("own_logs")
def test_a_look_that_fails_is_followed_by_another_and_stopping_ends_them() -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise ValueError("a bug")

    reloader = Reloader(look, every=0.01)
    reloader.start()
    until(lambda: len(looks) > 1, "a second look")
    reloader.stop()
    assert not reloader.is_alive()
