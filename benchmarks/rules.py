"""The cost of the shipped rules: seconds of processor that Prometheus needs for all of them, in shares of a core.

A Prometheus scrapes the pages of a large cluster and evaluates the rules until their recordings exist. Then another one
serves the same database without scraping or rules, and each expression is asked alone, as its group would ask it. What
the server's process used for that, divided by the interval of the group, adds up. Windows hold the minutes of the first
part only. `PROMETHEUS` names the server; the bound is for the newest.
"""

import http.server
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from benchmarks.figures import version_of
from benchmarks.rule_pages import GROWS, pages
from demo.configs import ROOT, plain_environment
from demo.processes import Process, answers, free_port
from demo.stack import binary

RULES = ROOT / "rules"
SIZES = (63, 500)  # nodes with eight GPUs
BOUND = 0.15  # of a core, for the largest
FILLED_SECONDS = 120.0
SCRAPE_SECONDS = 15
ROUNDS, ROUND_TIMES, ROUND_SECONDS = 3, 20, 0.15  # of each expression, with garbage collected in each
SLOWEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One rule: *seconds* of processor for one evaluation, every *interval* seconds."""

    name: str
    group: str
    interval: float
    seconds: float

    @property
    def share(self) -> float:
        """The share of a core that it takes."""
        return self.seconds / self.interval


class _Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page of the job that the path names, with numbers that grew since the last scrape."""

    by_job: Mapping[str, str] = {}

    def do_GET(self) -> None:
        """Answer a scrape."""
        body = self.by_job[self.path.strip("/")].replace(f" {GROWS}\n", f" {time.time() * 1e3:.0f}\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):  # the server was stopped in the middle of a scrape
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@contextmanager
def _exporters(by_job: Mapping[str, str]) -> Iterator[str]:
    """Serve the pages *by_job*; yield the address."""
    handler = type("Handler", (_Pages,), {"by_job": by_job})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _prometheus(folder: Path, config: Mapping[str, Any]) -> Iterator[tuple[str, Process]]:
    """Start a Prometheus over the database in *folder*; yield its URL and its process."""
    file, url = folder / "prometheus.yml", f"http://127.0.0.1:{free_port()}"
    file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
    options = (f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", "--query.timeout=10m")
    command = (binary("prometheus"), *options, f"--web.listen-address={url.removeprefix('http://')}")
    process = Process("prometheus", command, answers(f"{url}/-/ready"), folder / "log", plain_environment(), folder)
    process.start(seconds=300)
    try:
        yield url, process
    finally:
        process.stop(120)


def _filled(folder: Path, nodes: int) -> float:
    """Scrape a cluster of *nodes* nodes with the rules loaded; return the last moment, in Unix seconds."""
    by_job = pages(nodes)
    with _exporters(by_job) as address:
        jobs = [
            {
                "job_name": job,
                "metrics_path": f"/{job}",
                "honor_labels": job == "kube-state-metrics",
                "static_configs": [{"targets": [address]}],
            }
            for job in by_job
        ]
        intervals = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"}
        files = [f"{RULES}/*.rules.yaml", f"{RULES}/*.alerts.yaml"]
        with _prometheus(folder, {"global": intervals, "scrape_configs": jobs, "rule_files": files}):
            time.sleep(FILLED_SECONDS)
            return time.time() - 1


def _used(process: Process) -> float:
    """Return the seconds of processor that the threads of *process* have used so far."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in threads) / 1e9


def _asked(session: requests.Session, url: str, process: Process, expr: str, at: float) -> float:
    """Return the seconds of processor that one query of *expr* takes: the mean of the best of several rounds, since
    other work on the machine only adds. Raises RuntimeError when it fails."""
    rounds = []
    for _ in range(ROUNDS):
        before, times = _used(process), 0
        while (used := _used(process) - before) < ROUND_SECONDS and times < ROUND_TIMES:
            answer = session.post(f"{url}/api/v1/query", {"query": expr, "time": f"{at:.3f}"}, timeout=600)
            if answer.status_code != requests.codes.ok:
                raise RuntimeError(f"{expr}: {answer.text}")
            times += 1
        rounds.append(used / times)
    return min(rounds)


def costs(nodes: int, say: Callable[[str], None]) -> list[Cost]:
    """Return what each rule costs in a cluster of *nodes* nodes."""
    groups = [group for path in sorted(RULES.glob("*.yaml")) for group in yaml.safe_load(path.read_text())["groups"]]
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as name:
        at = _filled(Path(name), nodes)
        with _prometheus(Path(name), {"global": {}}) as (url, process), requests.Session() as session:
            session.trust_env = False
            series = session.get(f"{url}/api/v1/status/tsdb", timeout=60).json()["data"]["headStats"]["numSeries"]
            say(f"{nodes} nodes with eight GPUs: {series} series")
            request = _asked(session, url, process, "vector(1)", at)  # a rule is evaluated without one
            return [
                Cost(
                    name=rule.get("record") or rule["alert"],
                    group=group["name"],
                    interval=_seconds(group["interval"]),
                    seconds=max(0.0, _asked(session, url, process, rule["expr"], at) - request),
                )
                for group in groups
                for rule in group["rules"]
            ]


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


def told(found: Sequence[Cost], say: Callable[[str], None]) -> dict[str, Any]:
    """Say the figures and return them."""
    whole = sum(cost.share for cost in found)
    groups = {group: sum(c.share for c in found if c.group == group) for group in dict.fromkeys(c.group for c in found)}
    slowest = sorted(found, key=lambda cost: -cost.share)[:SLOWEST]
    say(f"  all rules: {whole:.1%} of a core")
    for cost in slowest:
        say(f"  {cost.share:6.2%}  {cost.seconds * 1000:6.0f} ms every {cost.interval:3.0f} s  {cost.name}")
    return {
        "share_of_a_core": round(whole, 4),
        "groups": {name: round(share, 5) for name, share in sorted(groups.items(), key=lambda item: -item[1])},
        "slowest": {cost.name: {"ms": round(cost.seconds * 1000), "every_s": cost.interval} for cost in slowest},
    }


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure and return the result to keep; say the figures."""
    version = version_of("prometheus")
    say(f"Prometheus {version}")
    found = {str(nodes): told(costs(nodes, say), say) for nodes in SIZES}
    passed = found[str(SIZES[-1])]["share_of_a_core"] <= BOUND
    return {"prometheus": version, "bound_share": BOUND, "passed": passed, "nodes": found}
