"""Which host a browser may have asked for.

A page of an attacker can turn its own name to our address and read us through the browser of somebody inside (DNS
rebinding): the browser then asks for the attacker's host. Names that no attacker owns are taken as they are.
"""

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

# Names of one word and below these are given inside a network and in no public zone (RFC 6761, RFC 6762, RFC 8375;
# .internal is reserved by ICANN; .svc is Kubernetes').
INSIDE = (".svc", ".local", ".localhost", ".internal", ".home.arpa")
_PORT = re.compile(r":\d{1,5}\Z")


def is_ours(host: str, public_url: str | None, names: Collection[str]) -> bool:
    """True when *host* (the header, with or without a port) is one that people of ours use.

    That is an address, a name that only a network inside gives, the host of *public_url*, or one of *names*.
    """
    name = _PORT.sub("", host).lower().rstrip(".")
    if not name or "." not in name or name.endswith(INSIDE) or name in names:
        return True
    ours = urlsplit(public_url or "").hostname
    return name == ours or _is_address(name.strip("[]"))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
