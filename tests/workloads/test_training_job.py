"""The training script of the example, as a process: stopped in the middle it goes on, and ends as if it never was."""

import importlib.util
import json
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from receiver.core.scaling.retirement import DRAIN_WITHIN
from tests.workloads.files import WORKLOADS, of_kind

SCRIPT = WORKLOADS / "examples" / "train.py"
STEPS = "50000"
DEADLINE = 60.0
[JOB] = [o.body for o in of_kind("Job") if o.body["metadata"]["name"] == "train"]
SPEC = JOB["spec"]
POD = SPEC["template"]["spec"]
[CONTAINER] = POD["containers"]


def command(checkpoint: Path, *more: str) -> list[str]:
    """Return how the script is started; *more* goes before what is the same for all."""
    return [sys.executable, str(SCRIPT), "--checkpoint", str(checkpoint), "--steps", STEPS, *more]


def ended(checkpoint: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the script to its end."""
    return subprocess.run(command(checkpoint, *more), capture_output=True, text=True, timeout=DEADLINE, check=False)


def stopped_in_the_middle(checkpoint: Path, how: signal.Signals) -> tuple[int, str]:
    """Start the script, send *how* once it has saved for the first time; return its exit code and what it printed."""
    # Saves so often that it cannot be through before the signal arrives.
    with subprocess.Popen(command(checkpoint, "--save-every", "1"), stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + DEADLINE
        while not checkpoint.exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.005)
        process.send_signal(how)
        said, _ = process.communicate(timeout=DEADLINE)
    return process.returncode, said


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run that nobody stops ends with."""
    whole = ended(tmp_path_factory.mktemp("whole") / "train.json")
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.splitlines()[-1].startswith(f"done after {STEPS} steps: slope ")
    return whole.stdout.splitlines()[-1]


def test_a_run_that_is_stopped_resumes_and_ends_with_the_same_result(tmp_path: Path, uninterrupted: str) -> None:
    checkpoint = tmp_path / "train.json"
    code, _ = stopped_in_the_middle(checkpoint, signal.SIGTERM)
    assert code == 143  # with 0 the pod would count as succeeded, and the Job as done
    reached = json.loads(checkpoint.read_text())["done"]
    assert 0 < reached < int(STEPS)
    resumed = ended(checkpoint)
    assert resumed.returncode == 0
    assert f"resumed at step {reached}" in resumed.stdout
    assert resumed.stdout.splitlines()[-1] == uninterrupted


def test_a_run_whose_node_vanishes_has_a_whole_checkpoint_and_ends_with_the_same_result(
    tmp_path: Path, uninterrupted: str
) -> None:
    checkpoint = tmp_path / "train.json"
    assert stopped_in_the_middle(checkpoint, signal.SIGKILL)[0] == -signal.SIGKILL
    assert ended(checkpoint).stdout.splitlines()[-1] == uninterrupted


def test_a_crash_in_the_middle_of_a_save_leaves_the_checkpoint_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("train", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    train: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train", train)  # dataclasses look their module up
    spec.loader.exec_module(train)

    def torn(_: object, file: IO[str]) -> None:
        file.write('{"seed": 1, "do')
        file.flush()
        raise OSError("the node is gone")

    checkpoint = tmp_path / "train.json"
    state, numbers = train.load(checkpoint, 1)
    train.step(state, numbers)
    train.save(checkpoint, state, numbers)
    train.step(state, numbers)
    monkeypatch.setattr(train.json, "dump", torn)
    with pytest.raises(OSError, match="the node is gone"):
        train.save(checkpoint, state, numbers)
    assert train.load(checkpoint, 1)[0].done == 1


def test_a_finished_run_that_starts_again_trains_no_further(tmp_path: Path, uninterrupted: str) -> None:
    checkpoint = tmp_path / "train.json"
    ended(checkpoint)
    assert ended(checkpoint).stdout.splitlines() == [f"resumed at step {STEPS}", uninterrupted]


def test_the_checkpoint_of_another_run_ends_the_job_at_once(tmp_path: Path) -> None:
    checkpoint = tmp_path / "train.json"
    ended(checkpoint)
    other = ended(checkpoint, "--seed", "2")
    assert other.returncode == 2
    [fail] = [rule for rule in SPEC["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
    assert fail["onExitCodes"] == {"containerName": CONTAINER["name"], "operator": "In", "values": [2]}


def test_an_eviction_uses_up_no_retry_and_is_looked_at_before_the_exit_code() -> None:
    first = SPEC["podFailurePolicy"]["rules"][0]
    assert first == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert POD["restartPolicy"] == "Never"  # Kubernetes takes no podFailurePolicy with another one
    assert SPEC["podReplacementPolicy"] == "Failed"  # no two pods on one volume


def test_the_pod_has_time_to_save_and_not_more_than_the_drain_waits_for() -> None:
    grace = timedelta(seconds=POD["terminationGracePeriodSeconds"])
    assert timedelta(seconds=30) < grace < DRAIN_WITHIN


def test_the_job_runs_the_script_and_keeps_its_checkpoint_on_the_volume() -> None:
    volumes = {v["name"]: v for v in POD["volumes"]}
    mounts = {m["mountPath"]: volumes[m["name"]] for m in CONTAINER["volumeMounts"]}
    program, script, flag, checkpoint, *_ = CONTAINER["command"]
    [claim] = [o.body for o in of_kind("PersistentVolumeClaim")]
    assert (program, Path(script).name, flag) == ("python3", SCRIPT.name, "--checkpoint")
    assert mounts[str(Path(script).parent)]["configMap"] == {"name": "train"}
    assert mounts[str(Path(checkpoint).parent)]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
