"""Which versions of Python are supported."""

from tools import newest_python
from tools.newest_python import supported


def test_the_image_has_the_newest_supported_python_by_default() -> None:
    base = f"ARG BASE=docker.io/library/python:3.{supported()[-1]}-slim-bookworm"
    assert base in (newest_python.ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()


def test_every_version_from_the_oldest_that_is_required_is_named() -> None:
    assert supported() == list(range(11, supported()[-1] + 1))
