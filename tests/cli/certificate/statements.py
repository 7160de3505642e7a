"""Certificates of a test: read, altered, signed again, judged."""

import json
from datetime import UTC, datetime

from tests.cli.certified import public

from rdmaprov.certificate import ssh_signature
from rdmaprov.certificate.statement import NODE, OPERATOR, as_bytes, node_text, sections
from rdmaprov.certificate.verify import verify
from rdmaprov.cli.certificate_run import as_data


def judge(run, fleet, now=None):
    return verify(run / "certificate.json", fleet.allowed, now or datetime.now(UTC)).objections


def read(run):
    return json.loads((run / "certificate.json").read_text())


def rewrite(run, statement, key=None):
    data = as_bytes(statement)
    (run / "certificate.json").write_bytes(data)
    if key:
        (run / "certificate.json.sig").write_bytes(ssh_signature.sign(data, key, OPERATOR))


def countersign(fleet, predicate, name, key=None):
    key = key or fleet.roots[name] / "etc/ssh/ssh_host_ed25519_key"
    text = node_text(predicate, name, sections(predicate))
    signature = ssh_signature.sign(text.encode(), key, NODE).decode()
    entry = {"text": text, "key": public(key), "signature": signature, "missing": ""}
    predicate["countersignatures"][name] = entry


def kinds(objections):
    return {as_data(each)["kind"] for each in objections}


def places(objections):
    return [as_data(each)["where"] for each in objections]


def leaves(data, path=()):
    if isinstance(data, (dict, list)):
        pairs = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in pairs:
            yield from leaves(value, (*path, key))
    else:
        yield path, data


def altered(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return value[:-1] + ("a" if value[-1] != "a" else "b") if value else "x"
