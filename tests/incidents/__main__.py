"""Print the incidents as a table, the first screen and the last message of each: ``python -m tests.incidents``."""

import sys

from tests.incidents.play import GOLDEN, INCIDENTS


def row(name: str) -> str:
    """Return the line of one incident."""
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    screen, messages = text.partition("## Screen\n")[2].split("\n\n## Messages\n\n")
    cells = (INCIDENTS[name].title, screen.partition("\n")[2], messages.rstrip().split("\n\n")[-1])
    return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), '<br>') for cell in cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write("| incident | first screen | last message |\n|---|---|---|\n")
    sys.stdout.writelines(map(row, INCIDENTS))
