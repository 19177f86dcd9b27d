"""docs/evidence.md: its figures are those that the benchmarks stored."""

import csv
import json
from functools import cache
from typing import Any

from tests.docs.pages import ROOT, headings, section, table, text_of
from tests.lint import none_of

PAGE = text_of("docs/evidence.md")
# The rows of the first table and the case of each in policy.json.
CASES = {
    "8 GPUs, started hours": "hour, 8-GPU nodes",
    "1 GPU, started hours": "hour, 1-GPU nodes",
    "8 GPUs, seconds": "second, 8-GPU nodes",
    "pools of 1, 2, 4 and 8 GPUs; the peer on one of 8, started hours": "hour, nodes of 1, 2, 4 and 8 GPUs",
}
PEERS = {
    "Cluster Autoscaler, nodes removed after 1 minute": "cluster-autoscaler-1m",
    "Cluster Autoscaler, nodes removed after 30 minutes": "cluster-autoscaler-30m",
    "Karpenter, `WhenEmpty`": "karpenter-when-empty",
    "always on": "always-on",
}


@cache
def figures(name: str) -> Any:
    """The figures of the benchmark *name*."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))["figures"]


def means(case: str) -> dict[str, Any]:
    return {mean["policy"]: mean for mean in figures("policy")[case]["means"]}


def missing(part: str, *sentences: str) -> list[str]:
    """Those of *sentences* that the section *part* does not have."""
    text = " ".join(section(PAGE, part).split())
    return [sentence for sentence in sentences if sentence not in text]


def test_the_ten_invariants_are_those_of_the_tests() -> None:
    told = [line for line in section(PAGE, "Invariants").splitlines() if line[:1].isdigit()]
    tested = headings(text_of("tests/README.md"), 3)
    assert (
        [line.split()[0] for line in told] == [title.split()[0] for title in tested] == [f"{n}." for n in range(1, 11)]
    )


def test_the_runs_with_a_broken_write_are_counted() -> None:
    rows = csv.reader((ROOT / "docs" / "enumerated-faults.csv").read_text(encoding="utf-8").splitlines())
    head, *writes = list(rows)
    assert len(head[3:]) == 14
    runs = sum(int(count) for write in writes for count in write[3:] if count.isdigit())
    assert f"none in {runs:,} runs" in section(PAGE, "Invariants")


def test_cost_and_wait_are_those_of_the_replayed_traces() -> None:
    rows = table(section(PAGE, "Cost and wait"))
    assert [f"{nodes}, {billed}" for nodes, billed, *_ in rows] == list(CASES)
    for row, case in zip(rows, CASES.values(), strict=True):
        ours = means(case)["gpu-autoscaler"]
        better = f"{ours['better_on_both']} of {ours['traces']}"
        assert row[2:] == [f"{ours['cost']:.3f}", f"{ours['wait']:.3f}", better, f"{ours['most_starts']:.2f}"]
        assert (ours["kills"], ours["jobs_lost"]) == (0, 0)


def test_the_longest_wait_beside_the_peer_is_that_of_one_trace() -> None:
    waits: dict[str, dict[str, float]] = {}
    for run in figures("policy")["hour, nodes of 1, 2, 4 and 8 GPUs"]["traces"]:
        waits.setdefault(run["trace"], {})[run["name"]] = run["wait_mean_s"] + 1
    most = max(trace["gpu-autoscaler"] / trace["cluster-autoscaler"] for trace in waits.values())
    assert not missing("Cost and wait", f"waits up to {most:.1f} times as long")


def test_the_peers_have_the_figures_of_the_first_case() -> None:
    part = section(PAGE, "Cost and wait")
    rows = table(part[part.index("Others on the nodes") :])
    assert [row[0] for row in rows] == list(PEERS)
    expected = [means("hour, 8-GPU nodes")[name] for name in PEERS.values()]
    assert [row[1:] for row in rows] == [[f"{peer['cost']:.3f}", f"{peer['wait']:.3f}"] for peer in expected]


def test_the_reaction_is_the_measured_one() -> None:
    for every, *measured in table(section(PAGE, "Reaction")):
        interval = every.replace(" ", "")
        both = [figures(f"{name}-{interval}") for name in ("reaction", "reaction-alert")]
        seconds = [run[percentile] for run in both for percentile in ("p50", "p95")]
        none_of(f"{interval}: {text}, {value}" for text, value in zip(measured, seconds, strict=True)
                if abs(float(text.removesuffix(" s")) - value) > 0.0051)  # fmt: skip


def test_webhook_memory_and_start_are_the_measured_ones() -> None:
    webhook, slow = figures("webhook")["webhook"], figures("overload")
    health = slow["stuck_store"]["health"]["longest_ms"] / 1000
    assert not missing(
        "Webhook and overload",
        f"get {webhook['per_second']:.0f} answers a second, with a p99 of {webhook['p99_ms']:.1f} ms",
        f"p99 is {slow['slow_clients']['p99_ms']:.0f} ms",
        f"`/healthz` takes {health:.1f} s at most",
    )
    memory, rest, start = figures("memory"), figures("rest"), figures("startup")
    assert not missing(
        "Memory",
        f"uses {memory['idle']['together']:.0f} MB idle and {memory['loaded']['together']:.0f} MB loaded",
        f"makes {rest['calls_per_minute']} calls of the Kubernetes API a minute",
        f"uses {rest['memory']['together']:.0f} MB (`rest`)",
        f"ready {start['new store']['p50']:.1f} s after its start with a new store",
        f"{start['own store']['p50']:.1f} s with its own",
    )


def test_the_size_of_a_step_is_the_measured_one() -> None:
    def row(measured: dict[str, float]) -> list[str]:
        seconds = measured["median_seconds"]
        step = f"{seconds:.1f} s" if seconds >= 1 else f"{float(f'{seconds * 1000:.2g}'):g} ms"
        return [
            *(f"{measured[name]:g}" for name in ("pools", "nodes", "pending")),
            step,
            f"{measured['megabytes']:.0f}",
        ]

    assert table(section(PAGE, "Size")) == [row(measured) for measured in figures("scale")["sqlite"]]


def test_the_cost_of_the_rules_is_the_measured_one() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "rules.json").read_text(encoding="utf-8"))
    few, many = (100 * stored["nodes"][nodes]["share_of_a_core"] for nodes in ("63", "500"))
    assert not missing(
        "What the rules cost Prometheus",
        f"{few:.1f} % of a core with 63 nodes of eight GPUs, {many:.1f} % with 500",
        f"The bound is {stored['bound_share']:.0%}".replace("%", " %"),
    )
