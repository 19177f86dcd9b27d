"""Destinations of messages: whether there are any, whether their URLs are valid, and a test on request."""

from collections.abc import Iterator, Sequence

from receiver.adapters.messages.destinations import (
    Destination,
    check_every_destination,
    keep_secrets_out_of_logs,
    oddities,
    opened,
)
from receiver.core.model.text import some
from receiver.core.notices.grouping import Message
from receiver.core.notices.notice import Severity
from receiver.doctor.checks import Area, Check, Finding, Installation, few

TEST = Message(
    title="Test message of the GPU autoscaler",
    body="A test by `gpu-autoscaler doctor`. No action is needed.",
)

ANYBODY = Check(
    "messages.destinations",
    "whether there is at least one destination for messages that concern no team",
    ("warn",),
    "set GPU_AUTOSCALER_NOTIFY_URLS to one or more Apprise URLs; without one, messages go to the log only",
)
UNDERSTOOD = Check(
    "messages.understood",
    "whether Apprise understands every destination",
    ("fail",),
    "correct its URL (https://github.com/caronc/apprise/wiki has the forms)",
)
COMPLETE = Check(
    "messages.complete",
    "whether destinations at Slack and Telegram have a channel or chat",
    ("warn",),
    "add the channel after the token: slack://xoxb-.../#CHANNEL, tgram://TOKEN/CHAT_ID",
)
SENT = Check(
    "messages.test_message",
    "with `--send-test-message`: whether every destination accepts a test message",
    ("fail", "skip"),
    "correct the URL, invite the bot into the channel, or allow egress to it (NetworkPolicy, proxy)",
)
CHECKS = (ANYBODY, UNDERSTOOD, COMPLETE, SENT)


def look(installation: Installation) -> Iterator[Finding]:
    """Check the destinations, and send a test message if asked to."""
    keep_secrets_out_of_logs()
    urls, of_teams = installation.settings.environment.destinations()
    destinations = [*opened(urls), *(d for team, told in of_teams.items() for d in opened(told, f"of team {team} "))]
    yield anybody(len(urls), len(of_teams))
    wrong = check_every_destination(urls, of_teams)
    yield from (UNDERSTOOD.failed(said) for said in wrong)
    if destinations and not wrong:
        yield UNDERSTOOD.passed(f"{some(len(destinations), 'destination')}: {few(d.name for d in destinations)}")
    odd = [f"{destination.name}: {said}" for destination in destinations for said in oddities(destination)]
    yield from (COMPLETE.warned(said) for said in odd)
    if destinations and not odd:
        yield COMPLETE.passed("their URLs are complete")
    yield from tried(destinations, wanted=installation.send_test_message)


def anybody(everybody: int, teams: int) -> Finding:
    """Judge the number of destinations for all messages, and of teams with their own."""
    beside = f", and those of {some(teams, 'team')}" if teams else ""
    if not everybody:
        return ANYBODY.warned(
            f"GPU_AUTOSCALER_NOTIFY_URLS is not set: messages go {'to teams' if teams else 'to the log'} only"
        )
    return ANYBODY.passed(f"{some(everybody, 'destination')} for all messages{beside}")


def tried(destinations: Sequence[Destination], *, wanted: bool) -> Iterator[Finding]:
    """Send a test message to each of *destinations*, one by one, if it is *wanted*."""
    if not wanted:
        yield SENT.skipped("not requested (--send-test-message)")
    elif not destinations:
        yield SENT.skipped("there is no destination")
    else:
        for destination in destinations:
            error = destination.send(TEST, Severity.INFO)
            yield SENT.failed(error) if error else SENT.passed(f"{destination.name} accepted the test message")


AREA = Area(
    name="messages",
    source="the destinations of messages",
    checks=CHECKS,
    look=look,
    remedy="check GPU_AUTOSCALER_NOTIFY_URLS and GPU_AUTOSCALER_TEAM_NOTIFY_URLS",
    timeout=120,
)
