"""Former names of commands, run as a person would, and what they say of the present ones."""

from click.testing import CliRunner, Result

from receiver.cli.main import main
from tests.clocks import FixedClock
from tests.web.builders import NOW, OPERATOR

GOES = "the former name goes with the next release"


def run(url: str, *arguments: str) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR}
    return CliRunner(env=env).invoke(main, arguments, obj=FixedClock(NOW))


def present(done: Result, former: str) -> str:
    """The present command that the one line on standard error names."""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"`gpu-autoscaler {former}` is now `gpu-autoscaler ")
    assert line.endswith(f"`; {GOES}")
    return line.split("`")[3].removeprefix("gpu-autoscaler ")
