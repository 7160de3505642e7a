"""The GPUs of a node, as the driver lists them, also those that it has lost. Needs Python 3.6."""

import re
import subprocess
import time

LISTED = ("index", "name", "total_mib", "free_mib", "pci", "uuid", "serial", "mig")
FIELDS = ["index", "name", "memory.total", "memory.free", "pci.bus_id", "uuid", "serial"]
FIELDS += ["mig.mode.current"]
# Drivers before 450 have no MIG, and refuse the whole query.
UNKNOWN_FIELD = "is not a valid field to query"
# In place of a row, or of a field, as in public logs: "Unable to determine the device handle for
# GPU0000:08:00.0: Unknown Error", "[GPU is lost]".
LOST = re.compile(
    r"Unable to determine the device handle|GPU is lost|GPU requires reset|\[Unknown Error\]"
)
MOST_LINES = 256
# Without persistence mode each call initializes all GPUs: over 25 s with eight A100
# (github.com/Azure/AgentBaker/pull/2829).
LIMIT_S = 90


def run_command(argv, limit_s=20):
    """Return what a command printed, its exit status, and why it did not run or what it says."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return "", 1, "no answer in {:g} s".format(limit_s)
    except (OSError, ValueError) as error:
        return "", 1, str(error)
    return done.stdout, done.returncode, done.stderr.strip()[-300:]


def ask_driver(words):
    """Return what nvidia-smi printed, its exit status, and why it did not run."""
    return run_command(["nvidia-smi", "--format=csv,noheader,nounits", *words], LIMIT_S)


def parse_gpus(text):
    """Return the GPUs in nvidia-smi's rows, and the lines about those that are lost.

    A number that it does not know, such as [N/A] or [Not Supported], is empty.
    """
    found, lost = [], []
    for line in text.splitlines()[:MOST_LINES]:
        row = [word.strip() for word in line.split(",")]
        if LOST.search(line):
            lost.append(line.strip()[:300])
        elif len(row) >= len(LISTED) - 1 and row[0].isdigit():
            each = dict(zip(LISTED, [*row, ""]))  # noqa: B905 - Python 3.6
            for name in ("total_mib", "free_mib"):
                each[name] = each[name] if re.match(r"\d{1,9}(\.\d+)?$", each[name]) else ""
            each["mig"] = each["mig"] == "Enabled"
            each["serial"] = each["serial"] if re.match(r"\w{4,64}$", each["serial"], re.A) else ""
            found.append(each)
    return found, lost


def read_processes():
    """Return what computes on the GPUs, as `PID, program`, and why that is not known."""
    text, code, why = ask_driver(["--query-compute-apps=pid,process_name"])
    if code:
        return [], why or text.strip()[-300:] or "exit status {}".format(code)
    return [line.strip() for line in text.splitlines() if line.strip()][:MOST_LINES], ""


def read_gpus():
    """Return the GPUs, those that are lost, what runs on them, and how long the driver took.

    `uuids` and `serials` have those of each GPU by its PCI address: asked in the same call.
    """
    began = time.monotonic()
    text, code, why = ask_driver(["--query-gpu=" + ",".join(FIELDS)])
    took = {"took_s": round(time.monotonic() - began, 1)}
    if code and UNKNOWN_FIELD in text + why:
        text, code, why = ask_driver(["--query-gpu=" + ",".join(FIELDS[:-1])])
    found, lost = parse_gpus(text)
    lost += [line.strip()[:300] for line in why.splitlines() if LOST.search(line)]
    if not found and not lost:
        said = why or text.strip()[-300:] or "exit status {}".format(code)
        took.update(uuids={}, serials={})
        return dict(took, gpus=[], lost=[], processes=[], error=said if code else "")
    took["serials"] = {kernel_address(each["pci"]): each.pop("serial") for each in found}
    took["uuids"] = {kernel_address(each.pop("pci")): each.pop("uuid") for each in found}
    processes, why = read_processes()
    return dict(took, gpus=found, lost=lost, processes=processes, error=why)


def kernel_address(address):
    """Return a PCI address of nvidia-smi, which writes eight digits of the domain, with four."""
    return re.sub(r"^0000(?=[0-9a-f]{4}:)", "", address.strip().lower())


def read_uuids():
    """Return the UUID of each GPU by its PCI address."""
    text = ask_driver(["--query-gpu=pci.bus_id,uuid"])[0]
    rows = [line.partition(",") for line in text.splitlines()]
    return {kernel_address(address): uuid.strip() for address, _, uuid in rows[:MOST_LINES]}
