"""The record of every visible change, for watches and for comparing two runs."""

from collections.abc import Iterator, Sequence
from typing import overload

from receiver.replay.world.objects import Change, Refused, WorldEvent, WorldNode, WorldPod

Object = WorldNode | WorldPod | WorldEvent


class Journal(Sequence[Change]):
    """Changes by version. Beyond *limit* the older half is compacted away, as etcd would."""

    def __init__(self, limit: int) -> None:
        self._changes: list[Change] = []
        self._limit = limit
        self.version = 0
        self.oldest_version = 0

    def next_version(self) -> int:
        """Take the version that the next change carries."""
        self.version += 1
        return self.version

    def note(self, kind: str, verb: str, key: str, obj: Object, before: Object | None = None) -> None:
        """Keep a change at the present version."""
        self._changes.append(Change(version=self.version, kind=kind, verb=verb, key=key, obj=obj, before=before))
        if len(self._changes) > self._limit:
            self.compact(self._changes[len(self._changes) // 2].version)

    def since(self, version: int, kind: str | None) -> list[Change]:
        """Return the changes after *version*. Raises Refused(status=410) when some are compacted away."""
        if version < self.oldest_version:
            raise Refused("Expired", 410, f"too old resource version: {version} ({self.oldest_version})")
        return [c for c in self._changes[self._index_after(version) :] if kind in (None, c.kind)]

    def compact(self, before_version: int) -> None:
        """Forget changes older than *before_version*."""
        keep_from = self._index_after(before_version - 1)
        if keep_from:
            self.oldest_version = self._changes[keep_from - 1].version
            del self._changes[:keep_from]

    def _index_after(self, version: int) -> int:
        low, high = 0, len(self._changes)
        while low < high:
            middle = (low + high) // 2
            if self._changes[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return low

    def __len__(self) -> int:
        return len(self._changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> list[Change]: ...
    def __getitem__(self, index: int | slice) -> Change | list[Change]:
        return self._changes[index]
