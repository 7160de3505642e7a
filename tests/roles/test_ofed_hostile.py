"""Keys and archives from a server that is not what it seems."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.ofed import vendor_repository
from tests.roles.fake import FakeMachine

KEY = b"\x04" + bytes(11)
KEY_PACKET = bytes([0xC6, len(KEY)]) + KEY  # a public key, new format


def armor(data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{text}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_key_of_made_up_packets_is_found():
    assert len(vendor_repository.fingerprints(armor(KEY_PACKET * 2))) == 2


@pytest.mark.parametrize(
    ("packet", "says"),
    [
        # A literal packet whose first part has 512 bytes: read as five octets of length, it
        # would have swallowed the second key.
        (bytes([0xCB, 0xE9]) + bytes(512) + b"\x00", "partial length"),
        (bytes([0xA3]) + bytes(16), "without a length"),
        (b"\xc6", "it is cut"),
        (bytes([0xC6, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), "it is cut"),
    ],
)
def test_packet_that_could_hide_a_key_is_refused(packet: bytes, says: str):
    with pytest.raises(ValueError, match=says):
        vendor_repository.fingerprints(armor(KEY_PACKET + packet + KEY_PACKET))


class Endless(http.server.BaseHTTPRequestHandler):
    """Sends bytes until nobody reads them."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(1 << 20))
        except OSError:
            self.close_connection = True

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


@pytest.fixture
def endless() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/archive.tgz"
    server.shutdown()


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [("FILE_BYTES", 5 << 20, "has more than 5242880 bytes"), ("FILE_TIMEOUT_S", 0.2, "took more")],
)
def test_archive_without_an_end_is_refused_and_nothing_is_left(
    machine: FakeMachine,
    monkeypatch: pytest.MonkeyPatch,
    endless: str,
    limit: str,
    value: float,
    says: str,
):
    monkeypatch.setattr(vendor_repository, limit, value)
    with pytest.raises(NodeError, match=says):
        vendor_repository.file(
            machine, endless, hashlib.sha256().hexdigest(), "/var/lib/x/archive.tgz"
        )
    assert list(Path(machine.path("/var/lib/x")).iterdir()) == []
