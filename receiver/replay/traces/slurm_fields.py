"""The fields of ``sacct``: times, run times, and what a job holds (https://slurm.schedmd.com/sacct.html)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

AGAIN = "export it again; do not edit it"
ELAPSED = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)(?:\.\d+)?")
NO_TIME = frozenset({"", "unknown", "none", "n/a"})
NO_RUN_TIME = "write how many seconds it ran"
SHARES = ("gres/mps", "gres/shard")
TYPED = re.compile(r"gres/gpu:([^=]+)")


class BadField(Exception):
    """A field that cannot be taken: its *name*, the *problem* and the *remedy*."""

    def __init__(self, name: str, problem: str, remedy: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Devices:
    """What a TRES string says: whole *gpus*, their one *kind* or nothing, *nodes*, and whether it names *shares*."""

    gpus: int
    kind: str
    nodes: int
    shares: bool


def devices(row: Mapping[str, str]) -> Devices:
    """Return what the job of *row* held, or what it asked for where it held nothing. Raises BadField."""
    name = "AllocTRES" if row.get("AllocTRES") else "ReqTRES"
    counts: dict[str, int] = {}
    for part in filter(None, row.get(name, "").split(",")):
        key, _, amount = part.partition("=")
        if key.split(":")[0] in ("gres/gpu", "node"):  # not gres/gpuutil nor gres/gpumem
            if not _is_count(amount):
                raise BadField(name, f"{part!r} is no count", AGAIN)
            counts[key] = int(amount)
    typed = {match[1]: n for key, n in counts.items() if n and (match := TYPED.fullmatch(key))}
    return Devices(
        gpus=counts.get("gres/gpu", sum(typed.values())),
        kind=next(iter(typed)) if len(typed) == 1 else "",
        nodes=counts.get("node", 0),
        shares=any(share in row.get(name, "") for share in SHARES),
    )


def pods_of(row: Mapping[str, str], held: Devices) -> tuple[int, int]:
    """Return how many pods the job is, one for each node that it ran on, and the GPUs of each. Raises BadField."""
    name = "NNodes" if row.get("NNodes") else "AllocNodes"
    text = row.get(name, "")
    if text and not _is_count(text):
        raise BadField(name, f"{text!r} is no count", AGAIN)
    nodes = int(text or 0) or held.nodes or 1
    if held.gpus % nodes:
        problem = f"{held.gpus} GPUs on {nodes} nodes are not the same number on each"
        raise BadField("AllocTRES", problem, "a replay knows gangs of equal pods: leave it out with --skip-bad")
    return nodes, held.gpus // nodes


def run_time(row: Mapping[str, str], started: datetime, zone: tzinfo) -> timedelta:
    """Return how long the job ran. ElapsedRaw counts where it is there: no change of the clocks touches it.

    Raises BadField.
    """
    raw, spelt = row.get("ElapsedRaw", ""), row.get("Elapsed", "")
    if raw:
        if re.fullmatch(r"-\d+", raw):
            raise BadField("ElapsedRaw", f"{raw} is negative", NO_RUN_TIME)
        if not _is_count(raw):
            raise BadField("ElapsedRaw", f"{raw!r} is no number of seconds", NO_RUN_TIME)
        return _within("ElapsedRaw", timedelta(seconds=int(raw[:12])))
    if spelt:
        match = ELAPSED.fullmatch(spelt)
        if match is None:
            raise BadField("Elapsed", f"{spelt!r} is not [DD-[HH:]]MM:SS", "export ElapsedRaw")
        days, hours, minutes, seconds = (int((part or "0")[:6]) for part in match.groups())
        return _within("Elapsed", timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
    ended = moment("End", row.get("End", ""), zone)
    if ended is None:
        problem = "is not known, and neither is how long it ran"
        raise BadField("End", problem, "export ElapsedRaw too: it says how long a job has run by now")
    if ended < started:
        problem = f"{row['End']} is earlier than the start, {row['Start']}"
        raise BadField("End", problem, "export ElapsedRaw, which no change of the clocks touches")
    return _within("End", ended - started)


def moment(name: str, text: str, zone: tzinfo) -> datetime | None:
    """Return a time as sacct writes it, or as seconds since 1970 (``SLURM_TIME_FORMAT=%s``), None where it has none.

    A time that a change of the clocks makes twice is the first of the two. Raises BadField.
    """
    if text.lower() in NO_TIME:
        return None
    try:
        if text.isascii() and text.isdigit():
            return datetime.fromtimestamp(int(text), UTC)
        parsed = datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        problem = f"{text!r} is no time such as 2026-03-02T09:00:00"
        raise BadField(name, problem, "export with SLURM_TIME_FORMAT unset") from None


def _within(name: str, length: timedelta) -> timedelta:
    if length > timedelta(days=3650):
        raise BadField(name, f"{length.days} days are more than ten years", NO_RUN_TIME)
    return length


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12
