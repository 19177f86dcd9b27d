"""What is told and shown of the configuration file, and when."""

from receiver.core.model.configuration import SETTLED, ConfigurationFile
from receiver.core.notices.configuration_notices import TOPIC, concerns_of, news_of
from receiver.core.notices.notice import Cause, Severity
from receiver.core.notices.routing import Route
from tests.core.builders import NOW
from tests.core.notices.of_configuration import MISTAKES, accepted


def test_a_refusal_is_shown_at_once_and_told_when_it_has_lasted() -> None:
    for since, told in ((NOW, False), (NOW - SETTLED, True)):
        [concern] = concerns_of(ConfigurationFile(at=since, mistakes=MISTAKES), NOW)
        assert (bool(concern.topic), concern.level) == (told, "warn")


def test_nothing_is_told_of_the_file_of_the_start() -> None:
    assert [*concerns_of(ConfigurationFile(), NOW), *news_of(ConfigurationFile())] == []


def test_keys_that_need_a_restart_are_shown_until_then() -> None:
    [concern] = concerns_of(accepted(restart=("tick", "prometheus.url")), NOW)
    assert "tick, prometheus.url" in concern.what
    assert concern.level == "warn"


REFUSED = {TOPIC: ("refused:5f3c", NOW)}


def test_a_refusal_that_was_told_is_taken_back_after_a_restart_with_a_valid_file() -> None:
    [notice] = news_of(ConfigurationFile(), REFUSED)
    assert (notice.cause, notice.all_clear) == (Cause.CONFIGURATION_BACK, True)
    assert [*news_of(ConfigurationFile(), {TOPIC: (notice.key, NOW)})] == []
    assert [*news_of(ConfigurationFile(mistakes=MISTAKES), REFUSED)] == []


def test_who_heard_of_a_refusal_hears_of_the_change_that_ends_it() -> None:
    warned = Route(level=Severity.WARNING)
    assert [warned.wants(*news_of(accepted("tick 1m -> 2m"), told)) for told in ({}, REFUSED)] == [False, True]
