"""Pages and API in the configuration file: who may read them, under which names, and which proxy names people.

The text below a field is its row in docs/configuration.md (`make generate`).
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network
from typing import Annotated

from receiver.config import values
from receiver.config.values import Patterned, Section, Wrong, text

Network = IPv4Network | IPv6Network


def network(value: object) -> Network:
    """Return an address or a range of addresses in CIDR notation; raise Wrong."""
    cidr = text(value)
    try:
        ip_range = ip_network(cidr, strict=False)
    except ValueError as error:
        raise Wrong(f'"{cidr}" is not a range of addresses', "write it as 10.0.0.0/8 or fd00::/8") from error
    if ip_range.network_address != ip_interface(cidr).ip:
        raise Wrong(f'"{cidr}" has host bits set', f"write {ip_range}")
    if ip_range.prefixlen == 0:
        raise Wrong(f'"{cidr}" trusts every client to name itself', "write the addresses of the proxy alone")
    mapped = getattr(ip_range.network_address, "ipv4_mapped", None)
    if mapped is not None:  # a peer's address is compared as IPv4
        raise Wrong(f'"{cidr}" is a range of IPv4 in IPv6', f"write {mapped}/{ip_range.prefixlen - 96}")
    return ip_range


class ReadAccess(StrEnum):
    """Access to pages and API: everyone who reaches the port, or holders of the reader's or operator's token."""

    OPEN = "open"
    TOKEN = "token"  # noqa: S105 (the word of the file, no secret)


def header_name(value: object) -> str:
    """Return the name of a request header that may hold a person's name; raise Wrong."""
    header = text(value)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", header) or header.lower() in NOT_NAMES:
        raise Wrong(f'"{header}" is not a header that can hold a name', "write one such as X-Forwarded-User")
    return header


NOT_NAMES = ("authorization", "connection", "content-length", "content-type", "cookie", "host", "origin")
HeaderName = Annotated[
    str, Patterned(header_name, pattern="[A-Za-z][A-Za-z0-9-]{0,63}", reserved=f"(?i:{'|'.join(NOT_NAMES)})")
]
_ADDRESS = r"[0-9]{1,3}([.][0-9]{1,3}){3}|([0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f.:]*(%[^/\s]+)?"
Proxies = Annotated[Network, Patterned(network, pattern=f"({_ADDRESS})(/[0-9.]+)?")]


class WebSpec(Section):
    reading: ReadAccess = ReadAccess.OPEN
    """who may read pages and API: everyone, or holders of a [token](operations.md#who-may-read-who-may-act)"""
    hosts: tuple[values.ObjectName, ...] = ()
    """further host names of the pages ([why](security.md#pages-and-api))"""
    user_header: HeaderName | None = None
    """request header with the person's name, set by a proxy; [it grants nothing](security.md#pages-and-api)"""
    trusted_proxies: tuple[Proxies, ...] = ()
    """addresses of those proxies, such as `10.0.0.0/8`"""

    def contradictions(self) -> Iterator[Wrong]:
        if self.user_header is not None and not self.trusted_proxies:
            remedy = "add trusted_proxies with the proxy's addresses, such as 10.0.0.0/8"
            yield Wrong("counts only from trusted proxies, and there are none", remedy, ("user_header",))
