"""A node of a subnet on ibsim: the role's files, real opensm, real tools, and a small systemctl.

Files of the node are below a directory. What the role's unit starts is real: opensm with the
configuration that the role wrote, whose paths of /etc and /var are put below that directory.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

from plugins.module_utils.machine import CommandFailed, Machine

_TOOLS = ("sminfo", "saquery", "smpquery")
_LIMIT_S = 60


class SimNode(Machine):
    """A node with one InfiniBand port for each rail; `settings` are of programs in the subnet."""

    def __init__(self, root: Path, name: str, settings: dict[str, str], rails: int = 1) -> None:
        super().__init__(str(root))
        self.name = name
        self._settings = settings
        self._units: dict[str, dict[str, str]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts = 0
        (root / "work").mkdir(parents=True)
        for rail in range(rails):
            self._port(f"mlx5_{rail}")

    def _port(self, device: str) -> None:
        guid = re.findall(r"0x([0-9a-f]{16})", self._call(["ibstat", "-p"], device))[0]
        words = [guid[start : start + 4] for start in range(0, 16, 4)]
        base = Path(self.path(f"/sys/class/infiniband/{device}/ports/1"))
        (base / "gids").mkdir(parents=True)
        (base / "link_layer").write_text("InfiniBand\n")
        (base / "gids/0").write_text(":".join(["fe80", "0000", "0000", "0000", *words]) + "\n")

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = _LIMIT_S) -> str:
        """Run a tool in the subnet, or the service manager of this node."""
        if argv[0] == "systemctl":
            return self._systemctl(argv[1:])
        if argv[0] in _TOOLS:
            assert argv[1:5:2] == ["-C", "-P"]
            return self._call([argv[0], *argv[5:]], argv[2])
        return super().run(argv, stdin, timeout_s)

    def _environment(self, device: str) -> dict[str, str]:
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        return {**self._settings, "PATH": path, "SIM_HOST": f"{self.name} {device}"}

    def _call(self, argv: list[str], device: str) -> str:
        done = subprocess.run(
            argv,
            env=self._environment(device),
            cwd=self.path("/work"),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(argv, done.returncode, done.stderr + done.stdout)
        return done.stdout

    def _systemctl(self, words: list[str]) -> str:
        verb, names = words[0], [word for word in words[1:] if not word.startswith("-")]
        if verb == "show":
            return "\n".join(self._show(name) for name in names)
        if verb == "daemon-reload":
            return ""
        unit = self._units.setdefault(names[0], {"LoadState": "not-found"})
        if verb == "mask":
            unit["LoadState"] = "masked"
        elif verb == "enable":
            unit["UnitFileState"] = "enabled"
        elif verb in ("restart", "start"):
            self.kill(names[0])
            self.start(names[0])
            self.restarts += 1
        else:
            raise AssertionError(words)
        return ""

    def _show(self, name: str) -> str:
        values = dict(self._units.get(name, {"LoadState": "not-found"}))
        process = self._processes.get(name)
        if process and process.poll() is None:
            values |= {"ActiveState": "active", "MainPID": str(process.pid)}
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def start(self, name: str) -> None:
        """Start what a unit starts, as it stands on the disk."""
        text = self.read(f"/etc/systemd/system/{name}") or ""
        (command,) = re.findall(r"^ExecStart=(.*)$", text, re.M)
        program, option, path = command.split()
        assert (program, option) == ("/usr/sbin/opensm", "-F")
        settings = self.read(path) or ""
        placed = Path(self.path("/work/opensm.conf"))
        placed.write_text(re.sub(r" (/(?:etc|var)/)", rf" {self.root}\1", settings))
        for made in re.findall(r"^(?:Cache|Logs)Directory=(.*)$", text, re.M):
            for top in ("/var/cache", "/var/log"):
                Path(self.path(f"{top}/{made}")).mkdir(parents=True, exist_ok=True)
        own = dict(pair.split("=", 1) for pair in re.findall(r"^Environment=(.*)$", text, re.M))
        own = {key: re.sub(r"^/var/", f"{self.root}/var/", value) for key, value in own.items()}
        process = subprocess.Popen(
            [program, option, str(placed), "-d2"],  # each line of the log at once
            env={**self._environment("mlx5_0"), **own},
            cwd=self.path("/work"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes[name] = process
        environ = Path(self.path(f"/proc/{process.pid}/environ"))
        environ.parent.mkdir(parents=True)
        environ.symlink_to(f"/proc/{process.pid}/environ")

    def kill(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def signal(self, name: str, number: int) -> None:
        self._processes[name].send_signal(number)

    def end(self) -> None:
        for name in [*self._processes]:
            self.kill(name)
