"""What a loop needs: the right to write, a clock that a test turns, and steps that are done already."""

from receiver.ports import Leader
from receiver.step.reconcile import Stepped
from tests.core.builders import a_policy, a_state, facts, run


class Right:
    """The right to write, as a test hands it out; the timer too."""

    def __init__(self, mine: bool = True) -> None:
        self.mine, self.released, self.taken = mine, 0, 0

    def try_acquire(self) -> bool:
        self.taken += self.mine
        return self.mine

    def held(self) -> bool:
        return self.mine and self.taken > self.released

    def release(self) -> None:
        self.released += 1

    @property
    def leader(self) -> Leader:
        return Leader(name="us" if self.mine else "another", mine=self.held())

    def stepped(self, seconds: float, *, failed: bool, failures: object = ()) -> None:
        pass


def stepped_once() -> Stepped:
    """The end of a step that found nothing to do."""
    found = facts(a_state())
    assignment, decisions = run(found, a_policy())
    return Stepped(facts=found, assignment=assignment, decisions=decisions, reconsider_at=None)


class Seconds:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
