"""A stand-in for ib_write_bw and ib_write_lat: it connects by TCP, prints numbers, moves nothing.

How it behaves is in the name of its RDMA device: `good`, or one of BAD. What it prints is of the
version that its device names after a point, such as `good.5`, with an average of its own.
"""

import sys
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures/perftest"
AVERAGE = {"": 97.28, "5": 11024.71, "24": 11030.45}
BAD = (
    "silent",
    "hangs",
    "fails",
    "garbage",
    "flood",
    "killed",
    "completion",
    "takes-port",
    "late",
    "unsteady",
    "clockless",
)
_SOURCE = """#!{python}
import os, signal, socket, subprocess, sys, time
words = sys.argv[1:]
if "--help" in words:
    print(open({help!r}).read())
    sys.exit(0)
options = dict(zip(words, words[1:]))
port, size = int(options["-p"]), options["-s"]
kind, _, version = options["-d"].partition(".")
is_client = not words[-1].startswith("-") and words[-2] not in ("-x", "-m", "-S", "-D", "-n", "-p")
is_client = is_client and words[-1] != options.get("-D")
with open({log!r}, "a") as log:
    cpus = ",".join(str(each) for each in sorted(os.sched_getaffinity(0)))
    role = "client" if is_client else "server"
    log.write(" ".join([role, str(time.monotonic()), cpus, sys.argv[0]] + words) + chr(10))
def table():
    if "lat" in sys.argv[0]:
        print(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]")
        print(" " + size + "       1000          1.54           2.13         1.58        1.59")
        return
    unit = {{"": "Gb/sec", "5": "MB/sec", "24": "MiB/sec"}}[version]
    average = {average!r}[version]
    print(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]" % (unit, unit))
    print("Conflicting CPU frequency values detected: 1.0 != 2.0. CPU Frequency is not max.")
    print(" %s   5000     0.00      %s     0.01" % (size, average))
if not is_client:
    if kind == "silent":
        time.sleep(600)
    if kind == "takes-port":
        print("Couldn't listen to port %d" % port, file=sys.stderr)
        sys.exit(1)
    if kind == "late":
        time.sleep(0.5)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen(1)
    connection = server.accept()[0]
    server.close()
    connection.recv(1)
    table()
    sys.exit(0)
if kind == "child":
    subprocess.Popen(["sleep", "600"])
try:
    connection = socket.create_connection((words[-1], port))
except OSError:
    print("Couldn't connect to %s:%d" % (words[-1], port), file=sys.stderr)
    sys.exit(1)
if kind in ("hangs", "child"):
    time.sleep(600)
if kind == "fails":
    sys.exit(1)
if kind == "garbage":
    os.write(1, bytes(range(256)) * 8 + b" 1 2 3 4 5" + bytes([10]))
    sys.exit(0)
if kind == "flood":
    os.write(1, b"noise of a library" * 100000 + bytes([10]))
earlier = [line for line in open({log!r}) if line.startswith("client") and "-d unsteady" in line]
if kind == "clockless" or (kind == "unsteady" and len(earlier) == 1):
    print(open({clock!r}).read())
    sys.exit(0)
if kind == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "completion":
    print(open({completion!r}).read(), file=sys.stderr)
    sys.exit(1)
table()
"""


def install(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    log = place / "log"
    log.touch()
    text = _SOURCE.format(
        python=sys.executable,
        help=str(FIXTURES / "help-4.5.txt"),
        completion=str(FIXTURES / "fail-completion.txt"),
        clock=str(FIXTURES / "fail-4.5-no-clock.txt"),
        log=str(log),
        average=AVERAGE,
    )
    for name in ("ib_write_bw", "ib_write_lat"):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return log
