"""A node with ssh and Slurm for the role limits, with the arguments that the role gets."""

from typing import Any

from tests.roles.fake import FakeMachine, given

LOGINS = "/etc/security/limits.d/99-rdmaprov-memlock.conf"
DROP_IN = "/etc/systemd/system/ssh.service.d/99-rdmaprov-memlock.conf"
SYSCTL = "/etc/sysctl.d/99-z-rdmaprov-limits.conf"
SWAPPINESS = "/proc/sys/vm/swappiness"
PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
FACTORY = "8388608"


class Node(FakeMachine):
    """A node with ssh and sshd as names of one service, whose manager reads files when told."""

    loaded = FACTORY

    def prepare(self) -> None:
        self.put("/etc/pam.d/login", "session\t\trequired\tpam_limits.so\n")
        self.put("/etc/pam.d/sshd", "auth required pam_nologin.so\n@include common-session\n")
        self.put("/etc/pam.d/common-session", "session [default=1]  pam_limits.so # why\n")
        self.put(SWAPPINESS, "60\n")
        self.put(PORTS, "32768\t60999\n")
        self.limit(FACTORY)
        self.programs = {
            "systemctl show": self._show,
            "systemctl daemon-reload": self._reload,
            "prlimit --pid=7 --memlock=": self._prlimit,
        }

    def limit(self, value: str) -> None:
        self.put(
            "/proc/7/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            f"Max locked memory         {value:<20} {value:<20} bytes     \n",
        )

    def _show(self, argv: list[str]) -> str:
        assert argv[3:5] == ["ssh.service", "sshd.service"]
        known = (
            f"MainPID=7\nLimitMEMLOCK={self.loaded}\nLimitMEMLOCKSoft={self.loaded}\n"
            f"Id=ssh.service\nDropInPaths={DROP_IN}\nLoadState=loaded\n"
            f"NeedDaemonReload={'yes' if self._on_disk() != self.loaded else 'no'}\n"
        )
        missing = "MainPID=0\nLimitMEMLOCK=\nId=slurmd.service\nLoadState=not-found\n"
        return "\n".join([known, known, missing])

    def _on_disk(self) -> str:
        return (self.read(DROP_IN) or f"=\n={FACTORY}\n").split("=")[-1].strip()

    def _reload(self, argv: list[str]) -> str:  # noqa: ARG002
        self.loaded = self._on_disk()
        return ""

    def _prlimit(self, argv: list[str]) -> str:
        self.limit(argv[2].rpartition(":")[2])
        return ""


def arguments(**changed: object) -> dict[str, Any]:
    own = {"memlock_services": ["ssh", "sshd", "slurmd"], "sysctl": {"vm.swappiness": 1}}
    return given("limits", **{**own, **changed})
