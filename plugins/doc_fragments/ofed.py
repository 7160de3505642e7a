"""Options of the module ofed. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  source:
    description: RDMA drivers to run. keep leaves a vendor's OFED as it is; without
      one, it installs the distribution's RDMA tools. The other values remove other
      flavours first.
    type: str
    choices: [keep, inbox, doca, mlnx_ofed]
    default: keep
  version:
    description: Version to install, such as 3.1.0 for doca or 24.10-1.1.4.0 for mlnx_ofed.
      Must be empty for keep and inbox.
    type: str
    default: ''
  profile:
    description: Metapackage to install. Used with doca only.
    type: str
    choices: [doca-ofed, doca-networking, doca-roce, doca-all]
    default: doca-ofed
  repository_url:
    description: Package repository; empty uses the vendor's repository for O(version).
    type: str
    default: ''
  repository_key_url:
    description: Public key of the repository; empty uses the vendor's key.
    type: str
    default: ''
  repository_key_fingerprint:
    description: Fingerprint of that key, 40 hexadecimal digits. If empty, only known
      keys of the vendor are accepted.
    type: str
    default: ''
  package_url:
    description: Repository package or archive to install from, instead of a repository.
      Needs O(package_sha256).
    type: str
    default: ''
  package_sha256:
    description: SHA-256 of the file at O(package_url), 64 hexadecimal digits.
    type: str
    default: ''
  hold:
    description: Hold the driver, kernel and GPU driver packages, so that an upgrade
      of one does not break the others.
    type: bool
    default: true
  restart:
    description: Whether the role may restart the driver stack, under the guard, if
      nothing uses it. Otherwise a reboot is required.
    type: str
    choices: [never, if-needed]
    default: never
"""
