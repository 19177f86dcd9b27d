"""`gpu-autoscaler report`, asked of a server that really listens."""

import csv
import io
import json
import threading
from collections.abc import Iterator
from decimal import Decimal

import pytest
from click.testing import CliRunner, Result
from werkzeug.serving import make_server

from receiver.cli.main import main
from receiver.web.app import create_app
from tests.adapters.wire import unused_url
from tests.clocks import FixedClock
from tests.core.report.builders import AFTER
from tests.core.report.simulated import a_month
from tests.web.builders import Bench
from tests.web.stores import a_store_with


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where a server with the simulated month listens until the tests end."""
    month = a_month()
    store = a_store_with(
        lives=month.lives,
        usage=month.usage,
        unwatched=month.unwatched,
        workloads=month.workloads,
        counts=month.counted(),
    )
    bench = Bench(store=store, policy=month.policy, clock=FixedClock(AFTER))
    server = make_server("127.0.0.1", 0, create_app(bench.parts()), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def report(url: str, *arguments: str) -> Result:
    """Run the command as a person would."""
    return CliRunner(env={"GPU_AUTOSCALER_URL": url}).invoke(main, ["report", *arguments])


def test_text_is_what_one_gets_unasked(url: str) -> None:
    done = report(url, "--month", "2026-10")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("GPU report 2026-10 - all teams - complete\n")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_without_a_month_it_is_the_current_one(url: str) -> None:
    assert report(url).stdout.startswith("GPU report 2026-11 - all teams - so far, until 2026-11-03 00:00 UTC")


def test_every_format_tells_the_same_amount(url: str) -> None:
    asked = ("--month", "2026-10", "--team", "vision")
    document = json.loads(report(url, *asked, "--format", "json").stdout)
    rows = csv.DictReader(io.StringIO(report(url, *asked, "--format", "csv").stdout))
    usd = Decimal(document["usd"])
    assert usd > 1000
    assert sum(Decimal(row["usd"] or 0) for row in rows) == usd
    assert f"${usd:,.2f}" in report(url, *asked).stdout
    charges = csv.DictReader(io.StringIO(report(url, *asked, "--format", "focus").stdout))
    assert abs(sum(Decimal(row["BilledCost"]) for row in charges) - usd) <= Decimal("0.01")  # it is exact
    html = report(url, *asked, "--format", "html").stdout
    assert html.startswith("<!doctype html>")
    assert f"${usd:,.2f}" in html


def test_an_empty_team_is_work_without_a_label(url: str) -> None:
    assert "team (no label)" in report(url, "--month", "2026-10", "--team", "").stdout


def test_a_team_that_the_month_does_not_know_is_status_1_with_those_it_knows(url: str) -> None:
    done = report(url, "--month", "2026-10", "--team", "visoin")
    assert (done.exit_code, done.stdout) == (1, "")
    assert 'no workload of 2026-10 has the team label "visoin"' in done.stderr
    assert "use one of: search, vision" in done.stderr


def test_a_month_that_is_none_is_refused_in_the_servers_words(url: str) -> None:
    done = report(url, "--month", "october")
    assert done.exit_code == 2
    assert "month is not a month that has begun" in done.stderr


def test_another_format_is_refused(url: str) -> None:
    done = report(url, "--format", "pdf")
    assert done.exit_code == 2
    assert "'pdf' is not one of" in done.stderr


def test_a_server_that_cannot_be_reached_is_status_3() -> None:
    assert report(unused_url()).exit_code == 3
