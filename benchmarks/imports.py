"""Reading traces: how long a large file of each form takes and how much memory, and a month out of Prometheus.

Each file is read in a process of its own, for its own peak of resident memory. The month is written into a real
Prometheus as one that scrapes kube-state-metrics once a minute has it; a pod's object stays an hour after its end.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.figures import version_of
from benchmarks.month import a_month
from demo.configs import ROOT, plain_environment
from demo.processes import Process, answers, free_port
from demo.stack import binary
from receiver.cli.replay_run import Remembered, trace_from_file, trace_from_prometheus
from receiver.replay.traces.trace import TraceReading

MEGABYTES = 20
PODS = (100, 1_000)
START = datetime(2026, 3, 1, tzinfo=UTC)
MONTH = timedelta(days=30)
SCRAPE = 60
LINGERS = 3600
KEPT_FOR_EVER = "--storage.tsdb.retention.time=100y"


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure and return the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [_read(form, folder, say) for form in WRITERS]
        history = [_month(pods, folder / f"{pods}", say) for pods in PODS]
    return {"files": files, "history": history, "prometheus": version_of("prometheus")}


def _read(form: str, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    path = folder / f"trace.{form}"
    with path.open("w", encoding="utf-8") as file:
        for part in WRITERS[form]():
            file.write(part)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.imports", str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    figures = {"form": form, "megabytes": MEGABYTES, **json.loads(done.stdout)}
    say(f"{form}: {MEGABYTES} MB with {figures['jobs']} jobs in {figures['cpu_s']} s of CPU, {figures['peak_mb']} MB")
    return figures


def measure(path: Path) -> dict[str, Any]:
    """Read the trace at *path* in this process."""
    begun = time.process_time()
    jobs = len(trace_from_file(path, TraceReading()).jobs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # kilobytes on Linux
    return {"jobs": jobs, "cpu_s": round(time.process_time() - begun, 2), "peak_mb": peak}


def _tidy() -> Iterator[str]:
    yield "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod,user_or_team,gpu_type,gpu_util\n"
    yield from _until_full(lambda n: f"application_{n},{n * 3},{n % 7200},8,1,8,team-{n % 9},L40S,0.{n % 99}\n")


def _kubernetes() -> Iterator[str]:
    """A pod in three has GPUs, and each carries what kubectl carries, mostly managed fields."""
    yield '{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Service"}\n'

    def line(number: int) -> str:
        limits = {"nvidia.com/gpu": "8"} if number % 3 == 0 else {}
        pod = {
            "kind": "Pod",
            "metadata": {
                "name": f"train-{number}",
                "namespace": "ml",
                "uid": f"{number}",
                "creationTimestamp": "2026-03-02T09:00:00Z",
                "managedFields": ["f:spec " * 500],
            },
            "spec": {"nodeName": "n", "containers": [{"resources": {"limits": limits}}]},
            "status": {
                "phase": "Succeeded",
                "startTime": "2026-03-02T09:05:00Z",
                "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-03-02T10:05:00Z"}}}],
            },
        }
        return f",{json.dumps(pod, indent=4)}\n"

    yield from _until_full(line)
    yield "]}\n"


WRITERS: dict[str, Callable[[], Iterator[str]]] = {"csv": _tidy, "kubernetes": _kubernetes}


def _until_full(line: Callable[[int], str]) -> Iterator[str]:
    written = number = 0
    while written < MEGABYTES * 1_000_000:
        text = line(number)
        written, number = written + len(text), number + 1
        yield text


def _month(pods: int, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    folder.mkdir()
    page = folder / "scraped.txt"
    with page.open("w", encoding="utf-8") as file:
        samples = sum(file.write(part) > 0 for part in _scraped(pods))
    promtool = [binary("promtool"), "tsdb", "create-blocks-from", "--max-block-duration=744h", "openmetrics"]
    subprocess.run([*promtool, str(page), str(folder / "data")], check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("{}\n", encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}", KEPT_FOR_EVER]
    server = Process(
        "prometheus",
        [binary("prometheus"), f"--web.listen-address={address}", *arguments],
        answers(f"http://{address}/-/ready"),
        folder / "prometheus.log",
        plain_environment(),
        ROOT,
    )
    server.start()
    try:
        asked = Remembered(
            url=f"http://{address}",
            since=START,
            until=START + MONTH,
            step=timedelta(seconds=SCRAPE),
            timeout=timedelta(minutes=1),
        )
        begun, used = time.perf_counter(), time.process_time()
        jobs = len(trace_from_prometheus(asked, TraceReading()).jobs)
        took, cpu = time.perf_counter() - begun, time.process_time() - used
    finally:
        server.stop()
    say(f"prometheus: a month with {pods} pods ({samples} samples) in {took:.1f} s, {cpu:.1f} s of CPU here")
    return {"pods": pods, "samples": samples, "jobs": jobs, "seconds": round(took, 1), "cpu_s": round(cpu, 2)}


def _scraped(pods: int) -> Iterator[str]:
    """Yield the samples of a month, in order of time."""
    dice, first = Random(pods), int(START.timestamp())
    last = first + int(MONTH.total_seconds())
    there: dict[int, list[tuple[str, int, int, int]]] = {}
    for number, job in enumerate(a_month(pods, 1, START)):
        created = int(job.submit_at.timestamp())
        begun = created + dice.randrange(600)
        ended = begun + max(1, int(job.duration.total_seconds()))
        named = f'job="kube-state-metrics",instance="ksm",namespace="ml",pod="p-{number}",uid="u-{number}"'
        for at in range(-(-created // SCRAPE) * SCRAPE, min(ended + LINGERS, last) + 1, SCRAPE):
            there.setdefault(at, []).append((named, created, begun, ended))
    for at in range(first, last + 1, SCRAPE):
        yield f'up{{job="kube-state-metrics",instance="ksm"}} 1 {at}\n'
        for known in there.pop(at, ()):
            yield from (f"{text} {at}\n" for text in _of_pod(*known, at))
    yield "# EOF\n"


def _of_pod(named: str, created: int, begun: int, ended: int, at: int) -> Iterator[str]:
    phase = "Succeeded" if at >= ended else "Running" if at >= begun else "Pending"
    yield f'kube_pod_container_resource_requests{{{named},container="c",resource="nvidia_com_gpu"}} 1'
    yield f"kube_pod_created{{{named}}} {created}"
    yield f'kube_pod_owner{{{named},owner_kind="Job",owner_name="j",owner_is_controller="true"}} 1'
    yield from (
        f'kube_pod_status_phase{{{named},phase="{each}"}} {int(each == phase)}'
        for each in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    )
    if at >= begun:
        yield f"kube_pod_start_time{{{named}}} {begun}"
    if at >= ended:
        yield f"kube_pod_completion_time{{{named}}} {ended}"


if __name__ == "__main__":
    json.dump(measure(Path(sys.argv[1])), sys.stdout)
