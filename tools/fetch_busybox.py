"""Put busybox into .build/bin, to run documented commands without GNU tools: from PATH, else from Debian's package.

`make kubectl` runs it; quick when it is there. Where it cannot be had, it says so, and the test of it is skipped.
"""

import fcntl
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.private_apt import AptFailed, fetch

BUILD = Path(__file__).resolve().parent.parent / ".build"
BUSYBOX = BUILD / "bin" / "busybox"
PACKAGE = "busybox-static"


def main() -> int:
    """Fill .build/bin. Returns the exit code, which is 0 also without busybox: only one test needs it."""
    BUSYBOX.parent.mkdir(parents=True, exist_ok=True)
    with (BUILD / "busybox.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once fetch once
        if not _runs(BUSYBOX):
            found = shutil.which("busybox")
            try:
                program = Path(found).read_bytes() if found else _fetched()
            except (AptFailed, OSError) as error:
                print(f"no busybox: {error}; the quick start is not tested without GNU tools", file=sys.stderr)
                return 0
            new = BUSYBOX.with_name(".busybox")
            new.write_bytes(program)
            new.chmod(0o755)
            new.replace(BUSYBOX)
    return 0


def _runs(program: Path) -> bool:
    try:
        return subprocess.run([program, "true"], capture_output=True, timeout=60, check=False).returncode == 0
    except OSError:
        return False


def _fetched() -> bytes:
    """Return the program of the package. Raises AptFailed and OSError."""
    print(f"fetching {PACKAGE} (a package of this machine's distribution, nothing is installed)")
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="busybox-") as folder:
        fetch([PACKAGE], BUILD / "apt", Path(folder))
        [program] = [p for name in ("bin/busybox", "usr/bin/busybox") if (p := Path(folder) / name).is_file()][:1]
        return program.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
