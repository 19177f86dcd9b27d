"""Jobs that no pool could ever run."""

from dataclasses import replace
from typing import Any

import pytest

from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Pool, Taint
from receiver.replay.traces.trace import misfits
from receiver.replay.world.objects import Job
from tests.given.life import GPU, START, a_job

EIGHT = Pool(id="eight", name="eight", size="x8", resources={GPU: 8}, max_nodes=2, labels={"zone": "b"})
ONE = Pool(id="one", name="one", size="x1", resources={GPU: 1}, max_nodes=4)


def told(job: Job, *pools: Pool) -> str:
    """What is said of *job*; empty when it fits."""
    return "".join(map(str, misfits([job], pools or (EIGHT, ONE)).values()))


@pytest.mark.parametrize(
    "given",
    [
        {"gpus_per_pod": 8, "pods": 2, "gang": True},
        {"gpus_per_pod": 8, "pods": 9},  # one after the other
        {"gpus_per_pod": 4, "pods": 4, "gang": True},
        {"pods": 20, "gang": True, "gang_min": 16},
        {"node_selector": {"zone": "b"}},
    ],
)
def test_what_fits_one_pool_is_no_misfit(given: dict[str, Any]) -> None:
    assert told(a_job(**given)) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpus_per_pod": 9}, "the largest node has 8"),
        ({"resource": "nvidia.com/mig-1g.5gb"}, "the largest node has 0"),
        ({"gpus_per_pod": 8, "pods": 3, "gang": True}, "no pool has room for more than 2"),
        ({"pods": 20, "gang": True}, "no pool has room for more than 16"),  # and not 20, in two of them
        ({"gpus_per_pod": 5, "pods": 3, "gang": True}, "no pool has room for more than 2"),
        ({"gpus_per_pod": 2, "node_selector": {"zone": "c"}}, "zone=c"),
    ],
)
def test_what_fits_none_is_said_with_the_reason(given: dict[str, Any], said: str) -> None:
    assert said in told(a_job(**given))
    assert told(a_job(**given)).startswith("job train, ")


def test_a_taint_keeps_out_what_does_not_tolerate_it() -> None:
    tainted = replace(EIGHT, taints=(Taint(key="gpu", value="true"),))
    assert "gpu=true:NoSchedule" in told(a_job(submit_at=START), tainted)
    assert told(a_job(tolerations=(Toleration(key="gpu", operator="Exists"),)), tainted) == ""
