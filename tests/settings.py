"""Settings as a server has them, with any policy: the file's own pools say nothing."""

from functools import cache
from typing import Any

from receiver.config.model import Configuration, Mode
from receiver.config.prices import Prices
from receiver.config.settings import FileSettings, load_text
from receiver.core.model.policy import Policy


def settings_of(policy: Policy, mode: str = "act", web: dict[str, Any] | None = None, **keys: Any) -> FileSettings:
    """Return settings with *policy*, and what *keys* and the section *web* change of the usual configuration."""
    usual = _usual()
    changes = {**keys, "mode": Mode(mode), "web": usual.web.model_copy(update=web or {})}
    return FileSettings(configuration=usual.model_copy(update=changes), policy=policy, prices=Prices())


@cache
def _usual() -> Configuration:
    return load_text("pools: [{civo_pool_id: l40s-id, max_nodes: 2}]").configuration
