"""DOCA-OFED and MLNX_OFED of their names, layout and signatures, installed with real apt."""

import pytest
from tests.lab import debian_repository
from tests.lab.debian_repository import HOST, Key, Packages

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
STATUS = "dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\\n' 'doca-ofed' 'mlnx-*' || :"
VERSION = "modinfo -F version mlx5_core"
UNSUPPORTED = "/etc/rdmaprov-lab-unsupported"


@pytest.fixture(scope="module")
def site(lab, tmp_path_factory):
    root = tmp_path_factory.mktemp("repositories")
    kernel = lab.run(NODE, "uname -r").strip()
    served = root / "served"
    keys = {name: Key(root / f"{name}.home", root / f"{name}.asc") for name in ("right", "wrong")}
    for name, build in (("doca", debian_repository.doca), ("mlnx", debian_repository.mlnx_ofed)):
        made = Packages(served / name)
        build(made)
        debian_repository.compiler(made, kernel)
        made.publish(keys["right"])
    for name in keys:
        (root / f"{name}.asc").rename(served / f"{name}.asc")
    server = debian_repository.serve(served)
    base = f"http://{HOST}:{server.server_port}"

    def variables(source, version, directory, key="right"):
        return {
            "ofed_source": source,
            "ofed_version": version,
            "ofed_repository_url": f"{base}/{directory}/",
            "ofed_repository_key_url": f"{base}/{key}.asc",
            "ofed_repository_key_fingerprint": keys[key].fingerprint,
            "apply_reboot": "never",
        }

    yield variables
    server.shutdown()
    for key in keys.values():
        key.close()


@pytest.fixture(autouse=True)
def _load_driver(lab):
    lab.run(NODE, "modprobe mlx5_core")


def doca(site, **changed):
    return {**site("doca", "3.1.0", "doca"), **changed}


def mlnx(site):
    return site("mlnx_ofed", "24.10-1.1.4.0", "mlnx")


@pytest.fixture
def halfway(lab, play, site):
    """Begin where an installation ended halfway, with what ended it mended."""

    def fail():
        lab.run(NODE, f"modprobe mlx5_core; touch {UNSUPPORTED}")
        assert play.run(doca(site)).returncode != 0
        lab.run(NODE, f"rm {UNSUPPORTED}")

    lab.begin_from(state("halfway", site), fail, TOUCHES)


@pytest.fixture
def doca_installed(lab, play, site):
    begin_with("doca", lab, play, site, doca(site))


@pytest.fixture
def mlnx_installed(lab, play, site):
    begin_with("mlnx", lab, play, site, mlnx(site))


def begin_with(name, lab, play, site, arguments):
    def install():
        lab.run(NODE, "modprobe mlx5_core")
        assert play.changes(arguments)

    lab.begin_from(state(name, site), install, TOUCHES)


def state(name, site):
    port = doca(site)["ofed_repository_url"].split(":")[2].partition("/")[0]
    return f"{name}-{port}"


def test_repository_that_another_key_signed_is_refused(lab, play, site):
    assert play.run(site("doca", "3.1.0", "doca", key="wrong")).returncode != 0
    assert "which ofed_repository_key_url does not have" in play.said
    assert lab.call(NODE, "ls /etc/apt/sources.list.d/rdmaprov-ofed.list").returncode != 0


def test_kernel_that_dkms_cannot_compile_for_is_told(lab, play, site):
    lab.run(NODE, f"touch {UNSUPPORTED}")
    assert play.run(doca(site)).returncode != 0
    assert "compat.h:7: error: kernel" in play.said
    assert "iF" in lab.run(NODE, STATUS)
    lab.run(NODE, f"rm {UNSUPPORTED}")
    lab.keep(state("halfway", site))


@pytest.mark.usefixtures("halfway")
def test_halfway_installation_is_repaired(lab, play, site):
    assert play.changes(doca(site))
    assert "mlx5_core: version none runs, 25.07.0.9.7.1 is installed" in play.said
    assert "hi  doca-ofed 3.1.0-091513" in lab.run(NODE, STATUS)
    assert lab.run(NODE, VERSION).strip() == "25.07.0.9.7.1"
    assert "linux-image-amd64" in lab.run(NODE, "apt-mark showhold")
    assert not play.changes(doca(site))
    lab.keep(state("doca", site))


@pytest.mark.usefixtures("doca_installed")
def test_drivers_are_restarted_where_that_is_allowed(lab, play, site):
    wanted = doca(site, ofed_restart="if-needed")
    assert not play.changes(wanted)
    assert "not restarted: rdma_cm is held by" in play.said
    lab.run(NODE, "modprobe -r rdma_rxe ib_iser rpcrdma")
    assert play.changes(wanted)
    assert lab.run(NODE, "cat /sys/module/mlx5_core/version").strip() == "25.07.0.9.7.1"


@pytest.mark.hours
@pytest.mark.usefixtures("doca_installed")
def test_other_flavour_replaces_it(lab, play, site):
    assert play.changes(mlnx(site))
    said = lab.run(NODE, STATUS)
    assert "hi  mlnx-ofed-all 24.10-1.1.4.0" in said
    assert "doca-ofed" not in said
    assert lab.run(NODE, VERSION).strip() == "24.10.1.1.4.1"
    assert not play.changes(mlnx(site))
    lab.keep(state("mlnx", site))


@pytest.mark.hours
@pytest.mark.usefixtures("mlnx_installed")
def test_way_back_to_the_kernels_own_drivers(lab, play):
    inbox = {"ofed_source": "inbox", "apply_reboot": "never"}
    assert play.changes(inbox)
    assert "mlnx-ofed" not in lab.run(NODE, STATUS)
    assert lab.run(NODE, VERSION).strip() == ""
    assert lab.run(NODE, "apt-mark showhold") == ""
    assert not play.changes(inbox)
