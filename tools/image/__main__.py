"""Build the image: ``make image``, or ``python -m tools.image --tag NAME --base BASE``."""

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

from tools.image.engines import NoEngine, build_words, usable_engine

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Build with the first engine that works and say what came of it. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument("--tag", default=f"civo-gpu-autoscaler:{version()}")
    parser.add_argument("--base", help="another base image, best by its digest; it needs Python 3.11 or newer")
    parser.add_argument("--source", help="where the source is, for the label of that name")
    given = parser.parse_args()
    arguments = built_with() | {
        name: said for name, said in (("BASE", given.base), ("SOURCE", given.source)) if said is not None
    }
    try:
        engine = usable_engine()
        print(f"building {given.tag} with {engine}", flush=True)
        subprocess.run([engine, *build_words(engine, given.tag, arguments), str(ROOT)], check=True)
        subprocess.run([engine, "images", given.tag.rpartition(":")[0]], check=True)
    except NoEngine as error:
        print(f"no image can be built here: {error}", file=sys.stderr)
        print("make image-check builds and runs it without an engine, to see that it can be built", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd[0]} failed, see above", file=sys.stderr)
        return 1
    return 0


def built_with() -> dict[str, str]:
    """The build arguments that say what is in the image: version and revision of the checkout."""
    return {"VERSION": version(), "REVISION": revision()}


def version() -> str:
    """The version of the checkout."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return found


def revision() -> str:
    """The commit of the checkout, with a mark when files differ from it; "unknown" where there is no git."""
    asks = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(asks, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
