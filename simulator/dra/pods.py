"""Pods that claim devices: held back until their claims exist, and evicted from tainted devices."""

from dataclasses import replace
from datetime import timedelta

from receiver.replay.world.cluster import Key
from receiver.replay.world.objects import CLAIMS, WorldPod
from receiver.replay.world.pods import Pods
from simulator.dra.claims import Claims
from simulator.dra.scheduler import ClaimScheduler


class ClaimingPods(Pods):
    """Pods with claims of devices."""

    scheduler: ClaimScheduler

    def __post_init__(self) -> None:
        self.claims = Claims(self._cluster, self._agenda, self._note_devices)
        self._held: dict[Key, str] = {}  # uids of pods without a claim of theirs
        self._devices_changed = False
        super().__post_init__()

    def _new_scheduler(self) -> ClaimScheduler:
        return ClaimScheduler(self._cluster, self._agenda, self._bind, self._packing, claims=self.claims)

    def _create(self, pod: WorldPod) -> WorldPod:
        if pod.claims:
            pod = replace(pod, requests={**pod.requests, CLAIMS: len(pod.claims)})
        return self.claims.generate(super()._create(pod))

    def _tried(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is None or pod.node is not None or self.claims.ready(pod):
            super()._tried(key, uid)
        else:
            self._held[key] = uid

    def _note_devices(self) -> None:
        if not self._devices_changed:
            self._devices_changed = True
            self._agenda.after(timedelta(0), self._follow_devices)

    def _follow_devices(self) -> None:
        """Do what a change of devices or claims lets happen: pods have their claims, fit now, or must go."""
        self._devices_changed = False
        held, self._held = self._held, {}
        for key, uid in held.items():
            pod = self._cluster.living(key, uid)
            if pod is not None:
                self.claims.generate(pod)
                self._tried(key, uid)
        evicted = self.claims.to_evict()
        for key in [pod.key for pod in self._cluster.active.values() if pod.uid in evicted]:
            self.delete(*key)
        self.scheduler.devices_changed()

    def _free(self, pod: WorldPod) -> None:
        self.claims.release(pod)
        super()._free(pod)
