"""What one GPU does by itself, all at once: arithmetic, memory, its link to the host, exactness.

No communicator is made: what is wrong here is wrong in the GPU, or between it and its host.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .group import RankGroup
from .nvml import UNKNOWN, GpuSensors

# At the power cap, the rate of the first second is another one (docs/one-gpu.md).
_WARM_UP_S = 1.0
_SPAN_S = 1.0
_CHUNK_S = 0.02  # products that are launched at once: sensors are read while they run
_WHOLE = 2  # factors of exact products are whole numbers up to it: sums stay below 2^24
_SYSFS = "/sys/bus/pci/devices"
_LINK = ("current_link_width", "max_link_width", "current_link_speed", "max_link_speed")


def measure_gpu(group: RankGroup) -> None:
    """Report what this rank's device does by itself.

    Of `work`: `size` is the side of the matrices, `bytes` what a copy moves, `seconds` how long
    bf16, fp8 and each copy take, in this order.
    """
    DeviceTest(group).run()
    if group.process.on_gpu:
        group.torch.cuda.empty_cache()  # for what follows: torch keeps what was freed


def _watts(milliwatts: float) -> float:
    return milliwatts / 1000 if milliwatts >= 0 else UNKNOWN


def _rise(before: int, after: int) -> int:
    """Return what was counted between two readings; UNKNOWN where one is, or it began anew."""
    return after - before if 0 <= before <= after else UNKNOWN


class DeviceTest:
    """One device, and what has been seen of it."""

    def __init__(self, group: RankGroup) -> None:
        self.group, self.torch, self.device = group, group.torch, group.device
        self.on_gpu = group.process.on_gpu
        work = group.task["work"]
        self.size, self.bytes = work["size"], work["bytes"]
        self.seconds: list[float] = work["seconds"]
        self.name, uuid = "CPU", ""
        if self.on_gpu:
            known = self.torch.cuda.get_device_properties(self.device)
            self.name, uuid = known.name, str(getattr(known, "uuid", ""))
        self.sensors = GpuSensors(uuid and f"GPU-{uuid.removeprefix('GPU-')}")
        self.wrong = {"float32": 0, "bfloat16": 0, "repeated": 0}
        self.checked = 0

    def run(self) -> None:
        """Measure; the GPUs of a node begin each part together, as they do in a job."""
        replays = self.sensors.replays()
        self._check_exact()
        self.group.is_any(False)
        spans = self._multiply()
        fp8 = self._fp8()
        self.group.is_any(False)
        memory = self._copies(self._inside())
        to_gpu, from_gpu = self._to_host()
        self._check_exact()
        self.group.say(
            "gpu",
            device=self.name,
            pci=self.sensors.address(),
            link=self._link(),
            limit_w=_watts(self.sensors.limit_mw()),
            processes=self.sensors.processes(),
            replays=_rise(replays, self.sensors.replays()),
            spans=spans,
            fp8_tflops=fp8,
            memory_gb_s=2 * memory,
            to_gpu_gb_s=to_gpu,
            from_gpu_gb_s=from_gpu,
            wrong=self.wrong,
            checked=self.checked,
        )

    def _done(self) -> None:
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def _timed(self, work: Callable[[], object], seconds: float) -> float:
        """Return the seconds of one call, of as many as fit; steps are told to the watch.

        On a CPU, which others may have meanwhile: those in which this process had it.
        """
        self.group.watch.begin_step()
        clock = time.perf_counter if self.on_gpu else time.process_time
        count, began, at = 0, time.perf_counter(), clock()
        many = 1
        while (passed := time.perf_counter() - began) < seconds or not count:
            for _ in range(many):
                work()
            self._done()
            count += many
            if time.perf_counter() - began - passed < _CHUNK_S / 2:
                many *= 2
        return max(clock() - at, 1e-9) / count

    def _check_exact(self) -> None:
        """Count the wrong values of products whose values are known.

        Factors are whole numbers, so each sum is exact in float32. It is compared with what float64
        makes of the rows' sums, and the product in bfloat16, which another unit makes, with it.
        """
        torch, size = self.torch, self.size
        self.group.watch.begin_step()
        # Else cuBLAS may add partial sums in bfloat16.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        made = torch.Generator().manual_seed(7)
        shape = (2, size, size)
        both = torch.randint(-_WHOLE, _WHOLE + 1, shape, generator=made, dtype=torch.int8)
        one, other = both.to(self.device).float()
        ones = torch.ones(size, 1, dtype=torch.float64, device=self.device)
        product = one @ other
        sums = one.double() @ (other.double() @ ones)
        self.wrong["float32"] += int((product.double() @ ones != sums).sum())
        narrow = one.bfloat16() @ other.bfloat16()
        self.wrong["bfloat16"] += int((narrow != product.bfloat16()).sum())
        self.checked += 2

    def _multiply(self) -> list[dict[str, float]]:
        """Return what each second of products of random data in bfloat16 had."""
        torch, size = self.torch, self.size
        kind = {"dtype": torch.bfloat16, "device": self.device}
        one, other = torch.randn(size, size, **kind), torch.randn(size, size, **kind)
        out = torch.empty(size, size, **kind)

        def work() -> None:
            torch.matmul(one, other, out=out)

        work()
        first = out.clone()
        once = self._timed(work, min(_WARM_UP_S, self.seconds[0]))
        many = max(1, round(_CHUNK_S / once))
        spans: list[dict[str, float]] = []
        length = min(_SPAN_S, self.seconds[0])
        while len(spans) * length < self.seconds[0]:
            spans.append(self._span(work, many, length))
            self.wrong["repeated"] += int((out != first).sum())
            self.checked += 1
        return spans

    def _span(self, work: Callable[[], None], many: int, length: float) -> dict[str, float]:
        """Return the rate of a span, 10¹² operations a second, and its sensors."""
        self.group.watch.begin_step()
        seen, count = [], 0
        began, used = time.perf_counter(), time.process_time()
        while (passed := time.perf_counter() - began) < length:
            for _ in range(many):
                work()
            seen.append(self.sensors.read())
            self._done()
            count += many
        passed = time.perf_counter() - began
        used = time.process_time() - used
        clocks, power, heat, reasons = zip(*seen, strict=True)
        why = 0
        for each in reasons:
            why |= max(0, each)
        flops = 2 * count * self.size**3
        return {
            "tflops": flops / passed / 1e12,
            "cpu_tflops": flops / max(used, 1e-6) / 1e12,
            "mhz": statistics.median(clocks),
            "watts": _watts(statistics.median(power)),
            "celsius": max(heat),
            "reasons": why,
        }

    def _fp8(self) -> float:
        """Return the rate in fp8, 10¹² operations a second; 0 where there is none."""
        torch, size = self.torch, self.size
        if not self.on_gpu or torch.cuda.get_device_capability(self.device) < (8, 9):
            return 0.0
        with suppress(AttributeError, RuntimeError, TypeError):  # older torch has another call
            one = torch.randn(size, size, device=self.device).to(torch.float8_e4m3fn)
            scale = torch.ones((), device=self.device)
            given = {"scale_a": scale, "scale_b": scale, "out_dtype": torch.bfloat16}

            def work() -> None:
                torch._scaled_mm(one, one.t(), use_fast_accum=True, **given)

            self._timed(work, min(_WARM_UP_S, self.seconds[1]))
            return float(2 * size**3 / self._timed(work, self.seconds[1]) / 1e12)
        return 0.0

    def _inside(self) -> Callable[[], object]:
        kind = {"dtype": self.torch.uint8, "device": self.device}
        one = self.torch.ones(self.bytes, **kind)
        other = self.torch.empty(self.bytes, **kind)
        return lambda: other.copy_(one)

    def _copies(self, work: Callable[[], object]) -> float:
        """Return what a copy moves, 10⁹ bytes a second."""
        self._timed(work, self.seconds[2] / 10)
        return float(self.bytes / self._timed(work, self.seconds[2]) / 1e9)

    def _to_host(self) -> tuple[float, float]:
        """Return what goes to the GPU and back by its own link, 10⁹ bytes a second."""
        torch = self.torch
        there = torch.empty(self.bytes, dtype=torch.uint8, pin_memory=self.on_gpu)
        here = torch.ones(self.bytes, dtype=torch.uint8, device=self.device)
        return (
            self._copies(lambda: here.copy_(there, non_blocking=True)),
            self._copies(lambda: there.copy_(here, non_blocking=True)),
        )

    def _link(self) -> list[float]:
        """Return the lanes and the GT/s of its PCIe link, each now and at most; -1: not known."""
        found = []
        for name in _LINK:
            value = float(UNKNOWN)
            with suppress(OSError, ValueError, IndexError):
                text = Path(_SYSFS, self.sensors.address() or "-", name).read_text()
                value = float(text.split()[0])
            found.append(value)
        return found
