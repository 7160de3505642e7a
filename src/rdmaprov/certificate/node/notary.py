#!/usr/bin/env python3
"""Countersign, leave, withdraw or check the certificate of a node, as JSON. Needs Python 3.6.

    python3 -c LOADER   with its source and then one JSON document on standard input

`read` returns what the node is. `countersign` signs a text with a host key, if the node still is
what the text says. `leave` writes files, `withdraw` replaces one of them, `check` reads it.
The other verbs change nothing.
"""

import json
import os
import stat
import subprocess
import sys

from rdmaprov.node.devices import names
from rdmaprov.node.identity import read_identity
from rdmaprov.node.standing import FILE, check_node, clean_line, differences

KEYS = "etc/ssh"
PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python")


class CannotDo(Exception):
    """Why a node cannot do what it was asked."""


def countersign(request, root):
    """Return a signature of the text, and the host key that made it."""
    own = json.loads(request["text"])["own"]
    lists = differences(own["identity"], read_identity(own["described"], root))
    found = [each for texts in lists for each in texts]
    if found:
        raise CannotDo("it differs from the measured node: " + "; ".join(found))
    path, key = host_key(request["keys"], root)
    return {"signature": sign(request["text"], path, request["namespace"]), "key": key}


def host_key(known, root):
    """Return the file of a host key that the controller knows, and its public part."""
    place = os.path.join(root, KEYS)
    found = {name[: -len(".pub")] if name.endswith(".pub") else name for name in names(place)}
    for name in sorted(found):
        if not (name.startswith("ssh_host_") and name.endswith("_key")):
            continue
        path = os.path.join(place, name)
        key = public_part(path)
        if key in known:
            if not os.access(path, os.R_OK):
                raise CannotDo("only root can read {}".format(path))
            return path, key
    raise CannotDo("no host key in {} is the one in known_hosts".format(place))


def public_part(path):
    """Return type and key of a host key: from its .pub file, else from the private key itself."""
    try:
        with open(path + ".pub", "rb") as file:
            text = file.read(65536)
    except OSError:
        text = ssh_keygen("-y", "-P", "", "-f", path).stdout
    return " ".join(text.decode("utf-8", "replace").split()[:2])


def sign(text, key, namespace):
    """Return the signature that ssh-keygen makes of a text, with a host key."""
    done = ssh_keygen("-Y", "sign", "-q", "-f", key, "-n", namespace, text=text)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise CannotDo("ssh-keygen -Y sign (OpenSSH 8.1 or later): " + said[-1])
    return done.stdout.decode()


def ssh_keygen(*words, text=""):
    """Run ssh-keygen, with no agent and no terminal to ask at."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SSH_A")}
    try:
        return subprocess.run(
            ["ssh-keygen", *words],
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=30,
            env=environment,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotDo("ssh-keygen: {}".format(error)) from error


def leave(request, root):
    """Write the certificate and the programs that check it."""
    if os.geteuid() != 0:
        raise CannotDo("only root can write {}".format(os.path.join(root, FILE)))
    python = [each for each in PYTHONS if os.path.exists(each)]
    if not python:
        raise CannotDo("there is no {}".format(PYTHONS[0]))
    for path, source in request["programs"].items():
        write(os.path.join(root, path), "#!{} -IS\n{}".format(python[0], source), 0o755)
    write(os.path.join(root, FILE), request["left"], 0o600)
    return {}


def withdraw(request, root):
    """Replace the certificate, if there is one, by why the node was refused."""
    path = os.path.join(root, FILE)
    if os.path.exists(path):
        write(path, json.dumps({"refused": request["why"]}), 0o600)
    return {}


def write(path, text, mode):
    """Write a file of root's, whole or not at all, in a directory that only root can change."""
    place = os.path.dirname(path)
    os.makedirs(place, 0o755, exist_ok=True)
    own = os.stat(place)
    if own.st_uid != os.geteuid() or own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CannotDo("users other than root can change {}".format(place))
    new = "{}.{}.new".format(path, os.getpid())
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, mode)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.rename(new, path)
    except OSError:
        os.unlink(new)
        raise


def check(_request, root):
    """Return what the program that was left would say."""
    code, line = check_node(root)
    return {"code": code, "line": line}


def read(request, root):
    """Return what the node is."""
    return {"identity": read_identity(request["described"], root)}


VERBS = {
    "read": read,
    "countersign": countersign,
    "leave": leave,
    "withdraw": withdraw,
    "check": check,
}


def main():
    """Answer the document on standard input."""
    request = json.loads(sys.stdin.read())
    try:
        found = dict(VERBS[request["verb"]](request, request.get("root", "/")), error="")
    except (CannotDo, OSError) as error:
        found = {"error": clean_line(str(error))[:1000]}
    print(json.dumps(found))


main()
