"""Find what is new of a site, and hand it to a receiver: a URL, or a program of the site's own."""

import hashlib
import hmac
import os
import secrets
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import rdmaprov
from rdmaprov.history.answer import History
from rdmaprov.history.changes import SeriesChange
from rdmaprov.history.lines import change_text
from rdmaprov.history.metrics import site_label
from rdmaprov.history.standing import GOOD
from rdmaprov.runs.groups import fold_names
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.results import read_json

SIGNATURE = "X-Rdmaprov-Signature"
# Our choice: a receiver that restarts is back; a run need not wait longer for one that is gone.
PAUSES_S = (0.5, 2.0)
LIMIT_S = 6.0  # for all attempts together, whatever a receiver or a resolver does
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})  # RFC 9110, section 15: may pass


class NotDelivered(Exception):
    """A notification that nobody took; the message says why, on one line."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows none: what is signed for one receiver is for no other."""

    def redirect_request(self, *_request: object) -> None:
        """Return nothing, so that the answer is an error."""


def deliver(
    target: str, body: bytes, secret: bytes, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Hand a notification to a receiver; try again if that may help.

    Args:
        target: an http or https URL, else a program that reads it from its standard input.
        secret: signs what goes to a URL; empty for no signature.

    Raises:
        NotDelivered: nobody took it.
    """
    ended: list[str] = []
    work = threading.Thread(
        target=lambda: ended.append(_attempts(target, body, secret, sleep)), daemon=True
    )
    work.start()
    work.join(LIMIT_S)  # a socket's own limit is of each read, and a name has none
    why = ended[0] if ended else f"no end within {LIMIT_S:.0f} s"
    if why:
        raise NotDelivered(_without(target, why))


def _attempts(target: str, body: bytes, secret: bytes, sleep: Callable[[float], None]) -> str:
    """Return why nobody took it; empty if somebody did."""
    send = _post if is_url(target) else _call
    end = time.monotonic() + LIMIT_S
    for pause in (*PAUSES_S, None):
        try:
            send(target, body, secret, end)
        except (OSError, HTTPException, subprocess.SubprocessError, ValueError) as error:
            if pause is None or not _may_pass(error):
                return _reason(error) or type(error).__name__
            sleep(pause)
        else:
            return ""
    raise AssertionError("the last attempt returns")


def is_url(target: str) -> bool:
    """Return whether a receiver is a URL."""
    return target.lower().startswith(("http://", "https://"))


def url_problem(url: str) -> str:
    """Return why a URL cannot be a receiver, without any part of the URL; empty if it can."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has a space, or a character beyond printable ASCII"
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "is not valid: its host or port is none"
    if "@" in parts.netloc:
        return "has a user or password, which is not sent: use --notify-secret"
    return "" if has_host else "has no host"


def _without(target: str, text: str) -> str:
    """Return a text without what of a URL may be secret."""
    parts = urlsplit(target) if is_url(target) else None
    return Mask((target, parts.path.strip("/"), parts.query) if parts else ()).text(text)


def shown_target(target: str) -> str:
    """Return a receiver without what may be secret of it: user, path and query of a URL."""
    return f"{urlsplit(target).scheme}://{urlsplit(target).hostname}" if is_url(target) else target


def signature(body: bytes, secret: bytes, now: int) -> str:
    """Return the signature of a notification: HMAC-SHA256 (RFC 2104) of time, a dot and body."""
    digest = hmac.new(secret, f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={now},sha256={digest}"


def _post(target: str, body: bytes, secret: bytes, end: float) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": f"rdmaprov/{rdmaprov.__version__}"}
    if secret:
        headers[SIGNATURE] = signature(body, secret, int(time.time()))
    request = urllib.request.Request(target, body, headers, method="POST")  # noqa: S310 - is_url
    opener = urllib.request.build_opener(_NoRedirect)
    with opener.open(request, timeout=_left(end)) as answer:
        answer.read(1024)


def _call(target: str, body: bytes, _secret: bytes, end: float) -> None:
    program = str(Path(target).resolve())  # a name alone would be looked for in PATH
    silent = subprocess.DEVNULL  # a pipe would be held by whatever the program leaves behind
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True
    ) as started:
        try:
            started.communicate(body, _left(end))
        finally:
            if started.returncode is None:
                os.killpg(started.pid, signal.SIGKILL)
    if started.returncode:
        raise subprocess.CalledProcessError(started.returncode, program)


def _left(end: float) -> float:
    return max(0.1, end - time.monotonic() - 0.5)  # it says so itself before it is left alone


def _may_pass(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _LATER
    passes = isinstance(error, (OSError, HTTPException))
    return passes and not isinstance(error, (FileNotFoundError, PermissionError))


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, subprocess.CalledProcessError):
        return f"the program ended with {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no end within {LIMIT_S:.0f} s"
    if isinstance(error, (HTTPException, ValueError)):
        return "what answered does not speak HTTP"
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


Snapshot = dict[str, dict[str, str]]


def snapshot(found: History) -> Snapshot:
    """Return what a notification is about, by kind: verdicts, nodes that are not good, drops."""
    total = len(found.nodes)
    return {
        "runs": {verb: run.verdict for verb, run in found.newest.runs.items()},
        "nodes": {
            f"{verb} {node}": str(own["state"])
            for node, verbs in found.nodes.items()
            for verb, own in verbs.items()
            if own["state"] not in GOOD
        },
        "worse": {
            _drop_key(each): change_text(each, total)
            for each in found.changes
            if each.is_worse and each.holds
        },
    }


def _drop_key(each: SeriesChange) -> str:
    """Return what stays of a drop from run to run; noise moves its first run."""
    own = each.series
    return f"{own.stage}, {own.what}, rail {own.rail}, {own.scope}: {fold_names(each.nodes)}"


def message(found: History, was: Snapshot, now: Snapshot) -> dict[str, Any] | None:
    """Return the notification; None if nothing changed but the words of a drop."""
    runs = _differences(was, now, "runs")
    nodes = _differences(was, now, "nodes")
    drops = {
        key: now["worse"].get(key, "") or was["worse"][key]
        for key in was["worse"].keys() ^ now["worse"].keys()
    }
    if not (runs or nodes or drops):
        return None
    return {
        "schema": 1,
        "id": secrets.token_hex(16),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "rdmaprov": rdmaprov.__version__,
        "site": site_label(found.site),
        "exit_code": int(found.exit_code()),
        "runs": [
            {"verb": verb, "was": before, "now": after, "run": found.newest.runs[verb].name}
            for verb, (before, after) in runs.items()
            if after
        ],
        "nodes": [
            {"verb": verb, "node": node, "was": before or "good", "now": after or "good"}
            for key, (before, after) in nodes.items()
            for verb, _, node in [key.partition(" ")]
        ],
        "measurements": [
            {"text": text, "now": "worse" if key in now["worse"] else "no longer worse"}
            for key, text in drops.items()
        ],
    }


def _differences(was: Snapshot, now: Snapshot, kind: str) -> dict[str, tuple[str, str]]:
    old, new = was[kind], now[kind]
    pairs = {key: (old.get(key, ""), new.get(key, "")) for key in {**old, **new}}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def state_path(runs: Path, site: Path, target: str) -> Path:
    """Return the file with what a receiver was told last of a site."""
    own = f"{site.resolve()}\n{target}"
    return runs / f"notified-{hashlib.sha256(own.encode()).hexdigest()[:12]}.json"


def read_state(path: Path) -> Snapshot:
    """Return what was told last; nothing if that cannot be read: it is told again then."""
    empty: Snapshot = {"runs": {}, "nodes": {}, "worse": {}}
    try:
        data = read_json(path)
    except (OSError, ValueError, RecursionError):
        return empty
    return {kind: _texts(data, kind) for kind in empty}


def _texts(data: object, kind: str) -> dict[str, str]:
    found = data.get(kind) if isinstance(data, Mapping) else None
    own = found if isinstance(found, Mapping) else {}
    return {str(key): str(value) for key, value in own.items()}
