"""Hand a notification to a receiver: a URL, or a program of the site's own."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import rdmaprov

SIGNATURE = "X-Rdmaprov-Signature"
# Our choice: a receiver that restarts is back; a run need not wait longer for one that is gone.
PAUSES_S = (1.0, 4.0)
LIMIT_S = 10.0
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
        body: JSON.
        secret: signs what goes to a URL; empty for no signature.
        sleep: waits between two attempts.

    Raises:
        NotDelivered: nobody took it.

    """
    send = _post if is_url(target) else _call
    for pause in (*PAUSES_S, None):
        try:
            send(target, body, secret)
        except (OSError, HTTPException, subprocess.SubprocessError, ValueError) as error:
            if pause is None or not _may_pass(error):
                raise NotDelivered(_reason(error)) from error
            sleep(pause)
        else:
            return


def is_url(target: str) -> bool:
    """Return whether a receiver is a URL."""
    return urlsplit(target).scheme in ("http", "https")


def shown_target(target: str) -> str:
    """Return a receiver without what may be secret of it: user, path and query of a URL."""
    return f"{urlsplit(target).scheme}://{urlsplit(target).hostname}" if is_url(target) else target


def signature(body: bytes, secret: bytes, now: int) -> str:
    """Return the signature of a notification: HMAC-SHA256 (RFC 2104) of time, a dot and body."""
    digest = hmac.new(secret, f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={now},sha256={digest}"


def _post(target: str, body: bytes, secret: bytes) -> None:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"rdmaprov/{rdmaprov.__version__}",
    }
    if secret:
        headers[SIGNATURE] = signature(body, secret, int(time.time()))
    request = urllib.request.Request(target, body, headers, method="POST")  # noqa: S310 - is_url
    opener = urllib.request.build_opener(_NoRedirect)
    with opener.open(request, timeout=LIMIT_S) as answer:
        answer.read(1024)


def _call(target: str, body: bytes, _secret: bytes) -> None:
    program = str(Path(target).resolve())  # a name alone would be looked for in PATH
    subprocess.run([program], input=body, capture_output=True, check=True, timeout=LIMIT_S)


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
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
