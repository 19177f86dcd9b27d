"""Claims that are proven one by one and printed as they are: a table of what held and what did not."""

import sys
from dataclasses import dataclass, field


@dataclass(slots=True)
class Claims:
    """What was claimed and came out otherwise, in *failed*."""

    failed: list[str] = field(default_factory=list)

    def holds(self, claim: str, held: bool, figure: object = "") -> None:
        """Print *claim* with its *figure*, and remember it if it did not hold."""
        if not held:
            self.failed.append(claim)
        tell(f"{'ok    ' if held else 'FAILED'}  {claim}{f': {figure}' if figure != '' else ''}")

    def none_of(self, claim: str, troubles: list[str]) -> None:
        """The *claim* holds when there are no *troubles*; the first ones are printed."""
        self.holds(claim, not troubles, "; ".join(troubles[:5]))


def tell(line: str) -> None:
    """Print *line* at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
