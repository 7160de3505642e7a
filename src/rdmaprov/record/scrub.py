"""A record without secrets: passwords, keys and tokens, wherever a node's text has them."""

import re
from collections.abc import Callable
from typing import Any

from rdmaprov.inventory.secrets import LONG_WORDS, SHORT_WORDS, is_secret_name
from rdmaprov.runs.masks import Mask

REMOVED = "REMOVED"
# A node chooses its text: without bounds, a long word would take hours.
# A short word stands alone, or begins with a capital behind a small letter, as StoragePass does.
_SHORT = (
    rf"(?:[\w.-]{{0,64}}[_.-])?(?:{SHORT_WORDS}|pin|cak)"
    r"|[\w.-]{0,64}(?-i:(?<=[a-z0-9])(?:Pass|Pwd|PWD))"
)
_NAME = (
    rf"(?:[\w.-]{{0,64}}(?:{LONG_WORDS}|chap[_-]?key|wep[_-]key)[\w.-]{{0,64}}|{_SHORT})"
    r"(?<!flags)(?<!type)"
)
# As programs write a value: in quotes, or to the end of a word. Behind a name that begins its line,
# also the words that follow. `grep -Z` has a NUL before each line.
_QUOTED = r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
_LINE = re.compile(
    rf"(?mi)((?:^|\0)[ \t]*(?:-[ \t]+|export[ \t]+)?{_NAME}[ \t]*[:=][ \t]*)(?![|>][-+]?[ \t]*$)"
    r"(?![\"'{\[])[^\s#\0][^\n\0]*"
)
_VALUE = re.compile(
    rf"(?i)((?<![\w.-])[\"']?{_NAME}[\"']?[ \t]*[:=][ \t]*)(?:{_QUOTED}|[^\s,;&|>\"'{{}}\[\]\0]+)"
)
_OPTION = re.compile(rf"(?i)(?<![^\s\0])(--?{_NAME}[ \0])[^\s\0]+")
_IS_OPTION = re.compile(rf"(?i)--?{_NAME}")
# A block of YAML: of a secret's name, or cloud-init's list of users with their passwords.
_BLOCK = re.compile(
    rf"(?mi)^([ \t]*)((?:{_NAME}:(?:[ \t]*[|>][-+]?)?|(?:list|users):[ \t]*[|>][-+]?)[ \t]*\n)"
    r"(?:(?:\1[ \t]+.*|[ \t]*)\n?)+"
)
_PAM = r"(?:required|requisite|sufficient|optional|include|substack|\[|-)"  # pam.conf(5)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)",
            re.DOTALL,
        ),
        rf"-----BEGIN \1----- {REMOVED} -----END \1-----",
    ),
    (
        re.compile(
            r"\b((?:sk-)?(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-[\w-]+)(?:@openssh\.com)?) AAAA"
            r"[0-9A-Za-z+/=]+(?: [^\s\"'\0]+)?"
        ),
        rf"\1 {REMOVED}",
    ),
    (re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@\"'\0]+@"), rf"\1{REMOVED}@"),
    (
        re.compile(r"(?i)(proxy\w{0,16}[=:][\"']?)[^\s/@:\"'\0]{1,64}:[^\s/@\"'\0]{1,256}@"),
        rf"\1{REMOVED}@",
    ),
    (re.compile(r"(root=iscsi:)[^\s@\0]{1,256}@"), rf"\1{REMOVED}@"),
    (re.compile(r"(?i)([?&](?:sig|auth|key|code|sas)=)[^\s&\"'\0]+"), rf"\1{REMOVED}"),
    (
        re.compile(
            rf"(?mi)(^[ \t]*(?:wpa-psk|wpa-password|password)[ \t]+)(?!{_PAM})[^\s:=\0][^\n\0]*"
        ),
        rf"\1{REMOVED}",
    ),
    # Keys of WireGuard, 32 bytes in base64, and of MACsec in hexadecimal digits.
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])"), REMOVED),
    (
        re.compile(r"(?mi)(^[ \t]*key[ \t]*[=:][ \t]*[\"']?)(?:[0-9a-f]{32}){1,2}\b"),
        rf"\1{REMOVED}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)[ ]+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {REMOVED}"),
    # Of a command in a unit or a script, and of snmpd.conf(5).
    (
        re.compile(
            r"(?m)(\bsshpass[ \t]+-p[ \t]*|\bcurl[ \t][^\n\0]{0,256}?-u[ \t]*[^\s:\0]{1,64}:"
            r"|\bipmitool[ \t][^\n\0]{0,256}?-P[ \t]*|^[ \t]*r[ow]community6?[ \t]+)[^\s\0]+"
        ),
        rf"\1{REMOVED}",
    ),
    (re.compile(r"(?i)(\blogin[ \t]+\S+[ \t]+password[ \t]+)\S+"), rf"\1{REMOVED}"),
    (
        # Tokens of Amazon, Google, GitHub, GitLab, PyPI, Docker, Slack, Hugging Face and NVIDIA,
        # keys of age and of NVMe, JSON Web Tokens, and password hashes of crypt(5) and GRUB.
        re.compile(
            r"\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bpypi-[\w-]{16,}|\bdckr_pat_[\w-]{16,}"
            r"|\bglrt-[\w-]{16,}|\bAGE-SECRET-KEY-1[0-9A-Z]{50,}|\bsk-[A-Za-z0-9_-]{20,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
            r"|\bDHHC-1:\d\d:[\w+/=]+|\bgrub\.pbkdf2\.[\w.]+|(?<=hooks\.slack\.com/services/)[\w/]+"
            r"|\bxox[abprs]-[\w-]{10,}|\bhf_\w{20,}|\bnvapi-[\w-]{16,}"
            r"|\beyJ[\w-]+\.eyJ[\w-]+\.[\w-]+|\$(?:[156y7]|2[aby]|gy)\$[^\s:\"'\0]{8,}"
        ),
        REMOVED,
    ),
    (_BLOCK, rf"\1\2\1  {REMOVED}\n"),
    (_LINE, rf"\1{REMOVED}"),
    (_OPTION, rf"\1{REMOVED}"),
)


class Scrub:
    """Takes secrets out of a node's texts; equal texts stay equal."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask

    def text(self, text: str) -> str:
        """Return a text without secrets; what surrounds them stays as it was."""
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return self._mask.text(_VALUE.sub(_same_quotes, text))

    def data(self, data: Any) -> Any:  # noqa: ANN401 - whatever JSON can be
        """Return plain data without secrets in its texts, its keys and its command lines."""
        if isinstance(data, dict):
            return {self.text(key): self._item(key, item) for key, item in data.items()}
        if isinstance(data, list):
            before = [None, *data]
            return [
                REMOVED if _is_option(last) and isinstance(item, str) else self.data(item)
                for last, item in zip(before, data, strict=False)
            ]
        return self.text(data) if isinstance(data, str) else data

    def _item(self, key: str, item: Any) -> Any:  # noqa: ANN401
        secret = isinstance(item, str) and item and is_secret_name(key)
        return REMOVED if secret else self.data(item)


def _is_option(word: object) -> bool:
    return isinstance(word, str) and _IS_OPTION.fullmatch(word) is not None


def _same_quotes(found: re.Match[str]) -> str:
    value = found[0][len(found[1]) :]
    quote = value[0] if value[:1] in ("'", '"') else ""
    return f"{found[1]}{quote}{REMOVED}{quote}"


def map_texts(data: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON
    """Return plain data with each of its texts and keys changed."""
    if isinstance(data, dict):
        return {change(key): map_texts(item, change) for key, item in data.items()}
    if isinstance(data, list):
        return [map_texts(item, change) for item in data]
    return change(data) if isinstance(data, str) else data
