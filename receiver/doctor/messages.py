"""Destinations of messages: whether there are any, whether their URLs are valid, and a test on request."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from uuid import uuid4

from receiver.adapters.messages import (
    Destination,
    check_every_destination,
    keep_secrets_out_of_logs,
    oddities,
    opened,
)
from receiver.core.model.text import some
from receiver.core.notices.grouping import Message
from receiver.doctor.checks import Area, Check, Finding, Installation, few

TEST = Message(
    title="Test message of the GPU autoscaler",
    text="A test by `gpu-autoscaler doctor`. No action is needed.",
)

ANYBODY = Check(
    "messages.destinations",
    "whether there is at least one destination for messages that concern no team",
    "set GPU_AUTOSCALER_NOTIFY_URLS to one or more Apprise URLs; without one, messages go to the log only",
)
UNDERSTOOD = Check(
    "messages.understood",
    "whether Apprise understands every destination",
    "correct its URL (https://github.com/caronc/apprise/wiki has the forms)",
)
COMPLETE = Check(
    "messages.complete",
    "whether destinations at Slack and Telegram have a channel or chat",
    "add the channel after the token: slack://xoxb-.../#CHANNEL, tgram://TOKEN/CHAT_ID",
)
SENT = Check(
    "messages.test_message",
    "whether every destination accepts a test message (with `--send-test-message`)",
    "correct the URL, invite the bot into the channel, or allow egress to it (NetworkPolicy, proxy)",
)


def look(installation: Installation) -> Iterator[Finding]:
    """Check the destinations, and send a test message if asked to."""
    keep_secrets_out_of_logs()
    urls, of_teams = installation.settings.environment.destinations()
    routes = installation.settings.routes
    of_each = (opened(team_urls, f"of team {team} ") for team, team_urls in of_teams.items())
    destinations = [*opened(urls, routes=routes), *chain.from_iterable(of_each)]
    whom = "to teams only" if of_teams else "to the log only, and nothing wakes a person"
    problem = f"GPU_AUTOSCALER_NOTIFY_URLS is not set: messages go {whom}"
    beside = f", and those of {some(len(of_teams), 'team')}" if of_teams else ""
    yield ANYBODY.warned_if(not urls, problem, f"{some(len(urls), 'destination')} for all messages{beside}")
    wrong = check_every_destination(urls, of_teams, routes)
    if destinations or wrong:
        names = few(destination.described for destination in destinations)
        yield from UNDERSTOOD.failures(wrong, f"{some(len(destinations), 'destination')}: {names}")
    if destinations:
        odd = [f"{destination.name}: {oddity}" for destination in destinations for oddity in oddities(destination)]
        yield from COMPLETE.warnings(odd, "their URLs are complete")
    yield from tried(destinations, wanted=installation.send_test_message, at=installation.clock.now())


def tried(destinations: Sequence[Destination], *, wanted: bool, at: datetime) -> Iterator[Finding]:
    """Send a test message to each of *destinations*, one by one, if it is *wanted*."""
    if not wanted or not destinations:
        yield SENT.skipped("there is no destination" if wanted else "not requested (--send-test-message)")
        return
    for destination in destinations:
        error = destination.send(replace(TEST, id=f"test-{uuid4()}", at=at))
        yield SENT.failed(error) if error else SENT.passed(f"{destination.name} accepted the test message")


AREA = Area(
    name="messages",
    source="the destinations of messages",
    checks=(ANYBODY, UNDERSTOOD, COMPLETE, SENT),
    look=look,
    remedy="check GPU_AUTOSCALER_NOTIFY_URLS and GPU_AUTOSCALER_TEAM_NOTIFY_URLS",
    timeout=120,
)
