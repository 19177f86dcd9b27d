"""`gpu-autoscaler status`, asked of a server that really listens."""

import json
from datetime import timedelta

import pytest
from click import unstyle
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.cli.status import about_status
from receiver.core.model.configuration import ConfigurationFile
from receiver.core.notices.configuration_notices import concerns_of
from receiver.core.notices.notice import Cause, Notice
from receiver.reports.picture import ConcernDocument
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.cli.asked import keep_picture
from tests.clocks import FixedClock
from tests.web.builders import A100, NOW, a_pool, an_observed

ESCAPE = "\x1b["
QUESTION = {
    "id": "l40s-removal-0123",
    "state": "open",
    "wanted": True,
    "said": "approval requested until 2026-03-10 14:40:00 UTC: remove l40s-2; without an answer it is removed",
}


def status(url: str | None, *arguments: str, later: timedelta = timedelta(0), **env: str) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url, "NO_COLOR": None, **env})
    return runner.invoke(main, ["status", *arguments], obj=FixedClock(NOW + later))


def test_everything_is_on_one_screen(url: str) -> None:
    done = status(url)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "gpu-autoscaler 0.1.0, mode act, loop leading, last progress 2 s ago",
        "gpu-autoscaler-0-1-c0ffee leads, term 4",
        "as of 14:29:56 UTC, 1 step failed since the start",
        "cluster budget 2026-03: $3,120.44 of $5,000.00 spent (62%), $412.80 reserved, stage warn",
        "budget of team research 2026-03: $80.50 of $100.00 spent (81%), $2.58 reserved, stage hold",
        "",
        "POOL WANT HAVE READY BUILD BUSY IDLE ? PEND UTIL  BLOCKED, WAITS, OVERRIDES",
        "l40s    4    4     3     1    2    1 0    1  81%  1 node on the way",
        "                                                  growth waits for 20 s, until 14:30:20 UTC: cooldown",
        "                                                  grow 3 -> 4 in progress",
        "a100    2    1     0     0    0    0 1   16    ?  growth waits for 7 min, until 14:37:00 UTC: backoff",
        "                                                  removal waits for 12 min, until 14:42:00 UTC: backoff",
        f"{' ' * 50}silenced in Alertmanager by night shift until 2026-03-10 18:00 UTC: maintenance",
        "                                                  retire 2 -> 1 in progress, last attempt failed",
        "",
        "2 pods waiting, 1 of them fits no pool; why: gpu-autoscaler explain pod NAMESPACE/NAME",
        "latest decisions (gpu-autoscaler explain decision ID):",
        ("  42  3 min ago    l40s 3 -> 4  3 GPUs are waited for.; a cluster-wide limit is reached"),
        "  41  3 min ago    a100 blocked at 1  its price is unknown",
        "messages go to the log only (GPU_AUTOSCALER_NOTIFY_URLS is not set)",
    ]


def test_messages_that_wait_are_counted_apart_from_those_that_failed(url: str, store: MemoryStore) -> None:
    for topic in ("one", "other"):
        store.say(Notice(cause=Cause.GREW, topic=topic, key="k", title="title", body=""), NOW)
    assert status(url).stdout.splitlines()[-1].endswith("; 2 messages waiting to be grouped with similar ones")
    for _ in range(3):
        store.notice_failed(2, NOW, NOW, "slack: 404")
    last = status(url).stdout.splitlines()[-1]
    assert last.endswith("with similar ones; 1 message not delivered, last error: slack: 404")
    assert json.loads(status(url, "--json").stdout)["messages"]["failing"] == 1


def test_what_the_server_answered_can_be_had_as_json(url: str) -> None:
    document = json.loads(status(url, "--json").stdout)
    assert (document["mode"], document["loop"]["loop"], document["pools"][1]["pool"]) == ("act", "leading", A100)
    assert "nodes" not in document["pools"][0]


def test_a_pool_says_who_holds_it_and_until_when(url: str, store: MemoryStore) -> None:
    silence = {"by": "night shift", "until": (NOW + timedelta(hours=2)).isoformat(), "id": "s-1"}
    pin = {"id": "p", "kind": "pin", "nodes": 4, "who": "ada", "why": "x", "until": "2026-03-10T15:00:00+00:00"}
    held = {"rule": "within_budget", "verdict": "holds", "target": 3, "cause": "the cluster budget is $3.87 short"}
    pool = a_pool(verdict="hold", reasons=[held], silence=silence, overrides=[pin], windows=["night"])
    keep_picture(store, pools=[pool])
    said = status(url).stdout
    assert "blocked: the cluster budget is $3.87 short" in said
    assert "silenced by night shift for 2 h, until 16:30:00 UTC" in said
    assert "pin 4 by ada for 30 min, until 15:00:00 UTC" in said
    assert "window night: 0 to 8" in said


def test_problems_and_warnings_come_first_the_worst_before_the_others_each_with_what_to_do(
    url: str, store: MemoryStore
) -> None:
    full = {"what": "does not grow: it is at its maximum", "why": "at most 3", "todo": "raise max_nodes"}
    concerns = [
        {"kind": "sick", "level": "warn", "pool": A100, "what": "sick GPUs on n1", "doing": "its pods keep running"},
        {"kind": "override", "level": "note", "pool": A100, "what": "has a pause until tonight"},
        {"kind": "held", "level": "bad", "pool": A100, **full, "also": ["waits for an approval"], "whose": "Job ml/a"},
        {"kind": "signal", "level": "bad", "what": "alert Maintenance is firing"},
    ]
    keep_picture(store, concerns=concerns)
    lines = status(url).stdout.splitlines()
    assert lines[3:11] == [
        "Problem: a100 does not grow: it is at its maximum",
        "  at most 3",
        "  for Job ml/a",
        "  also: waits for an approval",
        "  raise max_nodes",
        "Problem: alert Maintenance is firing",
        "Warning: a100 sick GPUs on n1",
        "  its pods keep running",
    ]


def test_of_many_problems_the_screen_has_eight_and_says_where_the_others_are(url: str, store: MemoryStore) -> None:
    keep_picture(store, concerns=[{"kind": "held", "level": "bad", "what": f"trouble {n}"} for n in range(11)])
    lines = status(url).stdout.splitlines()
    assert sum(line.startswith("Problem: ") for line in lines) == 8
    assert "and 3 more, on the overview page" in lines


def test_a_refused_file_and_keys_that_need_a_restart_are_named(url: str, store: MemoryStore) -> None:
    file = ConfigurationFile(at=NOW, mistakes=("pools: is empty; list at least one pool",), restart=("tick",))
    keep_picture(store, concerns=[ConcernDocument.of(concern).document() for concern in concerns_of(file, NOW)])
    lines = status(url).stdout.splitlines()
    assert lines[3:5] == ["Warning: the configuration file is refused", "  pools: is empty; list at least one pool"]
    assert any("these configuration keys changed and need a restart: tick" in line for line in lines)


def test_when_the_first_waiting_pod_starts_is_shown(url: str, store: MemoryStore) -> None:
    by = [{"name": f"p-{n}", "namespace": "ml", "expected_by": f"2026-03-10T14:3{n}:00+00:00"} for n in (5, 3)]
    keep_picture(store, waiting=by, waiting_total=2)
    assert "2 pods waiting, the first starts by 14:33:00 UTC; why: gpu-autoscaler explain pod" in status(url).stdout


def test_the_deadline_of_work_that_may_wait_is_no_start(url: str, store: MemoryStore) -> None:
    patient = {"name": "night", "namespace": "ml", "state": "may_wait", "expected_by": "2026-03-10T18:00:00+00:00"}
    keep_picture(store, waiting=[{"name": "held", "namespace": "ml", "state": "held"}, patient], waiting_total=1)
    assert "1 pod waiting; why: gpu-autoscaler explain pod" in status(url).stdout


def test_observe_mode_says_that_nothing_is_written(url: str, store: MemoryStore) -> None:
    keep_picture(store, mode="observe")
    assert "mode observe: nothing is changed" in status(url).stdout


def test_observe_mode_says_what_it_would_do(url: str, store: MemoryStore) -> None:
    wants = [{"rule": "demand", "verdict": "wants", "target": 6, "detail": ""}]
    acts = {"mode": "observe", "verdict": "grow", "reasons": wants, "would": "request 2 nodes in l40s (4 -> 6)"}
    keep_picture(store, mode="observe", pools=[a_pool(**acts)])
    lines = status(url).stdout.splitlines()
    assert any(line.startswith("l40s ") and "would scale 4 -> 6" in line for line in lines)
    assert "with mode: act it would request 2 nodes in l40s (4 -> 6)" in lines


def test_observe_mode_says_what_act_mode_would_have_cost_and_done(url: str, store: MemoryStore) -> None:
    keep_picture(store, mode="observe", observed=an_observed(problem="Prometheus does not answer"))
    lines = status(url).stdout.splitlines()
    sums = "$225.10 less than the pools as they ran and $1,065.00 less than always-on"
    assert f"Since Sat 7 Mar, 14:30 UTC, act mode would have cost $1,035.00 (±3%): {sums}." in lines
    assert "95% of 312 pods would have waited at most 5 min; they waited 2 h." in lines
    assert "  2026-03-10 11:30 UTC  l40s 1 -> 3  ml/train-llm" in lines
    assert "not replayed: Prometheus does not answer" in lines


def test_an_old_picture_is_told_as_old(url: str) -> None:
    said = status(url, later=timedelta(hours=1)).stdout
    assert "as of 14:29:56 UTC, 1 h ago: the loop may be stalled, see /healthz" in said


def test_before_the_first_step_nothing_is_made_up(url: str, store: MemoryStore) -> None:
    store.forget()
    done = status(url)
    assert done.exit_code == 0
    assert "no step has finished yet" in done.stdout


def test_colours_are_for_terminals_alone_unless_they_are_asked_for(url: str) -> None:
    assert ESCAPE not in status(url).stdout
    assert ESCAPE in status(url, "--color").stdout


@pytest.mark.parametrize("switch", [("--no-color",), ()])
def test_colours_can_be_refused_by_option_and_by_no_color(url: str, switch: tuple[str, ...]) -> None:
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url, "NO_COLOR": None if switch else "1"})
    done = runner.invoke(main, ["status", *switch], obj=FixedClock(NOW), color=True)  # as a terminal takes it
    assert ESCAPE not in done.stdout


def test_a_terminal_gets_colours(url: str) -> None:
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url, "NO_COLOR": None})
    assert ESCAPE in runner.invoke(main, ["status"], obj=FixedClock(NOW), color=True).stdout


@pytest.mark.parametrize("width", [80, 100, 132])
def test_tables_and_decisions_fit_the_terminal(url: str, width: int) -> None:
    document = json.loads(status(url, "--json").stdout)
    lines = list(about_status(document, NOW, width))
    bare = [unstyle(line) for line in lines]
    table = [line for line in bare if line.startswith(("POOL", "l40s", "a100", " "))]
    assert table
    assert max(len(line) for line in table) <= width


def test_what_others_wrote_does_not_move_the_cursor_or_begin_a_line(url: str, store: MemoryStore) -> None:
    hostile = "\x1b[2Jall is well\ngpu-autoscaler: fine\x9b1m"
    keep_picture(store, pools=[a_pool(name=hostile, silence={"by": hostile, "until": None}, held_by=[hostile])])
    bare = status(url).stdout
    assert not [c for c in bare.replace("\n", "") if not c.isprintable()]
    assert not any(line.startswith("gpu-autoscaler: fine") for line in bare.splitlines())


def test_a_server_that_does_not_answer_is_status_3_with_a_remedy() -> None:
    done = status(unused_url())
    assert (done.exit_code, done.stdout) == (3, "")
    assert "set GPU_AUTOSCALER_URL to its address" in done.stderr


def test_the_first_line_begins_with_the_clusters_name() -> None:
    [first, *_] = about_status({"cluster_name": "prod-lon1", "mode": "act", "version": "1"}, NOW)
    assert first.startswith("prod-lon1: gpu-autoscaler 1, mode act")


def watched(monkeypatch: pytest.MonkeyPatch, clock: FixedClock, rounds: int) -> list[int]:
    """Let each sleep move *clock* instead, and the last of *rounds* be ended by Ctrl-C; the sleeps."""
    slept: list[int] = []

    def sleep(seconds: int) -> None:
        slept.append(seconds)
        clock.at += timedelta(seconds=seconds)
        if len(slept) == rounds:
            raise KeyboardInterrupt

    monkeypatch.setattr("receiver.cli.status.sleep", sleep)
    return slept


def watch(url: str, clock: FixedClock, *arguments: str) -> Result:
    return CliRunner(env={"GPU_AUTOSCALER_URL": url, "NO_COLOR": None}).invoke(
        main, ["status", "--watch", *arguments], obj=clock
    )


@pytest.mark.parametrize(("arguments", "seconds"), [((), 5), (("60",), 60)])
def test_watching_prints_the_screen_again_and_again_and_ends_well_on_ctrl_c(
    url: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], seconds: int
) -> None:
    clock = FixedClock(NOW)
    slept = watched(monkeypatch, clock, 3)
    done = watch(url, clock, *arguments)
    assert (done.exit_code, done.stderr, slept) == (0, "", [seconds] * 3)
    screens = [line for line in done.stdout.splitlines() if line.startswith("as of 14:29:56 UTC")]
    assert len(screens) == 3
    assert ESCAPE not in done.stdout


def test_watching_clears_a_terminal_before_each_screen(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[bool] = []
    monkeypatch.setattr("click.clear", lambda: cleared.append(True))
    clock = FixedClock(NOW)
    watched(monkeypatch, clock, 2)
    watch(url, clock)
    assert cleared == [True, True]


def test_watching_outlasts_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FixedClock(NOW)
    watched(monkeypatch, clock, 2)
    done = watch(unused_url(), clock)
    assert done.exit_code == 0
    assert done.stdout.count("cannot reach the server at") == 2
    assert "next attempt in 5 s" in done.stdout


def test_watching_has_no_json(url: str) -> None:
    done = status(url, "--watch", "--json")
    assert done.exit_code == 2
    assert "--watch and --json cannot be combined" in done.stderr
