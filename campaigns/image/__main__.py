"""Prove the image and the installation without one: ``make image-check``. It needs root and Linux, and no engine."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from campaigns.image.building import BASE, TAG, Built, build, forget
from campaigns.image.claims import Claims, tell
from campaigns.image.container import Container
from campaigns.image.surroundings import Surroundings, surroundings
from campaigns.image.tree import USER, troubles
from campaigns.image.under_systemd import started_by_systemd
from campaigns.image.without import installed
from tools.image.__main__ import ROOT, version
from tools.make_venv import NotMade
from tools.private_apt import AptFailed

GRACE = 30.0  # seconds: terminationGracePeriodSeconds of the manifests, TimeoutStopSec of the unit
INSIDE = "/etc/gpu-autoscaler"
DATA = "/var/lib/gpu-autoscaler"
CLOSED = ("/", "/etc", "/opt/gpu-autoscaler", "/opt/gpu-autoscaler/lib", "/usr", "/var", "/var/tmp", "/home")


def main() -> int:
    """Build, look at the image, run it, and print each claim with what came of it. Returns the exit code."""
    if os.geteuid() != 0:
        sys.stderr.write("the engine is unpacked and run without a daemon here, which needs root\n")
        return 1
    claims = Claims()
    begun = time.monotonic()
    (ROOT / ".build" / "image").mkdir(parents=True, exist_ok=True)  # which the engine sees
    with tempfile.TemporaryDirectory(prefix="check-", dir=(ROOT / ".build" / "image").resolve()) as scratch:
        try:
            tell("without an image")
            installed(claims, Path(scratch) / "without")
            image(claims, Path(scratch))
        except (AptFailed, NotMade, subprocess.SubprocessError, RuntimeError, OSError) as error:
            claims.holds("everything can be tried", False, error)
    tell(f"{len(claims.failed)} claims failed; {time.monotonic() - begun:.0f} s in all")
    return 1 if claims.failed else 0


def image(claims: Claims, scratch: Path) -> None:
    """Build the image, and prove what it is and does."""
    tell(f"building {TAG} on {BASE}, which is Debian's Python and not the base that the Dockerfile names")
    built = build(ROOT / ".build")
    try:
        claims.holds("the image is built without a daemon, a registry or an index", True, f"{built.seconds:.0f} s")
        claims.holds("its size", True, f"{built.sizes[1]}, of which the base {built.sizes[0]}")
        facts(claims, built)
        with surroundings() as around:
            around.write(scratch / "etc")
            served(claims, built, around, scratch)
        tell("the unit, under systemd")
        started_by_systemd(claims, built, scratch / "machine")
    finally:
        forget(built.engine)


def facts(claims: Claims, built: Built) -> None:
    """What can be said of the image without running it."""
    said, labels = built.image, built.image.labels
    claims.none_of(
        "no compiler and nothing to install with; it adds two folders to its base; files are root's but for the data",
        list(troubles(built.root, built.base)),
    )
    claims.holds("it runs as a number that is not root", said.user == f"{USER}:{USER}", said.user)
    claims.holds("the data folder is a volume", said.volumes == (DATA,), " ".join(said.volumes))
    named = labels["org.opencontainers.image.version"]
    claims.holds("its labels say the version", named == version(), named)


def served(claims: Claims, built: Built, around: Surroundings, scratch: Path) -> None:
    """Run the image as a restricted pod would, and ask it."""
    data = scratch / "data"
    data.mkdir()
    os.chown(data, USER, USER)
    mounts = {INSIDE: (scratch / "etc", "ro"), DATA: (data, "rw")}
    secrets = {
        "CIVO_API_KEY_FILE": f"{INSIDE}/civo-api-key",
        "GPU_AUTOSCALER_WEBHOOK_TOKEN_FILE": f"{INSIDE}/webhook-token",
        "GPU_AUTOSCALER_OPERATOR_TOKEN_FILE": f"{INSIDE}/operator-token",
        "KUBECONFIG": f"{INSIDE}/kubeconfig",
    }
    container = Container(built, scratch / "bundle", mounts, around.where() | secrets)
    checked = container.run("check-config")
    claims.holds(
        "`gpu-autoscaler check-config` takes file and environment",
        checked.returncode == 0,
        (checked.stdout or checked.stderr).strip().partition("\n")[0],
    )
    container.start()
    try:
        asked(claims, container, around)
    finally:
        if claims.failed:
            tell(container.output()[-4000:])
        container.end()


def asked(claims: Claims, container: Container, around: Surroundings) -> None:
    """What a container that runs does."""
    seconds, health = around.until_stepped(container.running)
    claims.holds("`/healthz` is 200 with a step behind it", True, f"after {seconds:.1f} s, {health['loop']}")
    answers = around.get("/readyz").status_code, around.deliver()
    claims.holds("`/readyz` is 200 and an alert is taken", answers == (200, 202), answers)
    claims.holds("the page is shown", "text/html" in around.get("/").headers["Content-Type"])
    kernel = container.status()
    who = {*kernel["Uid"].split(), *kernel["Gid"].split()}
    claims.holds("the kernel says so: user and group", who == {str(USER)}, " ".join(sorted(who)))
    powers = kernel["CapBnd"], kernel["NoNewPrivs"]
    claims.holds("no capability, and no way to gain one", int(powers[0], 16) == 0 and powers[1] == "1", powers)
    found = container.writes(*CLOSED)
    figure = f"{', '.join(sorted({*found.values()}))} in {len(found)} folders"
    claims.holds("the root file system is read-only", found == dict.fromkeys(CLOSED, "EROFS"), figure)
    claims.holds("the data folder and /tmp can", {*container.writes(DATA, "/tmp").values()} == {"written"})
    driver = container.exec("python", "-c", "import psycopg; print(psycopg.pq.__impl__)")
    claims.holds("the PostgreSQL driver is there", driver.stdout.strip() == "binary", driver.stdout.strip())
    health_check = container.exec("python", "-m", "receiver.server.healthcheck")
    claims.holds("the health check passes inside", health_check.returncode == 0)
    elsewhere = container.exec("python", "-m", "receiver.server.healthcheck", GPU_AUTOSCALER_LISTEN="127.0.0.1:9")
    claims.holds("and fails where nobody listens", elsewhere.returncode == 1, elsewhere.stdout.strip()[:60])
    code, seconds = container.terminate(GRACE)
    claims.holds(f"SIGTERM ends it within {GRACE:.0f} s", code == 0, f"exit {code} after {seconds:.1f} s")
    claims.holds("nothing went wrong in its log", "Traceback" not in container.output())


if __name__ == "__main__":
    sys.exit(main())
