"""The scenarios are played by the real program: on the simulator by the same code as on a cluster."""

from decimal import Decimal
from pathlib import Path

import pytest
import requests

from conformance.civo import Civo
from conformance.scenario import Result, Scenario, Seen, UnavailableError, UnmetError
from conformance.scenarios import chosen
from conformance.stage import Place, Stage
from conformance.suite import Ceiling, play
from tests.conformance.fakes import FREE_CEILING


def played(folder: Path, *scenarios: Scenario, ceiling: Ceiling = FREE_CEILING) -> list[Result]:
    return play(scenarios, Place(folder=folder), ceiling, lambda _: None)


def a_scenario(play: object, **changes: object) -> Scenario:
    return Scenario(name=getattr(play, "__name__", "none"), expected="something", play=play, **changes)  # type: ignore[arg-type]


def test_one_pod_gets_one_node(tmp_path: Path) -> None:
    (result,) = played(tmp_path, *chosen(["one pod"]))
    assert (result.verdict, result.seen, result.figures["instances"]) == ("passed", "Civo was asked for [1]", 1)


def test_what_is_not_met_fails_with_what_was_seen_and_the_rest_is_played(tmp_path: Path) -> None:
    def unmet(stage: Stage) -> Seen:
        stage.until(lambda: False, "what never happens", 0.1)
        return Seen(said="")

    def mistaken(stage: Stage) -> Seen:
        raise LookupError("a mistake")

    def unavailable(stage: Stage) -> Seen:
        raise UnavailableError("needs a tool")

    found = played(tmp_path, a_scenario(unmet), a_scenario(mistaken), a_scenario(unavailable))
    assert [r.verdict for r in found] == ["failed", "error", "skipped"]
    assert found[0].seen.startswith("what never happens: not within 0.1 s; Civo has 0 required, 0 instances; pods {}")
    assert found[1].seen == "a mistake of the suite, not of the autoscaler: LookupError: a mistake"
    assert ("in mistaken" in found[1].traceback, found[1].log) == (True, "")
    assert found[2].seen == "needs a tool"


def test_a_lowered_count_and_a_node_deleted_under_its_pod_fail_whatever_the_scenario_saw(tmp_path: Path) -> None:
    def harmful(stage: Stage) -> Seen:
        (_, second) = stage.have_nodes(2)
        stage.cluster.pod("train", nodeName=second)
        stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
        product = Civo(stage.civo.account)
        product._cluster = product._cluster.replace(stage.civo.account.url, stage.civo_lever.url)
        product.delete(stage.instance_of(second))
        product.set_count(0)
        product.set_count(9)
        return Seen(said="all is well")

    (result,) = played(tmp_path, a_scenario(harmful))
    assert result.verdict == "failed"
    assert result.seen.split("; ") == [
        "a node was deleted with gpu-autoscaler-conformance/train on it",
        "the count was lowered from 1 to 0",
        "9 nodes were asked for, and the maximum is 4",
    ]


def test_money_that_is_not_allowed_is_not_spent(tmp_path: Path) -> None:
    ceiling = Ceiling(Decimal(10), Decimal("1.29"))
    (result,) = played(tmp_path, a_scenario(None, nodes=8), ceiling=ceiling)
    assert (result.verdict, result.seen) == ("skipped", "may cost $10.32, and $10.00 of --may-spend is left")
    ceiling.spent(2)
    assert ceiling.holds_back(a_scenario(None, nodes=5)) == ""
    assert ceiling.holds_back(a_scenario(None, nodes=6)) == "may cost $7.74, and $7.42 of --may-spend is left"


def test_scenarios_are_known_by_name_and_each_says_what_it_expects() -> None:
    every = chosen()
    assert len({s.name for s in every}) == len(every)
    assert all(s.expected and s.play.__doc__ for s in every)
    with pytest.raises(ValueError, match=r"no scenario is called nothing; there are: .*one pod"):
        chosen(["nothing"])


def test_an_expectation_that_no_longer_holds_says_so(tmp_path: Path) -> None:
    def broken(stage: Stage) -> Seen:
        with pytest.raises(UnmetError, match="a count of 1: no longer so; Civo has 0 required"):
            stage.holds(lambda: stage.civo.required() == 1, "a count of 1", 5.0)
        return Seen(said="seen")

    assert played(tmp_path, a_scenario(broken))[0].verdict == "passed"


def test_an_autoscaler_that_does_not_answer_failed_and_a_source_that_does_not_is_an_error(tmp_path: Path) -> None:
    def crashed(stage: Stage) -> Seen:
        stage.serve()
        stage.product.kill()
        return Seen(said=str(stage.product.get("/healthz")))

    def away(stage: Stage) -> Seen:
        raise requests.ConnectionError("no route to host")

    def harmful(stage: Stage) -> Seen:
        stage.broken.append("the count was lowered from 2 to 1")
        raise LookupError("a mistake")

    found = played(tmp_path, a_scenario(crashed), a_scenario(away), a_scenario(harmful))
    assert [r.verdict for r in found] == ["failed", "error", "failed"]
    assert found[0].seen.startswith("the autoscaler does not answer: ")
    assert found[1].seen == "a server that the suite uses did not answer: no route to host"
    assert (found[2].seen, found[2].traceback) == ("the count was lowered from 2 to 1", "")
