"""`check --untrusted` of a site per line of standard input, each in a fork, with what it took.

A first site has this process import all that the verb needs, so the memory of a fork is the verb's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from rdmaprov import cli

LIMIT_S = 300


def main(first: str) -> None:
    """Answer each line, a site, with a line of JSON."""
    assert cli.run(["check", "--untrusted", first]) == 0
    for line in sys.stdin:
        site = Path(line.rstrip("\n"))
        out, err = site.with_suffix(".out"), site.with_suffix(".err")
        if (process := os.fork()) == 0:
            check(site, out, err)
        _, status, used = os.wait4(process, 0)
        found = {
            "code": os.waitstatus_to_exitcode(status),
            "out": out.read_text(errors="replace"),
            "err": err.read_text(errors="replace"),
            "bytes": used.ru_maxrss * 1024,
            "cpu_s": used.ru_utime + used.ru_stime,
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def check(site: Path, out: Path, err: Path) -> NoReturn:
    """Be the program, and end."""
    signal.alarm(LIMIT_S)
    for number, path in enumerate((out, err), 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(site.parent)
    sys.argv = [cli.PROGRAM, "check", "--untrusted", str(site)]
    code: object = 1
    try:
        cli.main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main(sys.argv[1])
