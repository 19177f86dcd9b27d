"""A configuration file that is refused, that was accepted, or that waits for a restart."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from receiver.core.model.configuration import SETTLED, ConfigurationFile
from receiver.core.notices.notice import GUIDES, Cause, Concern, Notice

TOPIC, REFUSED = "configuration", "refused:"
MISTAKES_SHOWN = 2
CHANGES_SHOWN = 6
RESTART = "To apply them: kubectl -n gpu-autoscaler rollout restart deployment/gpu-autoscaler"


def concerns_of(file: ConfigurationFile, now: datetime) -> Iterator[Concern]:
    """Yield what is wrong with *file*. A message is sent once a refusal has lasted: an editor may still be writing."""
    if file.mistakes and file.at is not None:
        yield Concern(
            kind=Cause.CONFIGURATION_REFUSED,
            what="the configuration file is refused",
            since=file.at,
            why=" / ".join(_first(file.mistakes, MISTAKES_SHOWN, "mistake")),
            doing="the previous configuration stays in force. A corrected file is read at once; a restart would fail",
            todo="To see every mistake: gpu-autoscaler check-config",
            topic=TOPIC if now - file.at >= SETTLED else "",
            key=f"{REFUSED}{file.digest}",
            title=f"Configuration refused: {file.mistakes[0]}",
        )
    if file.restart:
        yield Concern(
            kind="needs_restart",
            what=f"these configuration keys changed and need a restart: {', '.join(file.restart)}",
            doing="every other key of the file is in force",
            todo=RESTART,
            guide=GUIDES[Cause.CONFIGURATION_CHANGED],
        )


def news_of(
    file: ConfigurationFile, last_notices: Mapping[str, tuple[str, datetime]] | None = None
) -> Sequence[Notice]:
    """Return the message that an accepted *file* is in force, or that a refused one is valid again, also after a
    restart: *last_notices* has the last key of the topic."""
    ends_refusal = (last_notices or {}).get(TOPIC, ("",))[0].startswith(REFUSED)
    if file.mistakes or (file.at is None and not ends_refusal):
        return ()
    if not file.changes:
        title, body = "Configuration file valid again", "Nothing changes: the configuration in force is the same."
        if file.at is None:
            body = "It has been in force since this server started."
        key = f"valid:{file.digest}"
        return (Notice(cause=Cause.CONFIGURATION_BACK, topic=TOPIC, key=key, title=title, body=body, all_clear=True),)
    lines = ["In force from the next step on."]
    if len(file.changes) > 1:
        lines = [f"- {line}" for line in _first(file.changes, CHANGES_SHOWN, "change")]
    if file.restart:
        lines += [f"Waiting for a restart: {', '.join(file.restart)}.", RESTART]
    title = f"Configuration changed: {file.changes[0]}"
    if len(file.changes) > 1:
        title += f" and {len(file.changes) - 1} more"
    body = "\n".join(lines)
    key, all_clear = f"changed:{file.digest}", ends_refusal  # who heard of the refusal alone hears that it is over
    return (
        Notice(cause=Cause.CONFIGURATION_CHANGED, topic=TOPIC, key=key, title=title, body=body, all_clear=all_clear),
    )


def _first(lines: Sequence[str], most: int, noun: str) -> Sequence[str]:
    """Return the first *most* of *lines*, and how many more there are."""
    unnamed = len(lines) - most
    return lines if unnamed <= 0 else [*lines[:most], f"{unnamed} more {noun}{'s' * (unnamed > 1)}"]
