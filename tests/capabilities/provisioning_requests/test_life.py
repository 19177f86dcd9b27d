"""What a step buys and writes for ProvisioningRequests, and what goes on when it cannot."""

from collections.abc import Sequence

import pytest

from receiver.capabilities.provisioning_requests.progress import BookingStage
from receiver.core.model.pods import Pod
from receiver.ports import Store, TryLater, WontWork
from tests.core.builders import MINUTE, a_pod
from tests.given import lives
from tests.given.life import START, Life
from tests.given.requests import booking_of


def pods(name: str, count: int = 1) -> Sequence[Pod]:
    return tuple(a_pod(f"{name}/0-{n}", uid="", gang=f"ml/{name}", created_at=START) for n in range(count))


def stages(life: Life) -> dict[str, BookingStage]:
    return {key: BookingStage(answer.state) for (_, key), answer in life.world.answers.items()}


def test_a_request_is_bought_for_booked_and_reported(store: Store) -> None:
    life = lives.at_zero(store)
    life.world.requests = (booking_of("ml/r", pods("r", 2), START),)
    life.step()
    assert (life.required(), stages(life)["ml/r"]) == (2, BookingStage.ACCEPTED)
    life.run(5 * MINUTE)
    assert stages(life)["ml/r"] is BookingStage.PROVISIONED


def test_a_request_that_cannot_be_written_delays_neither_the_others_nor_the_pools(store: Store) -> None:
    life = lives.at_zero(store)
    life.world.requests = tuple(booking_of(f"ml/{n}", pods(n), START) for n in "ab")
    life.cluster.fail_next(TryLater("no"), "answer_request")
    life.step()
    assert (list(stages(life)), life.required()) == (["ml/b"], 2)


@pytest.mark.parametrize("error", [TryLater("no"), WontWork("no", code="http_403")])
def test_a_server_that_takes_no_condition_is_not_asked_for_all_of_them_in_one_step(
    error: Exception, store: Store
) -> None:
    life = lives.at_zero(store)
    life.world.requests = tuple(booking_of(f"ml/{n}", pods(n), START) for n in "uvwxyz")
    for _ in range(3):
        life.cluster.fail_next(error, "answer_request")
    life.step()
    assert stages(life) == {}
    life.step()
    assert len(stages(life)) == 6
