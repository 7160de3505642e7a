"""Pinned requirements, as pip reads them."""

from __future__ import annotations

import pytest
from plugins.module_utils.plan import Refused
from plugins.module_utils.torch import pins

VARIABLE = "torch_runtime_requirements"
DIGEST = "a" * 64


@pytest.mark.parametrize(
    ("line", "seen", "met"),
    [
        ("torch==2.13.0", "2.13.0", True),
        ("torch==2.13.0", "2.13.0+cpu", True),
        ("torch==2.13", "2.13.0+cu130", True),
        ("torch==2.13.0+cpu", "2.13.0+cpu", True),
        ("torch==2.13.0+cpu", "2.13.0+cu130", False),
        ("torch==2.13.0+cpu", "2.13.0", False),
        ("torch==2.13.0", "2.13.1", False),
        ("torch==2.1", "2.10", False),
        ("torch==2.13.0", "2.13.0a0+git1", False),
    ],
)
def test_version_is_compared_as_pip_does(line: str, seen: str, met: bool):
    assert pins.parse([line], VARIABLE)[0].is_met_by(seen) is met


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["torch"], "'torch' is not pinned; write NAME==VERSION"),
        (["torch>=2"], "is not pinned"),
        (["torch==2.13.0 --index-url=http://x"], "is not pinned"),
        (["--pre"], "is not pinned"),
        (["torch==1", "Torch==2"], "torch is listed twice"),
        ([f"torch==1 --hash=sha256:{DIGEST}", "numpy==2"], "numpy has no --hash=sha256"),
    ],
)
def test_wrong_pin_is_refused(lines: list[str], message: str):
    with pytest.raises(Refused, match=message):
        pins.parse(lines, VARIABLE)


def test_names_are_compared_without_their_spelling():
    pin = pins.parse(["Typing_Extensions==4.1"], VARIABLE)[0]
    assert (pin.name, pin.hashed) == ("typing-extensions", False)
