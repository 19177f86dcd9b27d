"""A container of the image under crun: started, asked, looked at from outside, told to stop."""

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from campaigns.image.building import Built
from campaigns.image.bundle import runtime_config

# Tried inside by the image's own Python: which folders can be written to, and what each refusal is called.
WRITE = """
import errno, os, sys
for folder in sys.argv[1:]:
    try:
        with open(os.path.join(folder, ".tried"), "w"):
            pass
        os.unlink(os.path.join(folder, ".tried"))
        print(folder, "written")
    except OSError as error:
        print(folder, errno.errorcode[error.errno])
"""


class Container:
    """One container; *folder* holds its bundle, and what it prints in ``output``."""

    def __init__(
        self, built: Built, folder: Path, mounts: Mapping[str, tuple[Path, str]], environment: Mapping[str, str]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._engine, self._folder, self.name = built.engine, folder, f"{folder.name}-{time.time_ns()}"
        self._config = runtime_config(built.image, built.root, mounts, environment)
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a container of its own with *words* for command, to its end."""
        config = json.loads(json.dumps(self._config))
        config["process"]["args"] = [*config["process"]["args"][:1], *words]
        (self._folder / "config.json").write_text(json.dumps(config))
        run = self._engine.crun("run", "--bundle", str(self._folder), f"{self.name}-run")
        return subprocess.run(run, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd="/", timeout=120)

    def start(self) -> None:
        """Start it as the image says."""
        (self._folder / "config.json").write_text(json.dumps(self._config))
        run = self._engine.crun("run", "--bundle", str(self._folder), self.name)
        with (self._folder / "output").open("wb") as output:
            self._process = subprocess.Popen(run, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd="/")

    def running(self) -> bool:
        """True until it ended."""
        return self._process is not None and self._process.poll() is None

    def exec(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run *words* inside, as its user, with its variables and those of *environment*.

        crun's own exec looks for the program in the engine's file system, because the engine is in one of its own.
        """
        process = self._config["process"]
        said = dict(variable.split("=", 1) for variable in process["env"]) | environment
        who = [f"--setuid={process['user']['uid']}", f"--setgid={process['user']['gid']}"]
        joins = ["--mount", "--pid", "--ipc", "--uts", "--root", "--wd", *who]
        return subprocess.run(
            [shutil.which("nsenter") or "nsenter", "--target", str(self._pid()), *joins, "--", *words],
            env=said,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    def status(self) -> dict[str, str]:
        """The kernel's word on its first process: user, group, capabilities, whether privileges can be gained."""
        lines = Path(f"/proc/{self._pid()}/status").read_text().splitlines()
        return {name: said.strip() for name, _, said in (line.partition(":") for line in lines)}

    def writes(self, *folders: str) -> dict[str, str]:
        """What came of writing a file into each of *folders*: ``written`` or the name of the error."""
        ran = self.exec("python", "-c", WRITE, *folders)
        return dict(line.split(" ", 1) for line in ran.stdout.splitlines())

    def terminate(self, patience: float) -> tuple[int, float]:
        """SIGTERM its first process, as Kubernetes does; return exit status and seconds. Raises TimeoutExpired."""
        assert self._process is not None
        begun = time.monotonic()
        self._crun("kill", self.name, "TERM")
        return self._process.wait(patience), time.monotonic() - begun

    def output(self) -> str:
        """What it printed."""
        return (self._folder / "output").read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """End it however it is."""
        if self.running():
            subprocess.run(self._engine.crun("delete", "--force", self.name), capture_output=True, cwd="/")
            assert self._process is not None
            self._process.wait(30)

    def _pid(self) -> int:
        """Its first process as this machine counts."""
        state: dict[str, int] = json.loads(self._crun("state", self.name))
        return state["pid"]

    def _crun(self, *words: str) -> str:
        return subprocess.run(self._engine.crun(*words), capture_output=True, text=True, check=True, cwd="/").stdout
