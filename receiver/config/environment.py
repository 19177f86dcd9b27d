"""The environment: Civo's address, secrets, and what differs between installations.

Messages never repeat values: the mistake may be a secret in the wrong variable.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from receiver.config.values import ConfigError, Mistake, Wrong, address, nearest

CIVO_API = "https://api.civo.com"
DATABASE = "sqlite:////var/lib/gpu-autoscaler/ledger.db"
LISTEN = "0.0.0.0:8080"
SERVER = "http://127.0.0.1:8080"
SHORTEST_TOKEN = 16  # characters; shorter ones can be guessed over the network

_URL = r"[A-Za-z][A-Za-z0-9+.-]*://."
_LABEL_VALUE = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HELP = {
    "CIVO_API_KEY": "take it from the secret civo-api-access in kube-system",
    "CIVO_REGION": "take it from the secret civo-api-access in kube-system, such as LON1",
    "CIVO_CLUSTER_ID": "take it from the secret civo-api-access in kube-system",
    "GPU_AUTOSCALER_CONFIG": "set it to the path of the configuration file",
    "GPU_AUTOSCALER_WEBHOOK_TOKEN": "set it to a long random word, the same in Alertmanager's webhook_configs",
}
SECRET = (
    "CIVO_API_KEY",
    "GPU_AUTOSCALER_WEBHOOK_TOKEN",
    "GPU_AUTOSCALER_OPERATOR_TOKEN",
    "GPU_AUTOSCALER_READER_TOKEN",
    "GPU_AUTOSCALER_DATABASE_URL",
    "GPU_AUTOSCALER_NOTIFY_URLS",
    "GPU_AUTOSCALER_TEAM_NOTIFY_URLS",
)
OPTIONAL = (
    *SECRET[2:],
    "CIVO_API_URL",
    "GPU_AUTOSCALER_LISTEN",
    "GPU_AUTOSCALER_TLS_CERT_FILE",
    "GPU_AUTOSCALER_TLS_KEY_FILE",
    "GPU_AUTOSCALER_URL",
    "KUBECONFIG",
)
# Not set where a Secret that Kubernetes mounted (its folder holds ``..data``) lacks the key.
MAY_BE_MISSING = ("GPU_AUTOSCALER_NOTIFY_URLS", "GPU_AUTOSCALER_TEAM_NOTIFY_URLS", "GPU_AUTOSCALER_READER_TOKEN")
UNREADABLE = ("names a file that cannot be read", "mount it there, readable by this process")
VARIABLES = (*_HELP, *OPTIONAL)


class CivoAccess(BaseModel):
    """The account and the cluster at Civo."""

    model_config = ConfigDict(frozen=True)

    civo_api_key: SecretStr
    civo_region: str
    civo_cluster_id: str
    civo_api_url: str = CIVO_API


class Environment(CivoAccess):
    """The environment, read and checked. Secrets print as stars.

    *webhook_tokens* are two during a rotation. *database_url* is a SQLAlchemy URL; it may hold a password, as may
    *notify_urls* (each ``URL`` or ``NAME=URL``) and, by team, *team_notify_urls*. Without *operator_token* the API is
    read-only.
    """

    model_config = ConfigDict(extra="forbid")

    webhook_tokens: tuple[SecretStr, ...]
    operator_token: SecretStr | None = None
    reader_token: SecretStr | None = None
    database_url: SecretStr = SecretStr(DATABASE)
    notify_urls: tuple[SecretStr, ...] = ()
    team_notify_urls: Mapping[str, tuple[SecretStr, ...]] = Field(default_factory=dict)
    listen: str = LISTEN
    url: str = SERVER
    kubeconfig: str | None = None

    def destinations(self) -> tuple[list[str], dict[str, list[str]]]:
        """Return the entries for all messages (``URL`` or ``NAME=URL``), and the URLs by team; they hold secrets."""
        of_teams = {team: [u.get_secret_value() for u in urls] for team, urls in self.team_notify_urls.items()}
        return [u.get_secret_value() for u in self.notify_urls], of_teams


@dataclass(slots=True)
class EnvironmentReading:
    environ: Mapping[str, str]
    mistakes: list[Mistake] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def wrong(self, name: str, problem: str, remedy: str) -> None:
        self.mistakes.append(Mistake(path=name, problem=problem, remedy=remedy))

    def value(self, name: str) -> str:
        """Return the value of *name*, stripped; a secret may also be in the file at NAME_FILE."""
        direct = self.environ.get(name, "").strip()
        file = self.environ.get(f"{name}_FILE", "").strip() if name in SECRET else ""
        if direct and file:
            self.wrong(name, f"is set and so is {name}_FILE", "set one of them")
        if direct or not file:
            return direct
        try:
            return File(file).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            if name not in MAY_BE_MISSING or not (File(file).parent / "..data").is_dir():
                self.wrong(f"{name}_FILE", *UNREADABLE)
            return ""
        except (OSError, UnicodeDecodeError):
            self.wrong(f"{name}_FILE", *UNREADABLE)
            return ""

    def required(self, name: str) -> str:
        value = self.value(name)
        if not value and not any(m.path.removesuffix("_FILE") == name for m in self.mistakes):
            self.wrong(name, "is not set", _HELP[name])
        return value

    def address(self, name: str, default: str) -> str:
        try:
            return address(self.value(name) or default, default)
        except Wrong as wrong:
            self.wrong(name, wrong.problem, wrong.remedy)
            return default

    def token(self, role: str) -> str:
        """Return a token that commands send, empty without one; note a mistake if a header cannot carry it."""
        name = f"GPU_AUTOSCALER_{role}_TOKEN"
        token = self.value(name)
        if len(token.split()) > 1 or not token.isascii():
            self.wrong(name, "contains spaces or non-ASCII characters", "set it to the server's token")
        return token

    def checked(self, value: str) -> str:
        if self.mistakes:
            raise ConfigError(self.mistakes)
        return value


def read_environment(environ: Mapping[str, str]) -> tuple[Environment | None, list[Mistake], list[str]]:
    """Return the environment (None if it cannot be used), every mistake in it, and warnings."""
    reading = EnvironmentReading(environ)
    civo = _civo(reading)
    reading.required("GPU_AUTOSCALER_CONFIG")
    webhook, operator, reader = _tokens(reading)
    database, destinations, of_teams = _database(reading), _destinations(reading), _team_destinations(reading)
    listen = _listen(reading)
    _tls(reading)
    values = {
        **civo,
        "webhook_tokens": webhook,
        "operator_token": operator or None,
        "reader_token": reader or None,
        "database_url": database,
        "notify_urls": destinations,
        "team_notify_urls": of_teams,
        "listen": listen,
        "url": reading.address("GPU_AUTOSCALER_URL", SERVER),
        "kubeconfig": reading.value("KUBECONFIG") or None,
    }
    variables = {*VARIABLES, *(f"{name}_FILE" for name in SECRET)}
    for name in sorted(environ):  # Kubernetes sets GPU_AUTOSCALER_PORT and _SERVICE_* for a Service
        if name.startswith(("GPU_AUTOSCALER_", "CIVO_")) and name not in variables:
            meant = nearest(name, variables, cutoff=0.9)
            reading.warnings += [f"{name}: unknown variable; did you mean {meant}?"] if meant else []
    if reading.mistakes:
        return None, reading.mistakes, reading.warnings
    return Environment.model_validate(values), [], reading.warnings


def _civo(reading: EnvironmentReading) -> dict[str, str]:
    """Return the fields of `CivoAccess`."""
    access = {f"civo_{name.lower()}": reading.required(f"CIVO_{name}") for name in ("API_KEY", "REGION", "CLUSTER_ID")}
    url = reading.address("CIVO_API_URL", CIVO_API)
    if url.startswith("http:") and urlsplit(url).hostname not in LOOPBACK:
        reading.warnings.append("CIVO_API_URL: is http, so the API key is sent unencrypted; use https")
    return {**access, "civo_api_url": url}


def civo_access(environ: Mapping[str, str]) -> CivoAccess:
    """Return the account and cluster for commands that ask Civo; raise ConfigError for what is not set."""
    reading = EnvironmentReading(environ)
    access = _civo(reading)
    if reading.mistakes:
        raise ConfigError(reading.mistakes)
    return CivoAccess.model_validate(access)


def server_url(environ: Mapping[str, str]) -> str:
    """Return the server's URL for commands, without a final slash; raise ConfigError if it is not a URL."""
    reading = EnvironmentReading(environ)
    return reading.checked(reading.address("GPU_AUTOSCALER_URL", SERVER))


def operator_token(environ: Mapping[str, str]) -> str:
    """Return the token for commands that change something; raise ConfigError without one, or if it is not one word."""
    reading = EnvironmentReading(environ)
    token = reading.token("OPERATOR")
    if not token and not reading.mistakes:
        reading.wrong("GPU_AUTOSCALER_OPERATOR_TOKEN", "is not set", "set it to the server's token")
    return reading.checked(token)


def reading_token(environ: Mapping[str, str]) -> str | None:
    """Return the token for commands that read: the reader's, else the operator's, else None; raise ConfigError for one
    that is not one word."""
    reading = EnvironmentReading(environ)
    return reading.checked(reading.token("READER") or reading.token("OPERATOR")) or None


def _tokens(reading: EnvironmentReading) -> tuple[list[str], str, str]:
    webhook = reading.required("GPU_AUTOSCALER_WEBHOOK_TOKEN").split()
    operator, reader = (reading.value(f"GPU_AUTOSCALER_{role}_TOKEN") for role in ("OPERATOR", "READER"))
    for role, token in (("OPERATOR", operator), ("READER", reader)):
        if len(token.split()) > 1:
            reading.wrong(f"GPU_AUTOSCALER_{role}_TOKEN", "contains white space", "set one long random word")
    for name, token, others, harm in (
        ("OPERATOR", operator, webhook, "is the webhook's token too, so senders of alerts could override decisions"),
        ("READER", reader, webhook, "is the webhook's token too, so readers could send alerts"),
        ("READER", reader, [operator], "is the operator's token too, so readers could change things"),
    ):
        if token and token in others:
            reading.wrong(f"GPU_AUTOSCALER_{name}_TOKEN", harm, "set another long random word")
    for name, tokens in (("WEBHOOK", webhook), ("OPERATOR", operator.split()), ("READER", reader.split())):
        if any(len(token) < SHORTEST_TOKEN for token in tokens):
            reading.warnings.append(short_token(name))
    return webhook, operator, reader


def short_token(name: str) -> str:
    """The warning of a token that is too short; *name* is WEBHOOK, OPERATOR or READER."""
    return f"GPU_AUTOSCALER_{name}_TOKEN: is shorter than {SHORTEST_TOKEN} characters and can be guessed"


def _database(reading: EnvironmentReading) -> str:
    """Return the store's URL. PostgreSQL's own schemes get the shipped driver."""
    name = "GPU_AUTOSCALER_DATABASE_URL"
    url = reading.value(name) or DATABASE
    scheme, separator, location = url.partition("://")
    if scheme in ("postgres", "postgresql"):
        return f"postgresql+psycopg://{location}"
    if not separator or scheme not in ("sqlite", "postgresql+psycopg"):
        remedy = "write sqlite:////PATH or postgresql+psycopg://USER:PASSWORD@HOST/NAME"
        reading.wrong(name, "is neither a SQLite nor a PostgreSQL URL", remedy)
    elif scheme == "sqlite" and location in ("", "/", "/:memory:"):
        reading.warnings.append(f"{name}: is in memory, so a restart forgets deliveries, decisions and spend")
    elif scheme == "sqlite" and not location.startswith("//"):
        reading.warnings.append(f"{name}: is relative to the working directory; four slashes make it absolute")
    return url


def _destinations(reading: EnvironmentReading) -> list[str]:
    """Return the entries, ``URL`` or ``NAME=URL``, split at white space only: URLs contain commas themselves."""
    name = "GPU_AUTOSCALER_NOTIFY_URLS"
    entries = reading.value(name).split()
    first: dict[str, tuple[int, str]] = {}
    for number, entry in enumerate(entries, start=1):
        called, url = split_name(entry)
        if not re.match(_URL, url):
            remedy = "separate Apprise URLs (such as slack://...) by spaces or lines, not by commas"
            reading.wrong(name, f"entry {number} is not a URL", remedy)
        before, known_as = first.setdefault(url, (number, called))
        if called != known_as:
            remedy = "keep one of them; a destination has one name"
            reading.wrong(name, f"entries {before} and {number} have the same URL under two names", remedy)
    return entries


def split_name(entry: str) -> tuple[str, str]:
    """Return name and URL of *entry*, ``NAME=URL`` or ``URL``: there the name is empty."""
    named = re.fullmatch(f"({_LABEL_VALUE})=({_URL}.*)", entry)
    return (named[1], named[3]) if named else ("", entry)


def _team_destinations(reading: EnvironmentReading) -> dict[str, list[str]]:
    """Return the URLs of each team, from entries ``team=URL`` separated by white space."""
    name = "GPU_AUTOSCALER_TEAM_NOTIFY_URLS"
    urls_by_team: dict[str, list[str]] = {}
    for number, entry in enumerate(reading.value(name).split(), start=1):
        team, _, url = entry.partition("=")
        if not re.fullmatch(_LABEL_VALUE, team) or not re.match(_URL, url):
            remedy = "write the value of the team label, an equals sign and an Apprise URL, such as vision=slack://..."
            reading.wrong(name, f"entry {number} is not a team with a URL", remedy)
        urls_by_team.setdefault(team, []).append(url)
    return urls_by_team


def _listen(reading: EnvironmentReading) -> str:
    listen_address = reading.value("GPU_AUTOSCALER_LISTEN") or LISTEN
    host, colon, port = listen_address.rpartition(":")
    if not colon or not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535 or (":" in host and host[0] != "["):
        remedy = "write address:port, such as 0.0.0.0:8080 or [::]:8080"
        reading.wrong("GPU_AUTOSCALER_LISTEN", "is not an address with a port", remedy)
    return f"{host or '0.0.0.0'}:{port}"  # noqa: S104 (":8080" means everywhere, as it does elsewhere)


def _tls(reading: EnvironmentReading) -> None:
    """Note mistakes in the files for https; gunicorn reads them (`receiver.server.gunicorn_conf`)."""
    names = ("GPU_AUTOSCALER_TLS_CERT_FILE", "GPU_AUTOSCALER_TLS_KEY_FILE")
    cert, key = (reading.value(name) for name in names)
    if bool(cert) != bool(key):
        reading.wrong(names[0] if key else names[1], "is not set and the other one is", "set both, or none for http")
    elif cert:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key, "")
        except (OSError, ValueError):  # an SSLError is an OSError; the key must have no password
            remedy = "mount a PEM certificate with its chain, and its key, readable by this process"
            reading.wrong(names[0], "and the key's file cannot be used together", remedy)
