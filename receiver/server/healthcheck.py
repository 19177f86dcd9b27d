"""Whether the server in this container is healthy: `python -m receiver.server.healthcheck`, for container engines.

It asks ``/healthz`` on the port that ``GPU_AUTOSCALER_LISTEN`` names, on this machine. It imports the standard library
alone: it runs twice a minute for as long as the container lives.
"""

import http.client
import os
import ssl
import sys
from collections.abc import Mapping

TIMEOUT_SECONDS = 5.0
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (asked here, not listened on)


def main() -> int:
    """Print what ``/healthz`` answered. Returns 0 if that was 200, else 1."""
    try:
        status, said = asked(os.environ)
    except (OSError, http.client.HTTPException) as error:
        status, said = 0, f"no answer from /healthz: {error}"
    sys.stdout.write(f"{said}\n")
    return 0 if status == http.HTTPStatus.OK else 1


def asked(environ: Mapping[str, str]) -> tuple[int, str]:
    """Return status and body of ``/healthz``. Raises OSError, HTTPException.

    The certificate is not checked, as the kubelet does not for its probes: it is for a name, and we ask an address of
    our own machine.
    """
    host, _, port = (environ.get("GPU_AUTOSCALER_LISTEN", "").strip() or "0.0.0.0:8080").rpartition(":")
    host = host.strip("[]")
    where = _EVERYWHERE.get(host, host)
    connection = (
        http.client.HTTPSConnection(where, int(port), timeout=TIMEOUT_SECONDS, context=_unchecked())
        if environ.get("GPU_AUTOSCALER_TLS_CERT_FILE", "").strip()
        else http.client.HTTPConnection(where, int(port), timeout=TIMEOUT_SECONDS)
    )
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace").strip()
    finally:
        connection.close()


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    sys.exit(main())
