"""Whether the address of a webhook is this server's, as far as an address can tell."""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from receiver.config import Settings
from receiver.doctor.alertmanager_config import HIDDEN, Webhook
from receiver.web.webhook import PATH

SERVICE = "gpu-autoscaler"  # how our manifests call the Service; a release of Helm may put something before or behind


class Whose(Enum):
    """Whose address it is."""

    OURS = "ours"
    HIDDEN = "hidden"
    PERHAPS = "perhaps"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Known:
    """Names and addresses under which this server is known, and the ports that it has on this machine."""

    hosts: Collection[str]
    ports: Collection[int]

    def whose(self, webhook: Webhook, receiver: str) -> Whose:
        """Judge the address of *webhook*; a hidden one counts by the name of its *receiver*."""
        if webhook.url.startswith(HIDDEN):
            return Whose.HIDDEN if SERVICE in receiver else Whose.OTHER
        try:
            parts = urlsplit(webhook.url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return Whose.OTHER
        if parts.path != PATH:
            return Whose.OTHER
        if _is_loopback(host):
            return Whose.OURS if port in self.ports else Whose.OTHER
        if host in self.hosts or SERVICE in host.partition(".")[0]:
            return Whose.OURS
        return Whose.PERHAPS


def known(settings: Settings) -> Known:
    """Return what the configuration says of this server's names and ports."""
    urls = [settings.environment.url, settings.configuration.public_url or ""]
    parts = [urlsplit(url) for url in urls if url]
    hosts = {(p.hostname or "").lower() for p in parts} | set(settings.configuration.web.hosts)
    ports = {p.port or (443 if p.scheme == "https" else 80) for p in parts if _is_loopback(p.hostname or "")}
    listening = settings.environment.listen.rpartition(":")[2]
    return Known(hosts={host for host in hosts if not _is_loopback(host)}, ports={*ports, int(listening)})


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
