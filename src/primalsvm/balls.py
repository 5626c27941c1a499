r"""Which samples' hyperplanes a moving point can have crossed, without looking at the samples.

A sample whose loss is linear on both sides of its hyperplane adds a constant slope to P until the point crosses that
hyperplane, which it cannot while it stays closer to some centre than the hyperplane is. Samples are put aside under the
point at which their distances were measured; each centre's ball is as large as the point's way makes it, and
the hyperplanes that the ball meets come back, nearest first.

Do and Artieres (2008), end of section 4.4, with a radius of its own for every sample in place of rings.
"""

from dataclasses import dataclass, field

import numpy as np

from .losses import Array

NOBODY = np.zeros(0, dtype=np.int64)


@dataclass
class Centre:
    point: Array
    samples: np.ndarray  # those still put aside, the nearest first
    distances: Array  # of their hyperplanes from the point, rising


@dataclass
class Balls:
    """Samples put aside, each under one of at most `limit` centres."""

    limit: int
    centres: list[Centre] = field(default_factory=list)

    @property
    def smallest(self) -> int:
        """How many samples must be looked at again before there is room for one more centre."""
        full = len(self.centres) == self.limit
        return min(len(centre.samples) for centre in self.centres) if full else 0

    def put_aside(self, point: Array, samples: np.ndarray, distances: Array) -> None:
        order = np.argsort(distances, kind="stable")
        self.centres.append(Centre(point.copy(), samples[order], distances[order]))

    def reached(self, point: Array) -> np.ndarray:
        """The samples whose slope may be another at the point than at their centre; they are aside no more."""
        back = [NOBODY]
        for centre in self.centres:
            met = int(np.searchsorted(centre.distances, np.linalg.norm(point - centre.point), side="right"))
            back.append(centre.samples[:met])
            centre.samples, centre.distances = centre.samples[met:], centre.distances[met:]
        self.centres = [centre for centre in self.centres if len(centre.samples)]
        return np.concatenate(back)

    def dissolve(self) -> np.ndarray:
        """Give up the centre with the fewest samples; they are aside no more."""
        return self.centres.pop(int(np.argmin([len(centre.samples) for centre in self.centres]))).samples
