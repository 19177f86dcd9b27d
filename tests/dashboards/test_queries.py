"""Every query of the dashboards is PromQL, whatever is chosen, and asks for what exists."""

import json
import re
from pathlib import Path

import pytest

from tests.rules.files import RECORDINGS, run
from tools.grafana.files import EVERYTHING, filled, queries

pytestmark = pytest.mark.usefixtures("each_prometheus")

QUERIES = list(queries())
SOME = {"cluster": "(a|b)", "pool": "(5f3c-1|5f3c-2)", "namespace": "(ml|vision)"}


@pytest.mark.parametrize("chosen", [EVERYTHING, SOME], ids=["all", "some"])
def test_every_query_is_promql(chosen: dict[str, str], tmp_path: Path) -> None:
    rules = [{"record": f"query{n}", "expr": filled(q.expr, chosen)} for n, q in enumerate(QUERIES)]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    checked = run("promtool", "check", "rules", file)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(QUERIES)} rules found" in checked.stdout


def test_every_selector_asks_for_the_chosen_cluster() -> None:
    for query in QUERIES:
        selectors = re.findall(r"\{([^{}]*)\}", query.expr)
        assert selectors, query
        assert all(s.startswith('cluster=~"$cluster"') for s in selectors), query


def test_every_recording_that_a_dashboard_reads_is_recorded() -> None:
    recorded = {rule.name for rule in RECORDINGS}
    asked = {(name, q.dashboard, q.panel) for q in QUERIES for name in re.findall(r"\b[a-z_]+:\w+:\w+", q.expr)}
    assert asked
    assert [a for a in sorted(asked) if a[0] not in recorded] == []


def test_no_dashboard_works_out_from_every_pod_of_the_cluster_what_rules_can_record() -> None:
    # But for pods' labels: only whoever looks knows which of them names a team.
    assert [(q.dashboard, q.panel) for q in QUERIES if re.search("kube_pod_(?!labels)", q.expr)] == []


def test_nothing_is_left_of_a_variable_that_was_filled_in() -> None:
    assert not re.search(r"\$[a-z_{]", "".join(filled(q.expr) for q in QUERIES))
