"""What is told of the configuration file, case by case."""

from collections.abc import Callable, Mapping

from receiver.core.model.configuration import ConfigurationFile
from receiver.core.notices.concerns import notices_of
from receiver.core.notices.configuration_notices import concerns_of, news_of
from receiver.core.notices.notice import Notice
from tests.core.builders import MINUTE, NOW
from tests.core.notices.scene import POLICY

MISTAKES = (
    "pools[0].max_nods: unknown key; did you mean max_nodes?",
    "budget.hold_at: must not be above stop_at (1.0); lower hold_at or raise stop_at",
    "limits: must be a mapping of keys; write key: value",
)
CHANGES = ("pools.l40s.max_nodes 4 -> 6", "budget.monthly_usd 5000 -> 7000", "tick needs a restart")


def refused(*mistakes: str, lasting: int = 1) -> ConfigurationFile:
    """A file that is refused for so many minutes."""
    return ConfigurationFile(at=NOW - lasting * MINUTE, mistakes=mistakes, digest="5f3c")


def accepted(*changes: str, restart: tuple[str, ...] = ()) -> ConfigurationFile:
    return ConfigurationFile(at=NOW, changes=changes, restart=restart, digest="77aa")


def _only(file: ConfigurationFile) -> Notice:
    (notice,) = [*notices_of(concerns_of(file, NOW), POLICY, NOW), *news_of(file)]
    return notice


CASES: Mapping[str, Callable[[], Notice]] = {
    "configuration_refused": lambda: _only(refused(*MISTAKES)),
    "configuration_changed": lambda: _only(accepted(*CHANGES[:1])),
    "configuration_changed_in_part": lambda: _only(accepted(*CHANGES, restart=("tick",))),
    "configuration_valid_again": lambda: _only(accepted()),
}
