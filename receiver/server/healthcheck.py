"""Health check for container engines: `python -m receiver.server.healthcheck`.

It requests ``/healthz`` on the local port of ``GPU_AUTOSCALER_LISTEN``. It imports only the standard library,
because it runs twice a minute.
"""

import http.client
import os
import ssl
import sys
from collections.abc import Mapping

TIMEOUT_SECONDS = 5.0
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (connected to, not listened on)


def main() -> int:
    """Print the answer of ``/healthz``. Returns 0 if its status is 200, else 1."""
    try:
        status, body = asked(os.environ)
    except (OSError, http.client.HTTPException) as error:
        status, body = 0, f"no answer from /healthz: {error}"
    sys.stdout.write(f"{body}\n")
    return 0 if status == http.HTTPStatus.OK else 1


def asked(environ: Mapping[str, str]) -> tuple[int, str]:
    """Return status and body of ``/healthz``. Raises OSError, HTTPException. The certificate is not verified, as in
    the kubelet's probes: it is for a name, and this connects to a local address."""
    host, _, port = (environ.get("GPU_AUTOSCALER_LISTEN", "").strip() or "0.0.0.0:8080").rpartition(":")
    host = host.strip("[]")
    where = _EVERYWHERE.get(host, host)
    connection = http.client.HTTPConnection(where, int(port), timeout=TIMEOUT_SECONDS)
    if environ.get("GPU_AUTOSCALER_TLS_CERT_FILE", "").strip():
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(where, int(port), timeout=TIMEOUT_SECONDS, context=context)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace").strip()
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
