"""Write the golden messages anew: ``python -m tests.messages.write``. Read what changed as the one who is on call."""

import sys

from tests.messages.cases import GOLDEN, every_golden


def main() -> None:
    """Write every golden, and take away those that no case has."""
    GOLDEN.mkdir(exist_ok=True)
    goldens = every_golden()
    for file in GOLDEN.glob("*.txt"):
        if file.name not in goldens:
            file.unlink()
    for name, text in goldens.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(goldens)} messages written to {GOLDEN}\n")


if __name__ == "__main__":
    main()
