"""What tuning compares, measures and concludes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rdmaprov.tuner.settings import NcclSetting


@dataclass(frozen=True)
class Trial:
    """What one job measured with one setting: GB/s by bytes, and whether all values were right."""

    gb_s: Mapping[int, float]
    is_right: bool = True


# A setting → what its job measured; None: it failed.
MeasureSetting = Callable[[NcclSetting], Trial | None]


@dataclass(frozen=True)
class TunePlan:
    """What is compared, and how sure a gain must be."""

    settings: tuple[NcclSetting, ...]
    sizes: tuple[int, ...]  # of messages, in bytes
    error: float = 0.05  # the probability that any gain at all is believed where there is none
    seed: int = 0


@dataclass(frozen=True)
class Gain:
    """A setting that is better at a size: by a share, at least by `least`."""

    setting: NcclSetting
    size: int
    share: float
    least: float


@dataclass(frozen=True)
class GainTest:
    """What the measurements of a setting showed at a size."""

    setting: NcclSetting
    size: int  # of the messages, in bytes
    share: float
    least: float | None  # that it gains at least; None if it was not chosen, so nothing was decided
    blocks: int
    is_believed: bool = False  # whether the gain is beyond the noise and worthwhile


@dataclass
class TuneResult:
    """What came of a plan."""

    # gains of the one setting to take, by size; none if there is no such
    of_fleet: list[Gain] = field(default_factory=list)
    # settings that were dropped, with the reason
    refused: dict[NcclSetting, str] = field(default_factory=dict)
    jobs: int = 0
    # what was compared: the gains that were decided on, then each other setting at the size where
    # it gains most
    tests: list[GainTest] = field(default_factory=list)

    @property
    def is_default(self) -> bool:
        """Return whether NCCL's defaults are to stay."""
        return not self.of_fleet
