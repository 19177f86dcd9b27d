"""The demo with VictoriaMetrics and vmalert in Prometheus' place."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from demo.__main__ import Play, conclude
from demo.configs import plain_environment
from demo.plan import StackPlan
from demo.processes import Process, answers, free_port
from demo.scenario import demo_plan
from demo.screen import Screen
from demo.stack import Stack, binary, signals_end_the_block

OFFSETS = ("1s", "30s")  # of -search.latencyOffset; the second is the default


class VictoriaStack(Stack):
    """A stack whose part `prometheus` is VictoriaMetrics, with vmalert as the part `vmalert`."""

    def __init__(self, plan: StackPlan, folder: Path, offset: str) -> None:
        self._offset = offset
        self._vmalert = f"127.0.0.1:{free_port()}"
        super().__init__(plan, folder)

    def _prometheus(self) -> Process:
        config: Mapping[str, Any] = yaml.safe_load(self.places.config("prometheus").read_text(encoding="utf-8"))
        scrapes = {"global": {k: v for k, v in config["global"].items() if k.startswith("scrape")}}
        path = self.places.config("victoria-metrics")
        path.write_text(yaml.safe_dump({**scrapes, "scrape_configs": config["scrape_configs"]}), encoding="utf-8")
        command = [
            binary("victoria-metrics"),
            f"-httpListenAddr={self.places.address('prometheus')}",
            f"-storageDataPath={self.places.folder / 'victoria-data'}",
            f"-promscrape.config={path}",
            "-promscrape.config.strictParse=false",  # the interval of discovery is a flag:
            "-promscrape.httpSDCheckInterval=5s",
            f"-search.latencyOffset={self._offset}",
            f"-vmalert.proxyURL=http://{self._vmalert}",
        ]
        ready = answers(self.places.url("prometheus") + "/health")
        return self._process("prometheus", command, ready, plain_environment())

    def _rules(self) -> Process:
        url = self.places.url("prometheus")
        command = [
            binary("vmalert"),
            f"-httpListenAddr={self._vmalert}",
            f"-rule={self.places.folder}/rules/*.yaml",
            f"-datasource.url={url}",
            f"-remoteWrite.url={url}",
            f"-remoteRead.url={url}",
            "-remoteWrite.flushInterval=1s",
            f"-rule.evalDelay={self._offset}",
            *(f"-notifier.url={self.places.url(name)}" for name in self.places.alertmanagers),
        ]
        return self._process("vmalert", command, answers(f"http://{self._vmalert}/health"), plain_environment())

    def start(self) -> None:
        """Start every part, vmalert last."""
        super().start()
        self.parts["vmalert"] = self._rules()
        self.parts["vmalert"].start()

    def stop(self) -> None:
        """Stop every part."""
        if "vmalert" in self.parts:
            self.parts["vmalert"].stop()
        super().stop()


def play_demos() -> int:
    """Play the demo with each of OFFSETS and print its checks; return 1 if one fails with the first, else 0."""
    screen, status = Screen(), 0
    with signals_end_the_block():
        for offset in OFFSETS:
            screen.heading(f"-search.latencyOffset={offset}, -rule.evalDelay={offset}")
            with tempfile.TemporaryDirectory() as name:
                stack = VictoriaStack(demo_plan(), Path(name), offset)
                try:
                    stack.start()
                    stack.wait_for_heartbeat(180)
                    summary = Play(stack, screen).run()
                finally:
                    stack.stop()
            conclude(screen, summary)
            sys.stdout.flush()
            status |= offset == OFFSETS[0] and not summary.worked
    return int(status)
