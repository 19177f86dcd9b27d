"""Every query of the dashboards on a played demo, of one cluster and of two: `make dashboards`.

The demo is played to its end twice, with the first and the last of `PROMETHEUS` (by default the one of the checkout,
and the one of `python -m tools.fetch_binaries --newer`). Each Prometheus has an external label `cluster`, and sends its
series to a third, which so has two clusters; that one is opened with both versions. All are asked every query of the
dashboards twice: when every node is gone, and with jobs at work. Sums of money, GPUs and nodes are compared with the
HTTP API of each cluster at the same moment. Ends with status 1 after an error, an empty panel that does not say why,
or a sum that differs.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from campaigns.dashboards.asking import Findings, ask
from campaigns.dashboards.played import AT_REST, AT_WORK, CLUSTERS, SCRAPE, Moment, both, steady, store, work
from demo.screen import Screen
from demo.stack import Stack, signals_end_the_block
from tests.rules.servers import get
from tests.rules.versions import PROMETHEUS, Chosen
from tools.grafana.asking import Prometheus, Span

Results = dict[str, Findings]


def version(url: str) -> str:
    """Return the version of the Prometheus at *url*."""
    found: str = get(f"{url}/api/v1/status/buildinfo")["data"]["version"]
    return found.partition("+")[0]


def ask_all(servers: Mapping[str, str], moment: Moment, began: float, results: Results, what: str) -> None:
    """Ask *servers* (URLs by cluster; of both without a name) what was so at *moment*, and add to *results*."""
    span = Span(start=began, end=moment.at, scrape=SCRAPE)
    for cluster, url in servers.items():
        said = {"": moment.documents[cluster]} if cluster else moment.documents
        name = f"{cluster or 'two clusters'}, Prometheus {version(url)}, {what}"
        results[name] = ask(Prometheus(url), span, said, at_rest=what == "at rest")


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """The folder for the data, a temporary one if none is named."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-dashboards-") as name:
        yield Path(name)


def urls(stacks: Mapping[str, Stack]) -> Mapping[str, str]:
    """Return where the Prometheus of each stack answers."""
    return {name: stack.places.url("prometheus") for name, stack in stacks.items()}


def play_and_ask(folder: Path, versions: list[Chosen], screen: Screen) -> Results:
    """Play, ask, and return the findings by server and moment."""
    results: Results = {}
    began = time.time()
    global_store = folder / "store"
    choices = dict(zip(CLUSTERS, (versions[0], versions[-1]), strict=True))
    with store(global_store, versions[0]) as url, both(folder, choices, url, screen) as stacks:
        rest = steady(stacks, AT_REST, at_rest=True)
        for name, stack in stacks.items():
            work(stack, name)
        busy = steady(stacks, AT_WORK, at_rest=False)
        time.sleep(2 * SCRAPE)  # until the store has the last samples
        for what, moment in (("at rest", rest), ("at work", busy)):
            ask_all({**urls(stacks), "": url}, moment, began, results, what)
    if versions[-1] != versions[0]:
        with store(global_store, versions[-1]) as url:
            for what, moment in (("at rest", rest), ("at work", busy)):
                ask_all({"": url}, moment, began, results, what)
    return results


def told(results: Results) -> Iterator[str]:
    """Yield a line for each server and moment, and then what is wrong and which panels were empty."""
    for name, found in results.items():
        yield (
            f"{name}: {found.asked} queries, {len(found.errors)} errors; {len(found.empty)} empty panels, "
            f"{len(found.mute)} without a text; {found.compared} figures, {len(found.differ)} differ"
        )
    for name, found in results.items():
        for line in (*found.errors, *(f"{panel} is empty and does not say why" for panel in found.mute), *found.differ):
            yield f"{name}: {line}"
    empty = {f"{panel}: {text}" for found in results.values() for panel, text in found.empty.items() if text}
    yield "Panels that were empty at some time, and what they say:"
    yield from (f"  {line}" for line in sorted(empty))


def main() -> int:
    """Play, ask and print; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.dashboards", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the databases and logs there")
    folder: Path | None = parser.parse_args().keep
    screen = Screen()
    with signals_end_the_block(), kept(folder) as place:
        results = play_and_ask(place, PROMETHEUS, screen)
    for line in told(results):
        screen.line(line)
    return int(any(found.wrong for found in results.values()))


if __name__ == "__main__":
    sys.exit(main())
