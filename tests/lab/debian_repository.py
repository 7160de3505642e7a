"""A flat, signed repository of packages with the vendor's names and layout."""

from __future__ import annotations

import email.utils
import hashlib
import os
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.tables import cases

# The host, as nodes of the lab see it.
HOST = "10.0.2.2"
DKMS_VERSION = {"25.07": "25.07.OFED.25.07.0.9.7.1", "24.10": "24.10.OFED.24.10.1.1.4.1"}
DKMS_CONF = cases(__file__, "dkms_conf")
# The kernel's own module, whose author's name gives way to a version, as OFED's modules have one.
BUILD = cases(__file__, "build")
POSTINST = cases(__file__, "postinst")
PRERM = "#!/bin/sh\ndkms remove mlnx-ofed-kernel/{version} --all || true\n"


class Packages:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)

    def add(
        self,
        name: str,
        version: str,
        depends: str = "",
        files: dict[str, str] | None = None,
        scripts: dict[str, str] | None = None,
        more: str = "",
    ) -> None:
        tree = self.directory / f"{name}.tree"
        control = [
            *(f"Package: {name}", f"Version: {version}", "Architecture: all"),
            *("Maintainer: Lab <lab@example.org>", f"Description: stand-in for {name}"),
        ]
        control += [f"Depends: {depends}"] if depends else []
        control += [more] if more else []
        texts = {"DEBIAN/control": "\n".join(control) + "\n", **(files or {})}
        texts.update({f"DEBIAN/{script}": text for script, text in (scripts or {}).items()})
        for path, text in texts.items():
            target = tree / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            executable = path.startswith(("DEBIAN/p", "/usr/bin", "/usr/sbin", "/etc/init.d"))
            target.chmod(0o755 if executable else 0o644)
        run("dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(self.directory))
        shutil.rmtree(tree)

    def publish(self, key: Key | None) -> None:
        index = run("dpkg-scanpackages", "--multiversion", ".", cwd=self.directory)
        (self.directory / "Packages").write_text(index)
        digest = hashlib.sha256(index.encode()).hexdigest()
        release = [
            f"Date: {email.utils.formatdate(usegmt=True)}",
            f"SHA256:\n {digest} {len(index.encode())} Packages",
        ]
        (self.directory / "Release").write_text("\n".join(release) + "\n")
        if key is not None:
            key.sign(self.directory)


class Key:
    def __init__(self, home: Path, public: Path) -> None:
        home.mkdir(mode=0o700)
        self.environment = {**os.environ, "GNUPGHOME": str(home)}
        self.gpg(*(["--passphrase", "", "--quick-gen-key", "Lab", "rsa2048", "sign", "never"]))
        public.write_text(self.gpg("--armor", "--export"))
        listed = self.gpg("--with-colons", "--fingerprint").splitlines()
        self.fingerprint = next(line for line in listed if line.startswith("fpr")).split(":")[9]

    def gpg(self, *words: str) -> str:
        return run("gpg", "--batch", "--yes", "--quiet", *words, environment=self.environment)

    def sign(self, directory: Path) -> None:
        self.gpg("--clearsign", "-o", f"{directory}/InRelease", f"{directory}/Release")

    def close(self) -> None:
        run("gpgconf", "--kill", "all", environment=self.environment)


def run(*argv: str, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def driver(made: Packages, release: str) -> None:
    version = DKMS_VERSION[release]
    short = version.partition(".OFED.")[2]
    base = f"/usr/src/mlnx-ofed-kernel-{version}"
    scripts = {"postinst": POSTINST.format(version=version), "prerm": PRERM.format(version=version)}
    files = {
        f"{base}/dkms.conf": DKMS_CONF.format(version=version),
        f"{base}/build.sh": BUILD.format(short=short),
    }
    made.add("mlnx-ofed-kernel-dkms", f"{version}-1", "dkms", files, scripts)
    said = {"25.07": "OFED-internal-25.07-0.9.7:", "24.10": "MLNX_OFED_LINUX-24.10-1.1.4.0:"}
    info = f"#!/bin/sh\necho {said[release]}\n"
    made.add("ofed-scripts", f"{version}-1", files={"/usr/bin/ofed_info": info})
    openibd = "#!/bin/sh\nmodprobe -r mlx5_core\nmodprobe mlx5_core\n"
    made.add("mlnx-ofed-kernel-utils", f"{version}-1", files={"/etc/init.d/openibd": openibd})


PARTS = "mlnx-ofed-kernel-dkms (= {0}-1), mlnx-ofed-kernel-utils (= {0}-1), ofed-scripts (= {0}-1)"


def doca(made: Packages) -> None:
    driver(made, "25.07")
    depends = PARTS.format(DKMS_VERSION["25.07"]) + ", mlnx-tools"
    made.add("mlnx-tools", "25.07-0.2507097")
    made.add("doca-ofed", "3.1.0-091513", depends)


def mlnx_ofed(made: Packages) -> None:
    driver(made, "24.10")
    made.add("mlnx-ofed-all", "24.10-1.1.4.0", PARTS.format(DKMS_VERSION["24.10"]))


def compiler(made: Packages, kernel: str) -> None:
    """Have the distribution's own DKMS, and stand-ins for what it needs and does not use here."""
    run("apt-get", "-q", "download", "dkms", cwd=made.directory)
    for name in ("gcc", "make", "dpkg-dev", "patch", "build-essential", "lsb-release"):
        made.add(name, "99")
    headers = f"/usr/src/linux-headers-{kernel}"
    link = f"#!/bin/sh\nln -sfn {headers} /lib/modules/{kernel}/build\n"
    empty = [f"{headers}/.config", f"{headers}/include/generated/autoconf.h"]
    files = {f"{headers}/Makefile": "all:\n", **dict.fromkeys(empty, "")}
    made.add(f"linux-headers-{kernel}", "99", "", files, {"postinst": link})


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


def serve(directory: Path) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
