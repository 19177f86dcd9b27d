"""Training that survives eviction: it saves what it needs, stops on SIGTERM, and goes on where it stopped.

The model is a line through noisy points, on the CPU, so that it runs anywhere. Put your framework's step in the place
of `step`, and its state into `State`: the model, the optimizer, the random numbers and the place in the data. What is
left out begins anew with every pod, and the result is another one.

Exit codes: 0 done; 143 stopped by SIGTERM and saved, the Job tries again; 2 a checkpoint of another run, the Job fails.
"""

import argparse
import json
import os
import random
import signal
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

STOPPED = 128 + signal.SIGTERM
OF_ANOTHER_RUN = 2
TRUE_SLOPE, TRUE_OFFSET, NOISE, RATE = 3.0, -1.0, 0.1, 0.001


@dataclass
class State:
    """Everything that the next step depends on, so that a resumed run ends with the same numbers."""

    seed: int
    done: int = 0
    slope: float = 0.0
    offset: float = 0.0
    noise: list[Any] = field(default_factory=list)  # where the random numbers stand


def step(state: State, numbers: random.Random) -> None:
    """One step of stochastic gradient descent on the next point."""
    x = numbers.uniform(-1.0, 1.0)
    wanted = TRUE_SLOPE * x + TRUE_OFFSET + numbers.gauss(0.0, NOISE)
    error = state.slope * x + state.offset - wanted
    state.slope -= RATE * error * x
    state.offset -= RATE * error
    state.done += 1


def load(path: Path, seed: int) -> tuple[State, random.Random]:
    """Return the state at *path* with its random numbers, or a new one where there is none."""
    numbers = random.Random(seed)
    try:
        state = State(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return State(seed=seed), numbers
    if state.seed != seed:
        print(f"{path} is of a run with seed {state.seed}, this one has {seed}", file=sys.stderr)
        sys.exit(OF_ANOTHER_RUN)
    version, words, gauss = state.noise
    numbers.setstate((version, tuple(words), gauss))
    print(f"resumed at step {state.done}", flush=True)
    return state, numbers


def save(path: Path, state: State, numbers: random.Random) -> None:
    """Write the state so that there is always a whole checkpoint: a new file, to the disk, then over the old one."""
    state.noise = list(numbers.getstate())
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def main() -> int:
    """Train until all steps are done or the node is needed elsewhere."""
    parser = argparse.ArgumentParser(description="Train a line, with checkpoints.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--save-every", type=int, default=5_000, help="what a node lost without SIGTERM costs at most")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    stopping: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))  # only noted: a step is never cut in two
    state, numbers = load(given.checkpoint, given.seed)
    while state.done < given.steps and not stopping:
        step(state, numbers)
        if state.done % given.save_every == 0:
            save(given.checkpoint, state, numbers)
            print(f"step {state.done}", flush=True)
    save(given.checkpoint, state, numbers)
    if state.done < given.steps:
        print(f"stopped at step {state.done}, saved", flush=True)
        return STOPPED  # not 0: a pod that ended well is a finished Job
    print(f"done after {state.done} steps: slope {state.slope!r} offset {state.offset!r}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
