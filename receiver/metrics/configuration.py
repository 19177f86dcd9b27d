"""What /metrics says of the configuration and the secrets on the disk."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from receiver.config.live import ConfigurationFile, LiveSecrets
from receiver.metrics.families import gauge


class OnDisk(Collector):
    """Whether what is on the disk could be used, and whether it is what runs; 0 before there is somebody to ask."""

    def __init__(self) -> None:
        self._state: Callable[[], tuple[bool, bool, bool]] = lambda: (False, False, False)

    def watch(self, secrets: LiveSecrets, file: ConfigurationFile) -> None:
        """Ask *secrets* and *file* from now on."""

        def state() -> tuple[bool, bool, bool]:
            secrets.tokens()  # looks at the files
            return file.refused, secrets.refused, file.differs

        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield every family once."""
        file, secrets, differs = self._state()
        yield gauge(
            "configuration_refused",
            "Whether what is on the disk cannot be used (1) or can (0): the configuration file, the files of secrets.",
            [(("file",), float(file)), (("secrets",), float(secrets))],
            "part",
        )
        yield gauge(
            "configuration_differs",
            "Whether the configuration file on the disk is another one than the one that runs (1) or not (0).",
            [((), float(differs))],
        )
