"""The former names of commands work, and name the present ones on standard error."""

from datetime import timedelta

import pytest

from simulator.store import MemoryStore
from tests.cli.renamed import present, run
from tests.docs.commands import taken, words_of
from tests.web.builders import L40S, NOW
from tests.web.stores import stored_overrides

SET = ("--for", "2h", "--why", "load test", "--who", "alice")


@pytest.mark.parametrize(
    ("former", "now", "kind", "pool", "nodes"),
    [
        (("pin", "l40s", "4"), "override set l40s --exactly 4", "pin", L40S, 4),
        (("floor", "l40s", "4"), "override set l40s --min 4", "floor", L40S, 4),
        (("ceiling", "l40s", "4"), "override set l40s --max 4", "ceiling", L40S, 4),
        (("pause", "l40s"), "pause l40s", "pause", L40S, None),
        (("pause", "--all"), "pause", "pause", None, None),
        (("snooze", "l40s"), "override set l40s --keep", "snooze", L40S, None),
        (("snooze", "--all"), "override set --keep --all", "snooze", None, None),
    ],
)
def test_each_former_override_is_set_and_its_present_command_named(
    url: str, store: MemoryStore, former: tuple[str, ...], now: str, kind: str, pool: str | None, nodes: int | None
) -> None:
    done = run(url, "override", *former, *SET)
    assert (done.exit_code, present(done, f"override {former[0]}")) == (0, now)
    [stored] = stored_overrides(store).values()
    override = stored.override
    assert (override.kind, override.pool, override.nodes, override.until) == (
        kind,
        pool,
        nodes,
        NOW + timedelta(hours=2),
    )
    assert taken([*words_of(now), *SET], whole=True) is None


@pytest.mark.parametrize("arguments", [("l40s", "--all"), ()])
def test_a_former_pause_is_of_one_pool_or_of_every_pool(url: str, arguments: tuple[str, ...]) -> None:
    done = run(url, "override", "pause", *arguments, *SET)
    assert (done.exit_code, "name one pool, or give --all for every pool" in done.stderr) == (2, True)


def test_no_help_lists_a_former_name(url: str) -> None:
    listed = run(url, "override", "--help").stdout.partition("Commands:")[2].split()
    assert not {"pin", "floor", "ceiling", "pause", "snooze"} & set(listed)
    assert "--smoke" not in run(url, "doctor", "--help").stdout
