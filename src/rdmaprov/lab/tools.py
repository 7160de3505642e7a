"""The programs of the host that the lab uses, and the Debian packages that bring them."""

import os
import queue
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rdmaprov.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
RUN_TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
BUILD_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "tar": "tar",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    # Without root: file owners inside the image, and the user namespace it is made in.
    **({} if os.geteuid() == 0 else {"fakeroot": "fakeroot", "newuidmap": "uidmap"}),
}


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return work(item) for each item, in their order, done in a thread for each.

    The first error, or an interrupt, comes through at once and does not wait for the other
    threads, as an executor would: they end with the program.
    """
    done: queue.SimpleQueue[tuple[int, Result | None, BaseException | None]] = queue.SimpleQueue()

    def run(index: int, item: Item) -> None:
        try:
            done.put((index, work(item), None))
        except BaseException as error:
            done.put((index, None, error))

    for index, item in enumerate(items):
        threading.Thread(target=run, args=(index, item), daemon=True).start()
    results: dict[int, Result] = {}
    for _ in items:
        index, result, error = done.get()
        if error is not None:
            raise error
        results[index] = result  # type: ignore[assignment] # None only if Result may be None
    return [results[index] for index in range(len(items))]


def find(program: str) -> str | None:
    """Return where a program is; system directories count even when PATH leaves them out."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing(tools: Mapping[str, str]) -> list[str]:
    """Return those of the programs that are not installed."""
    return [program for program in tools if find(program) is None]


def packages(tools: Mapping[str, str]) -> list[str]:
    """Return the Debian packages that bring what is missing of the programs."""
    return sorted({tools[program] for program in missing(tools)})


def require(tools: Mapping[str, str]) -> None:
    """Raise UsageError while programs are missing, with the line that installs them all."""
    if missing(tools):
        raise UsageError(
            f"the lab needs {', '.join(missing(tools))}, not installed here",
            f"As root, run: apt-get install {' '.join(packages(tools))}"
            " (in a checkout: make lab-tools)",
        )


if __name__ == "__main__":
    print(*packages({**RUN_TOOLS, **BUILD_TOOLS}))  # noqa: T201 - for the Makefile
