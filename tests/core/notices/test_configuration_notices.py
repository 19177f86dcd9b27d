"""What is told and shown of the configuration file, and when."""

from receiver.core.model.configuration import SETTLED, ConfigurationFile
from receiver.core.notices.configuration_notices import concerns_of, news_of
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
