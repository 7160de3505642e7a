"""What runs behind all else: its priority, its end, and what stops it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools import behind

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[3]
TELL = "import os; print(os.nice(0), os.getsid(0) == os.getpid(), *open('/proc/self/autogroup'))"


def start(text):
    command = [sys.executable, "-m", "tools.behind", sys.executable, "-c", text]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(not behind.GROUP.exists(), reason="the kernel has no group for each session")
def test_the_command_and_its_session_give_way():
    words = start(TELL).communicate(timeout=60)[0].split()
    assert words[:2] == [str(os.nice(0) + behind.NICE), "True"]
    assert words[-2:] == ["nice", str(behind.NICE)]


@pytest.mark.parametrize(("text", "status"), [("exit(3)", 3), ("import os; os.kill(0, 9)", 137)])
def test_its_end_is_the_command_s(text, status):
    assert start(text).wait(timeout=60) == status


@pytest.mark.parametrize("number", behind.STOPS)
def test_a_stop_reaches_all_of_its_processes(number):
    deep = "import time; time.sleep(600)"
    text = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {deep!r}]);"
        "print('ready', flush=True); p.wait()"
    )
    started = start(text)
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    started.send_signal(number)
    # Its output ends with the last process that has it.
    assert started.communicate(timeout=60)[0] == ""
    assert started.returncode != 0
