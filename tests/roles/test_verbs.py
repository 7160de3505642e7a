"""Whether an RDMA device registers dma-buf memory: what libibverbs answers, and what that means."""

import ctypes
import errno
from typing import Any

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.peermem import dmabuf
from plugins.module_utils.plan import NotYet


class Library:
    """A libibverbs with one device, which answers to a registration with an error."""

    def __init__(self, error: int, fails: str = "") -> None:
        self.error = error
        self.fails = fails
        self.closed: list[str] = []

    def _get(self, name: str) -> int | None:
        ctypes.set_errno(self.error if name == self.fails else 0)
        return None if name == self.fails else 7

    def ibv_get_device_list(self, number: None) -> list[int | None] | None:  # noqa: ARG002
        return [1, None] if self._get("ibv_get_device_list") else None

    def ibv_free_device_list(self, devices: list[int | None]) -> None:  # noqa: ARG002
        self.closed.append("list")

    def ibv_get_device_name(self, device: int) -> bytes:  # noqa: ARG002
        return b"mlx5_0"

    def ibv_open_device(self, device: int) -> int | None:  # noqa: ARG002
        return self._get("ibv_open_device")

    def ibv_alloc_pd(self, context: int) -> int | None:  # noqa: ARG002
        return self._get("ibv_alloc_pd")

    def ibv_reg_dmabuf_mr(self, *given: int) -> None:
        assert given == (7, 0, 0, 0, -1, 0)
        ctypes.set_errno(self.error)

    def ibv_dealloc_pd(self, domain: int) -> None:  # noqa: ARG002
        self.closed.append("domain")

    def ibv_close_device(self, context: int) -> None:  # noqa: ARG002
        self.closed.append("device")


def use(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    monkeypatch.setattr(dmabuf, "_library", lambda: library)


@pytest.mark.parametrize(
    ("error", "obstacle"),
    [
        (errno.EBADF, ""),
        (errno.EINVAL, ""),
        (errno.EOPNOTSUPP, "mlx5_0's driver does not register dma-buf memory (Operation not s"),
        (errno.EPROTONOSUPPORT, "mlx5_0's driver does not register dma-buf memory (Protocol not"),
    ],
)
def test_error_of_a_bad_descriptor_tells(monkeypatch, error, obstacle):
    library = Library(error)
    use(monkeypatch, library)
    said = dmabuf.dmabuf_obstacle("mlx5_0")
    assert said.startswith(obstacle)
    assert bool(said) == bool(obstacle)
    assert library.closed == ["list", "domain", "device"]


@pytest.mark.parametrize(
    ("device", "code", "call", "error", "said"),
    [
        ("mlx5_0", errno.ENOMEM, "ibv_get_device_list", NodeError, "ibv_get_device_list: Cannot a"),
        ("mlx5_0", errno.ENOMEM, "ibv_open_device", NodeError, "ibv_open_device: Cannot allocate"),
        ("mlx5_0", errno.ENOMEM, "ibv_alloc_pd", NodeError, "ibv_alloc_pd: Cannot allocate mem"),
        ("mlx5_0", errno.ENOSYS, "ibv_get_device_list", NotYet, "modprobe ib_uverbs"),
        ("mlx5_7", errno.EBADF, "", NotYet, "mlx5_7: libibverbs does not know it"),
    ],
)
def test_device_that_cannot_be_asked_may_come_or_is_an_error(
    monkeypatch, device, code, call, error, said
):
    use(monkeypatch, Library(code, fails=call))
    with pytest.raises(error, match=said):
        dmabuf.dmabuf_obstacle(device)


def test_old_library_cannot(monkeypatch: pytest.MonkeyPatch):
    use(monkeypatch, object())
    assert "older than rdma-core 34" in dmabuf.dmabuf_obstacle("mlx5_0")


def test_missing_library_may_come(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str, **options: Any) -> None:  # noqa: ARG001
        raise OSError("no such file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(NotYet, match="libibverbs is not installed: no such file"):
        dmabuf.dmabuf_obstacle("mlx5_0")
