"""A node of `accept` without torch, replayed: good answers to each stage. The liar imports it.

torch cannot run where these tests do. So what a node prints is written here as tests/unit/helpers
has it (accept_runs.py), from the requests: addresses of sites.GOOD, and the events of one rank that
took part in every all-reduce.
"""

import base64
import json
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.cli.hostile import wrong

Make = Callable[[dict[str, Any], Any], bytes]
Answer = tuple[int, bytes, bytes]
MEDIAN_US = 1000.0
DUE_BYTES = 10**6
DOCUMENTS = ("value", "shape", "text", "saying")  # what is wrong in one, not around it
_MACHINE = ("vendor", "product", "serial", "uuid", "board_serial", "bios")
_NIC = ("netdev", "rdma", "pci", "guid", "board", "firmware")
_GPU = ("pci", "model", "uuid", "vbios", "firmware")
_VERSIONS = ("kernel", "system", "nvidia", "amdgpu", "mlx5")
MISSING = "silence of the ranks"  # as if the ranks had done nothing


class Node:
    """What a node knows between requests; it lies in a `stage`, if it is the `unit` of its site."""

    def __init__(self, lie: dict[str, Any]) -> None:
        self._lie = lie
        self._unit = int(lie["unit"])
        self._job: dict[str, Any] = {}
        self._asked = 0
        self._ended = False

    def answer(self, command: str, given: bytes, make: Make) -> Answer:
        if not given:
            return self._shell(command, make)
        document = json.loads(given[given.rindex(b'{"verb": ') :])
        stage = document["verb"]
        good = getattr(self, f"_{stage}")(document, shlex.split(command)[-1])
        lies = self._lie["kind"] in DOCUMENTS and stage == self._lie["stage"]
        return 0, make(self._lie, good) if lies else json.dumps(good).encode(), b""

    def _address(self, netdev: str) -> str:
        rail = int(netdev.removeprefix("ens") or 0) - 1
        return f"198.18.{rail}.{self._unit}" if netdev else f"10.0.0.{self._unit}"

    def _rails(self, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        counters = {"netdev.tx_bytes": 10**9, "hw.out_of_sequence": 0}
        up = {"there": True, "carrier": True, "state": "ACTIVE", "rdma": "mlx5_0"}
        names = [each["netdev"] for each in asked]
        return [
            {"netdev": name, "addresses": [self._address(name)], "counters": counters, **up}
            for name in names
        ]

    def _counters(self, document: dict[str, Any], _mark: str) -> dict[str, Any]:
        rails = self._rails(document["rails"])
        return {"time": time.time(), "rails": rails, "others": {"eth0": 10**6}}

    def _preflight(self, document: dict[str, Any], mark: str) -> dict[str, Any]:
        rails = {each["netdev"]: [self._address(each["netdev"])] for each in document["rails"]}
        return {
            **self._counters(document, mark),
            "torch": {"python": "3.11.2", "torch": "2.5.1", "nccl": "2.21.5", "error": ""},
            "gpus": {"gpus": [], "processes": [], "error": "nvidia-smi: not found"},
            "port": 29_500,
            "addresses": {"eth0": [self._address("")], **rails},
            "hostname": f"node{self._unit}",
            "identity": self._identity(len(rails)),
        }

    def _identity(self, rails: int) -> dict[str, Any]:
        return {
            "machine": {**dict.fromkeys(_MACHINE, ""), "serial": f"SN{self._unit}"},
            "rails": [dict.fromkeys(_NIC, "x")] * rails,
            "gpus": [dict.fromkeys(_GPU, "x")],
            "versions": dict.fromkeys(_VERSIONS, ""),
        }

    def _reach(self, document: dict[str, Any], _mark: str) -> dict[str, Any]:
        targets = document["targets"]
        own = [self._address(each["device"]) for each in targets]
        return {"reach": [""] * len(targets), "own": own}

    def _start(self, document: dict[str, Any], mark: str) -> dict[str, Any]:
        files = document["files"]
        tasks = [name for name in files if name.startswith("task.")]

        def read(name: str) -> dict[str, Any]:
            data: dict[str, Any] = json.loads(base64.b64decode(files[name]))
            return data

        self._job = {
            "plan": read("plan.json"),
            "tasks": [read(name) for name in sorted(tasks, key=lambda name: int(name[5:]))],
        }
        return {"directory": f"/run/{mark}"}

    def _stop(self, _document: dict[str, Any], _mark: str) -> dict[str, Any]:
        return {"left": []}

    def _shell(self, command: str, make: Make) -> Answer:
        if "touch lease" not in command:
            return 0, b"", b""
        self._asked += 1
        at = {"communicator": 3, "entered": 9, "left": 9, "phase": "end", "process": "S"}
        status: dict[str, Any] = {"rc": 0, "why": "", "ranks": {str(self._rank): at}}
        stage = self._lie["stage"]
        if stage == "status":
            if self._lie["name"] == "never ends":
                wrong.mark_told(self._lie)
                return 0, b'{"rc": null, "why": "", "ranks": {}}\n', b""
            return 0, make(self._lie, status) + b"\n", b""
        if self._asked > 1:
            return 0, json.dumps(status).encode() + b"\n", b""
        lines = [json.dumps(event).encode() for event in self._events()]
        if stage == "events":
            lines = self._wrong_events(lines, make)
        return 0, b"\n".join([json.dumps(status).encode(), *lines]) + b"\n", b""

    def _wrong_events(self, lines: list[bytes], make: Make) -> list[bytes]:
        if self._lie["name"] == MISSING:
            wrong.mark_told(self._lie)
            return []
        kind = self._lie["of"].encode()
        return [
            make(self._lie, json.loads(line)) if b'"event": "' + kind + b'"' in line else line
            for line in lines
        ]

    @property
    def _rank(self) -> int:
        return int(self._job["plan"]["ranks"]["first"])

    def _events(self) -> Iterator[dict[str, Any]]:
        planes = {plane["name"]: plane for plane in self._job["plan"]["planes"]}
        yield {"event": "hello", "rank": self._rank, "pid": 9, "torch": "2.5.1", "nccl": ""}
        for task in self._job["tasks"]:
            if task.get("end"):
                break
            for kind, fields in self._said(task, planes[task["plane"]]):
                yield {"event": kind, "rank": self._rank, **fields}
            yield {"event": "finished", "rank": self._rank, "task": task["number"]}
        yield {"event": "done", "rank": self._rank}

    def _said(
        self, task: dict[str, Any], plane: dict[str, Any]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for index, ranks in task["groups"].items():
            at = {"plane": task["plane"], "task": task["number"], "group": int(index)}
            if task["collective"] == "exchange":
                to = sum(ranks) - self._rank
                yield "pair", {**at, "to": to, "us": 50.0, "gb_s": 1.0, "reduce_us": 80.0}
                continue
            yield "phase", {"phase": f"{task['plane']}: sweep"}
            for size in task["sizes"]:
                for in_place in (True, False):
                    of = {"dtype": "float32", "bytes": size, "in_place": in_place, "count": 20}
                    us = {"median_us": MEDIAN_US, "p99_us": 2 * MEDIAN_US, "min_us": MEDIAN_US}
                    yield "row", {**at, **of, **us}
                yield "checked", {**at, "bytes": size, "dtypes": task["dtypes"]}
            yield "waits", {**at, "us": [100.0 + i for i in range(9)]}
            moved = {plane["netdev"]: 11 * DUE_BYTES // 10}
            yield "moved", {**at, "due_bytes": DUE_BYTES, "bytes": moved}
            yield "links", {**at, "links": []}
