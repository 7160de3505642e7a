"""A made-up Debian node whose packages come and go as apt's and dpkg's do."""

from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.packages.apt import CANDIDATE, Apt
from tests.roles.fake import FakeMachine

KERNEL = "6.1.0-41-amd64"
DEBIAN = "http://mirror.example/debian"
DOCA = "http://mirror/doca/"
MLNX = "http://mirror/mlnx/"
KERNEL_DKMS = "mlnx-ofed-kernel-dkms"
TOOLS = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest")
# By repository: a package, its version, and what comes along.
OFFERS: dict[str, dict[tuple[str, str], list[str]]] = {
    DOCA: {
        ("doca-ofed", "3.1.0-091513"): [KERNEL_DKMS, "ofed-scripts", "rdma-core"],
        (KERNEL_DKMS, "25.07.OFED.25.07.0.9.7.1-1"): [],
        ("ofed-scripts", "25.07.OFED.25.07.0.9.7.1-1"): [],
        ("rdma-core", "2507mlnx58-1.2507097"): [],
    },
    MLNX: {
        ("mlnx-ofed-all", "24.10-1.1.4.0"): [KERNEL_DKMS, "ofed-scripts", "rdma-core"],
        (KERNEL_DKMS, "24.10.OFED.24.10.1.1.4.1-1"): [],
        ("ofed-scripts", "24.10.OFED.24.10.1.1.4.1-1"): [],
        ("rdma-core", "2410mlnx54-1.2410114"): [],
    },
    DEBIAN: {(f"linux-headers-{KERNEL}", "6.1.158-1"): [], ("rdma-core", "44.0-2"): []},
}
OWN = f"/lib/modules/{KERNEL}/kernel/mlx5_core.ko"
VENDORS = f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko"


class AptNode(FakeMachine):
    """A Debian 12 node with its own tools for RDMA.

    `packages` has status and version by name; `broken_build` makes DKMS fail; `cut` makes apt end
    as if it were killed, with what it installs halfway.
    """

    broken_build = False
    cut = False
    unsigned = False
    no_link = False

    def prepare(self) -> None:
        self.packages = dict.fromkeys(TOOLS, ("ii", "44.0-2"))
        self.packages["linux-image-amd64"] = ("ii", "6.1.158-1")
        self.dependents: dict[str, str] = {}
        self.holds: set[str] = set()
        self.dkms: dict[str, set[str]] = {}
        self.loaded_version = ""
        self.put("/proc/sys/kernel/osrelease", KERNEL + "\n")
        modules = (
            "kernel/ib_uverbs.ko:\nkernel/rdma_ucm.ko:\nkernel/mlx5_ib.ko: kernel/ib_core.ko\n"
        )
        self.put(f"/lib/modules/{KERNEL}/modules.dep", modules)
        self.put(f"/boot/vmlinuz-{KERNEL}")
        self.put("/etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
        self.programs = {
            "apt-get": self._apt,
            "env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get": self._apt,
            "env DEBIAN_FRONTEND=noninteractive dpkg --configure -a": self._configure,
            "dpkg --force-remove-reinstreq": self._drop,
            "apt-cache": self._madison,
            "apt-mark showhold": lambda _: "\n".join(sorted(self.holds)),
            "apt-mark hold": lambda argv: self._hold(self.holds | {*argv[2:]}),
            "apt-mark unhold": lambda argv: self._hold(self.holds - {*argv[2:]}),
            "dpkg-query": self._query,
            "modinfo": self._modinfo,
            "uname -m": "x86_64\n",
            "update-initramfs": "",
            "sync -f": "",
        }

    def load(self, version: str) -> None:
        self.put("/sys/module/mlx5_core/initstate", "live\n")
        self.put("/sys/module/mlx5_core/refcnt", "0\n")
        if version:
            self.put("/sys/module/mlx5_core/version", version + "\n")
        else:
            self.remove("/sys/module/mlx5_core/version")

    def said(self, *words: str) -> list[str]:
        """Return the command lines with all these words."""
        return [line for line in self.ran if all(word in line for word in words)]

    def _offers(self) -> dict[str, dict[tuple[str, str], list[str]]]:
        text = (self.read(Apt.repository_file) or "") + (self.read(CANDIDATE) or "")
        return {url: OFFERS[url] for url in OFFERS if url == DEBIAN or f"{url} ./" in text}

    def _apt(self, argv: list[str]) -> str:
        line = " ".join(argv)
        if " update" in line:
            if self.unsigned and "[signed-by=" in (self.read(CANDIDATE) or ""):
                text = f"W: GPG error: {DOCA} ./ InRelease: NO_PUBKEY 96CBD0A3AB0F0E84\nE: no"
                raise CommandFailed(argv, 100, text)
            return ""
        if " --fix-broken" in line:
            return ""
        if " -s " in line:
            removed = [word[:-1] for word in argv if word.endswith("-")]
            gone = [each for each, needs in self.dependents.items() if needs in removed]
            return "".join(f"Remv {name} [1]\n" for name in [*removed, *gone])
        at = argv.index("remove") if "remove" in argv else argv.index("install")
        for word in argv[at + 1 :]:
            if argv[at] == "remove":
                assert word in self.packages, f"E: Unable to locate package {word}"
                self._remove(word)
            else:
                self._install(*word.split("="))
        self._configure(argv)
        return ""

    def _install(self, name: str, version: str) -> None:
        for offered in self._offers().values():
            for along in offered.get((name, version), []):
                self._install(*next(each for each in offered if each[0] == along))
        self.packages[name] = ("iU", version)
        if name.startswith("linux-headers-") and not self.no_link:
            self.put(f"/lib/modules/{KERNEL}/build/Makefile")
        if name == "ofed-scripts":
            flavour = "OFED-internal-25.07-0.9.7:" if "25.07" in version else ""
            self.programs["ofed_info"] = flavour or "MLNX_OFED_LINUX-24.10-1.1.4.0:\n"

    def _remove(self, name: str) -> None:
        self.packages.pop(name, None)
        self.holds.discard(name)
        if name == KERNEL_DKMS:
            self.dkms.clear()
        if name == "ofed-scripts":
            self.programs.pop("ofed_info", None)

    def _drop(self, argv: list[str]) -> str:
        for name in argv[4:]:
            self._remove(name)
        return ""

    def _configure(self, argv: list[str]) -> str:
        if self.cut:
            raise CommandFailed(argv, 137, "Killed")
        status, version = self.packages.get(KERNEL_DKMS, ("ii", ""))
        if status != "ii" and self.broken_build:
            self.packages[KERNEL_DKMS] = ("iF", version)
            log = f"/var/lib/dkms/mlnx-ofed-kernel/{version[:-2]}/build/make.log"
            self.put(log, "CC x.o\nx.c:3: error: kernel 6.1 is not supported\nmake: *** [x.o]\n")
            raise CommandFailed(argv, 100, "dpkg: error processing package\nE: Sub-process failed")
        if version:
            self.programs.setdefault("dkms status", self._status)
            self.programs.setdefault("dkms", self._build)
            self.dkms.setdefault(version[:-2], {KERNEL})
        self.packages = {name: ("ii", each[1]) for name, each in self.packages.items()}
        return ""

    def _status(self, argv: list[str]) -> str:  # noqa: ARG002
        lines = []
        for version, kernels in self.dkms.items():
            lines += [f"mlnx-ofed-kernel/{version}: added"] if not kernels else []
            lines += [f"mlnx-ofed-kernel/{version}, {each}, x86_64: installed" for each in kernels]
        return "\n".join(lines)

    def _build(self, argv: list[str]) -> str:
        self.dkms[argv[2].partition("/")[2]].add(argv[4])
        return ""

    def _query(self, argv: list[str]) -> str:  # noqa: ARG002
        form = "{:<3}\t{}\t{}\n"
        return "".join(form.format(one[0], name, one[1]) for name, one in self.packages.items())

    def _madison(self, argv: list[str]) -> str:
        only = f"Dir::Etc::SourceList={CANDIDATE}" in argv
        rows = []
        for url, offered in self._offers().items():
            if only != (url == DEBIAN):
                rows += [
                    f" {name} | {version} | {url} ./ Packages\n"
                    for name, version in offered
                    if name in argv
                ]
        return "".join(rows)

    def _modinfo(self, argv: list[str]) -> str:
        if argv[-1] != "mlx5_core":
            raise CommandFailed(argv, 1, f"modinfo: ERROR: Module {argv[-1]} not found.")
        built = any(argv[2] in kernels for kernels in self.dkms.values())
        version = next(iter(self.dkms), "").partition(".OFED.")[2]
        lines = f"filename:       {VENDORS if built else OWN}\nlicense: GPL\n"
        return lines + (f"version:        {version}\n" if built else "")

    def _hold(self, names: set[str]) -> str:
        self.holds = names
        return ""
