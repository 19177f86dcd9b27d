"""Where messages to people go: whether there is anybody, whether the addresses can be used, and a test on request."""

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
from receiver.core.notices.sentences import Severity
from receiver.doctor.checks import Area, Check, Finding, Installation, few

TEST = Message(
    title="Test message of the GPU autoscaler",
    body="Somebody asked `gpu-autoscaler doctor` whether messages arrive here. Nothing is wrong, nothing need be done.",
)

ANYBODY = Check(
    "messages.destinations",
    "whether anybody is told: at least one destination for what is about no team",
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
    "whether destinations at Slack and Telegram say in which channel or chat",
    ("warn",),
    "write the channel behind the token: slack://xoxb-.../#CHANNEL, tgram://TOKEN/CHAT_ID",
)
SENT = Check(
    "messages.test_message",
    "with `--send-test-message`: whether every destination takes a test message",
    ("fail", "skip"),
    "correct the URL, invite the bot into the channel, or let this pod reach it (egress of the NetworkPolicy, proxy)",
)
CHECKS = (ANYBODY, UNDERSTOOD, COMPLETE, SENT)


def look(installation: Installation) -> Iterator[Finding]:
    """Yield what the destinations of the environment come to, and send to them where that was asked for."""
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
        yield COMPLETE.passed("nothing is missing in their addresses")
    yield from tried(destinations, wanted=installation.send_test_message)


def anybody(everybody: int, teams: int) -> Finding:
    """Judge how many destinations there are for everybody, and of how many teams."""
    beside = f", and those of {some(teams, 'team')}" if teams else ""
    if not everybody:
        return ANYBODY.warned(f"GPU_AUTOSCALER_NOTIFY_URLS is not set: nobody is told{' but teams' if teams else ''}")
    return ANYBODY.passed(f"{some(everybody, 'destination')} for everybody{beside}")


def tried(destinations: Sequence[Destination], *, wanted: bool) -> Iterator[Finding]:
    """Yield what became of a test message to each of *destinations*, one by one, if it is *wanted*."""
    if not wanted:
        yield SENT.skipped("not asked for (--send-test-message)")
    elif not destinations:
        yield SENT.skipped("there is no destination")
    else:
        for destination in destinations:
            error = destination.send(TEST, Severity.INFO)
            yield SENT.failed(error) if error else SENT.passed(f"{destination.name} took the test message")


AREA = Area(
    name="messages",
    source="the destinations of messages",
    checks=CHECKS,
    look=look,
    remedy="look at GPU_AUTOSCALER_NOTIFY_URLS and GPU_AUTOSCALER_TEAM_NOTIFY_URLS",
    timeout=120,
)
