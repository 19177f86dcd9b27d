"""Write dashboards/*.json. With ``--check`` write nothing, and end with status 1 when one of them would change."""

import json
import sys
from pathlib import Path

from tools.dashboards import cost, pools, queues, receiver, utilization

FOLDER = Path(__file__).resolve().parents[2] / "dashboards"


def files() -> dict[str, str]:
    """Return the content of every file by its name."""
    made = (d.dashboard() for d in (pools, utilization, cost, queues, receiver))
    return {f"{d.uid}.json": json.dumps(d.json(), indent=2, ensure_ascii=False) + "\n" for d in made}


def main() -> int:
    """Write what differs and name it; return the exit status."""
    check = "--check" in sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    differ = [name for name, text in files().items() if not _is(FOLDER / name, text)]
    for name in differ:
        print(f"dashboards/{name} {'is not what tools/dashboards makes' if check else 'written'}")
        if not check:
            (FOLDER / name).write_text(files()[name], encoding="utf-8")
    return 1 if check and differ else 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
