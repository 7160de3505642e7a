"""Options of the module ofed. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  source:
    description: Which drivers the node runs; the other flavours are removed first.
    type: str
    choices: [inbox, doca, mlnx_ofed]
    default: inbox
  version:
    description: Version to install, such as 3.1.0 for doca and 24.10-1.1.4.0 for
      mlnx_ofed; must be empty for inbox.
    type: str
    default: ''
  profile:
    description: Package that pulls in the rest. Used with doca only.
    type: str
    choices: [doca-ofed, doca-networking, doca-roce, doca-all]
    default: doca-ofed
  repository_url:
    description: Repository to install from; empty for the vendor's repository of
      this version.
    type: str
    default: ''
  repository_key_url:
    description: Where the key that signs the repository is; empty for the vendor's.
    type: str
    default: ''
  repository_key_fingerprint:
    description: Fingerprint that the key must have, 40 hexadecimal digits; empty
      trusts the key as served over https.
    type: str
    default: ''
  package_url:
    description: A repository package or archive to install from in place of a repository;
      needs O(package_sha256).
    type: str
    default: ''
  package_sha256:
    description: SHA-256 of the file at O(package_url), 64 hexadecimal digits.
    type: str
    default: ''
  hold:
    description: Hold driver, kernel and GPU driver packages together, so that an
      upgrade of one cannot break the others.
    type: bool
    default: true
  restart:
    description: Whether the role may restart the driver stack, under the guard, when
      no one uses it; otherwise a reboot is due.
    type: str
    choices: [never, if-needed]
    default: never
"""
