"""Runs all areas in parallel, each with a timeout. No finding contains a secret of the environment."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Thread
from time import monotonic
from urllib.parse import unquote, urlsplit

from receiver.config.environment import SECRET, EnvironmentReading
from receiver.doctor import (
    alertmanager,
    civo,
    configuration,
    kubernetes,
    kueue,
    messages,
    prometheus,
    server,
    store,
    telemetry,
)
from receiver.doctor.checks import Area, Finding, Installation
from receiver.ports import TryLater, WontWork

AREAS: tuple[Area, ...] = (
    configuration.AREA,
    civo.AREA,
    kubernetes.AREA,
    kueue.AREA,
    prometheus.AREA,
    prometheus.RULES,
    telemetry.AREA,
    alertmanager.AREA,
    messages.AREA,
    store.AREA,
    server.AREA,
)
HIDE_FROM = 8  # characters; shorter words are not credentials and may occur in any sentence
SAID_OF_ERROR = 300  # characters of an unexpected error


@dataclass(slots=True)
class Visit:
    """A run of an area; *ended* once `Area.look` has returned."""

    area: Area
    found: list[Finding] = field(default_factory=list)
    ended: bool = False

    def run(self, installation: Installation) -> None:
        """Collect the findings, those before an error included."""
        area = self.area
        try:
            self.found.extend(area.look(installation))
        except (TryLater, WontWork) as error:
            self.found.append(area.answers.failed(f"{area.source}: {error}"))
        except Exception as error:  # noqa: BLE001 (a bug in one area must not hide the others)
            problem = f"{area.source}: the check itself has a bug: {type(error).__name__}: {str(error)[:SAID_OF_ERROR]}"
            remedy = "report this with the version; use `--only` for the other areas"
            self.found.append(area.answers.failed(problem, remedy))
        self.ended = True


def go_round(areas: Sequence[Area], installation: Installation) -> list[tuple[Area, list[Finding]]]:
    """Run all *areas* and return their findings, in their order. Never raises what an area raises."""
    secrets = secrets_of(installation)
    visits = [Visit(area) for area in areas]
    threads = [Thread(target=v.run, args=(installation,), name=f"doctor-{v.area.name}", daemon=True) for v in visits]
    began = monotonic()
    for thread in threads:
        thread.start()
    findings_by_area = []
    for visit, thread in zip(visits, threads, strict=True):
        area = visit.area
        thread.join(max(0.0, began + area.timeout - monotonic()))
        late = area.answers.failed(f"{area.source} did not answer all calls within {area.timeout:g} s")
        findings = [*visit.found, *([] if visit.ended else [late])]
        findings_by_area.append((area, [hidden(finding, secrets) for finding in findings]))
    return findings_by_area


def secrets_of(installation: Installation) -> frozenset[str]:
    """Return the secrets of *installation*: those of the environment, and passwords in URLs of the file."""
    configuration = installation.settings.configuration
    passwords = [
        urlsplit(url).password or "" for url in (configuration.prometheus.url or "", *configuration.alertmanager.urls)
    ]
    return secrets_in(installation.environ) | _long_enough(w for p in passwords for w in (p, unquote(p)))


def secrets_in(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the secrets in *environ* and its files, and each word and password in them."""
    reading, fragments = EnvironmentReading(environ), set()
    for name in SECRET:
        secret = reading.value(name)
        for word in (secret, *secret.split()):
            password = word.partition("://")[2].rpartition("@")[0].partition(":")[2]
            fragments |= {word, password, unquote(password)}  # a server may quote either spelling
    return _long_enough(fragments)


def _long_enough(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word for word in words if len(word) >= HIDE_FROM)


def hidden(finding: Finding, secrets: Collection[str]) -> Finding:
    """Return *finding* with *secrets* replaced by stars."""
    message, remedy = finding.said, finding.remedy
    for secret in sorted(secrets, key=len, reverse=True):
        message, remedy = message.replace(secret, "***"), remedy.replace(secret, "***")
    return replace(finding, said=message, remedy=remedy)
