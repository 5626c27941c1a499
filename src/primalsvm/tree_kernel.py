r"""Gaussian kernels in one, two or three dimensions: K v in about O(n), with a proven bound on what is off.

With u = sqrt(2 gamma) x a Gaussian is a product over the coordinates of g(s - t) = exp(-(s - t)^2 / 2). Space is cut
into boxes of half-width a, each with p Chebyshev nodes along every coordinate, and g is replaced by its interpolation
in both arguments,

    g(s - t)  ~  sum_ab  L_a(s) g(node_a - node_b) L_b(t)

so that a product with K is three steps: spread v over the nodes of its boxes, n p^d multiplications; multiply the grid
of all nodes by the matrices g(node_a - node_b), one coordinate after the other, which BLAS does; and gather at the
points, n p^d again. A slice of boxes that holds no point is left out, so points far away cost no empty space; beyond
FAR, g is less than a rounding. Of several p the one with the least work is taken, with the widest boxes that keep the
tolerance. Where nothing is gained, or the grid does not fit, K is computed in tiles.

The bound. Interpolation at p Chebyshev nodes in an interval of half-width a misses a function by at most
2 (a / 2)^p max |g^(p)| / p!, and |g^(p)| = |He_p| exp(-t^2 / 2) <= CRAMER sqrt(p!) (Cramer's inequality), so

    E = 2 CRAMER (a / 2)^p / sqrt(p!)                             in one argument
    (1 + Lambda) E,   Lambda <= 1 + 2 / pi log p                  in both: Lambda is the norm of the interpolation
    (1 + (1 + Lambda) E)^d - 1                                    of the product, for |g| <= 1

for each entry of K, hence for (K v)_i / sum_j |v_j|. Rounding: each of the sums is right to so many EPS / 2 as it has
terms and its factors roundings, times the sum of absolute values, which grows by Lambda at most with each coordinate
that is interpolated, twice. And a point is moved when it is scaled, shifted and placed in its box, by a few roundings
of the size of u, while |g'| < 1. The sum of the three is `accuracy`, so the certificate speaks of the true kernel.

Greengard, Strain (1991) for the boxes; Fong, Darve (2009) for Chebyshev's nodes in place of Hermite series; Rivlin
(1974) for Lambda; Abramowitz, Stegun (1964), 22.14.17 for CRAMER.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, factorial, log, pi, prod

import numpy as np

from .crew import in_parts
from .kernel_matrix import EXP, MEMORY_LIMIT, TiledKernel
from .kernels import Kernel, Points
from .losses import EPS, Array

CRAMER = 1.0865  # rounded up, which makes up for the rounding of the nodes too
MOST = 3  # features: the work of a point grows like p^d
ORDERS = (4, 8, 12, 16, 20, 24)  # p: multiples of what a processor multiplies at once
FAR = 9.0  # exp(-FAR^2 / 2) < EPS / 64
TOLERANCE, MOST_ERROR = 1e-10, 0.1
SHARE = 0.25  # of the memory limit for the two grids of a product
WORTH = 1.0  # boxes are taken where they have less than so many times the work of tiles
BLAS = 0.25  # multiplications of our own loops that one of BLAS is worth
SLAB = 128  # nodes, about, whose rows of a matrix g are multiplied at a time
CHUNK = 32  # points of a box that are summed up before they meet the others of it
PLACE = 12  # multiplications for each node along a coordinate, to place a point


def interpolation_error(p: int, a: float, d: int) -> float:
    """Of an entry of K."""
    one = 2 * CRAMER * (a / 2) ** p / factorial(p) ** 0.5
    return float(np.expm1(d * np.log1p((1 + _lebesgue(p)) * one)))


def _widest(p: int, tolerance: float, d: int) -> float:
    """The largest a whose interpolation error is at most the tolerance."""
    one = np.expm1(np.log1p(tolerance) / d) / (1 + _lebesgue(p))
    return float(2 * (one * factorial(p) ** 0.5 / (2 * CRAMER)) ** (1 / p))


def _lebesgue(p: int) -> float:
    return 1 + 2 / pi * log(p)


@dataclass(frozen=True)
class Layout:
    """Boxes of half-width a around all points."""

    p: int
    a: float
    low: Array  # (d,) where the first box begins
    cells: tuple[Array, ...]  # for each coordinate, which of its slices of boxes hold points

    @property
    def lengths(self) -> list[int]:
        """Nodes along each coordinate."""
        return [len(cells) * self.p for cells in self.cells]

    @property
    def bands(self) -> list[int]:
        """Of those, how many meet a slab of others, at most."""
        around = 2 * (ceil(FAR / (2 * self.a)) + 1) + max(SLAB // self.p, 1)
        return [min(around * self.p, length) for length in self.lengths]

    @property
    def size(self) -> float:
        """Nodes in all, which may be more than an int holds."""
        return float(np.prod(self.lengths, dtype=np.float64))

    @property
    def bytes(self) -> float:
        """Of two grids and of the matrices."""
        return 16 * self.size + 8 * float(np.dot(self.lengths, self.bands))

    def work(self, n: int) -> float:
        """Multiplications of a product with K."""
        d = len(self.cells)
        return 2 * n * (self.p**d + PLACE * d * self.p) + BLAS * self.size * sum(self.bands)

    def cells_of(self, u: Array) -> Array:
        return np.floor((u - self.low) / (2 * self.a))


def _layouts(u: Array, tolerance: float) -> Iterator[Layout]:
    for p in ORDERS:
        layout = Layout(p, _widest(p, tolerance, u.shape[1]), u.min(axis=0), ())
        yield replace(layout, cells=tuple(np.unique(column) for column in layout.cells_of(u).T))


class Boxes:
    """The points in the boxes of a layout, and products with the Gaussian kernel between them."""

    def __init__(self, u: Array, layout: Layout, threads: int = 1):
        n, d = u.shape
        p, a, missing = layout.p, layout.a, MOST - d
        self.layout, self.threads = layout, threads
        self.nodes = np.cos((2 * np.arange(p) + 1) * pi / (2 * p))
        self.scales = 1.0 / np.prod(self.nodes[:, None] - self.nodes + np.eye(p), axis=1)
        self.sizes = (1,) * missing + (p,) * d  # nodes of a box along each coordinate, those that are missing first
        self.shape = (1,) * missing + tuple(layout.lengths)
        cells = layout.cells_of(u)
        where = np.column_stack([np.searchsorted(*pair) for pair in zip(layout.cells, cells.T, strict=True)])
        box = np.ravel_multi_index(tuple(where.T), [len(own) for own in layout.cells])
        order = np.argsort(box, kind="stable")
        self.rank = np.argsort(order)  # of each point, box by box; from here on points stand in that order
        self.places = np.zeros((n, MOST))
        self.places[:, missing:] = np.clip((u - layout.low - 2 * a * cells) / a - 1.0, -1.0, 1.0)[order]
        self.starts = np.append(np.flatnonzero(np.diff(box[order], prepend=-1)), n)  # of each box that is not empty
        self.corners = np.zeros((len(self.starts) - 1, MOST), dtype=np.int64)
        self.corners[:, missing:] = p * where[order[self.starts[:-1]]]
        self.matrices = [self._slabs(own) for own in layout.cells]
        self.accuracy = interpolation_error(p, a, d) + self._rounding(u)

    def _slabs(self, cells: Array) -> list[tuple[slice, slice, Array]]:
        """(rows, columns, g between them) of the nodes along a coordinate: all that is not nothing."""
        p, a, slabs = self.layout.p, self.layout.a, []
        step, reach = max(SLAB // p, 1), FAR / (2 * a) + 1
        apart = self.nodes[:, None, None] - self.nodes
        for first in range(0, len(cells), step):
            some = cells[first : first + step]
            near = np.searchsorted(cells, [some[0] - reach, some[-1] + reach])
            steps = 2 * (some[:, None, None, None] - cells[slice(*near), None]) + apart
            g = np.exp(-0.5 * (a * steps.reshape(p * len(some), -1)) ** 2)
            slabs.append((slice(p * first, p * (first + len(some))), slice(*(p * near).tolist()), g))
        return slabs

    def _rounding(self, u: Array) -> float:
        """See the module's text; an entry of g is right to 16 EPS / 2, with what was left out beyond FAR."""
        p, d = self.layout.p, u.shape[1]
        placed = d * (4 * p + 3)  # a weight times d polynomials, each of differences, their products and a scale
        most = int(np.diff(self.starts).max())
        terms = placed + CHUNK + most // CHUNK + 1  # spread
        terms += sum(max(g.shape[1] for *_, g in slabs) + 16 for slabs in self.matrices)
        terms += placed + d * (p + 1)  # gather
        moved = 16 * EPS * (float(np.linalg.norm(np.abs(u).max(axis=0))) + self.layout.a)
        return 1.01 * EPS / 2 * terms * _lebesgue(p) ** (2 * d) + 2 * moved + 16 * EPS

    def product(self, v: Array, picked: np.ndarray | None = None) -> Array:
        """K[picked] v"""
        from .box_sums import gather, spread

        n, nodes, scales, sizes = len(self.rank), self.nodes, self.scales, self.sizes
        weights, out, grid = np.empty(n), np.empty(n), np.zeros(self.shape)
        weights[self.rank] = v
        sources, starts, cuts = self._share(np.flatnonzero(weights))

        def to_nodes(begin: int, end: int) -> None:
            spread(self.places, weights, sources, starts, self.corners, begin, end, nodes, scales, sizes, CHUNK, grid)

        in_parts(cuts, to_nodes)
        for axis, slabs in enumerate(self.matrices, MOST - len(self.matrices)):
            grid = self._multiply(slabs, axis, grid)
        wanted = self.rank if picked is None else self.rank[picked]
        targets, ends, cuts = self._share(np.arange(n) if picked is None else np.unique(wanted))

        def to_points(begin: int, end: int) -> None:
            gather(self.places, targets, ends, self.corners, begin, end, nodes, scales, sizes, grid, out)

        in_parts(cuts, to_points)
        return out[wanted]

    def _share(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """(members, where each box begins among them, where to cut the boxes for the threads)"""
        starts = np.searchsorted(members, self.starts)
        cuts = np.searchsorted(starts[:-1], [len(members) * k // self.threads for k in range(1, self.threads)])
        return members, starts, [0, *cuts.tolist(), len(starts) - 1]

    def _multiply(self, slabs: list[tuple[slice, slice, Array]], axis: int, grid: Array) -> Array:
        """The matrices of a coordinate times the grid along it; the threads share the rest of the grid."""
        out, last = np.empty_like(grid), axis == MOST - 1
        shape = (-1, grid.shape[-1]) if last else (prod(grid.shape[:axis]), grid.shape[axis], -1)
        before, after = grid.reshape(shape), out.reshape(shape)

        def work(begin: int, end: int) -> None:
            for rows, cols, g in slabs:
                if last:
                    np.matmul(before[begin:end, cols], g.T, out=after[begin:end, rows])
                else:
                    np.matmul(g, before[:, cols, begin:end], out=after[:, rows, begin:end])

        count = before.shape[0 if last else 2]
        in_parts([count * k // self.threads for k in range(self.threads + 1)], work)
        return out


class TreeKernel(TiledKernel):
    """exp(-gamma |x_i - x_j|^2) between rows of at most three features; other verbs than matvec are TiledKernel's."""

    def __init__(
        self, kernel: Kernel, X, tolerance: float = TOLERANCE, memory_limit: float = MEMORY_LIMIT, threads: int = 1
    ):
        d = X.d if isinstance(X, Points) else X.shape[1]
        if kernel.name != "rbf" or not 1 <= d <= MOST:
            raise ValueError(
                f"TreeKernel needs the rbf kernel and 1 to {MOST} features, got {kernel.name!r} and {d}; take another."
            )
        if not 0 < tolerance <= MOST_ERROR:
            raise ValueError(f"tolerance must be above 0 and at most {MOST_ERROR}, got {tolerance!r}.")
        super().__init__(kernel, X, memory_limit, threads)
        self.tolerance = tolerance
        self.boxes = None if self.held else self._boxes()
        if self.boxes is not None:
            self.accuracy = max(self.accuracy, self.boxes.accuracy)

    def _boxes(self) -> Boxes | None:
        """Those with the least work; None where tiles have less, or more memory would be needed."""
        u = self.points.features().values[:, : self.points.d]
        fitting = [layout for layout in _layouts(u, self.tolerance) if layout.bytes <= SHARE * self.memory_limit]
        best = min(fitting, key=lambda layout: layout.work(self.n), default=None)
        if best is None or not best.work(self.n) < WORTH * super().work:
            return None
        boxes = Boxes(u, best, self.threads)
        return boxes if boxes.accuracy <= MOST_ERROR else None  # not so where points are beyond all reason

    @property
    def work(self):
        return super().work if self.held or self.boxes is None else int(self.boxes.layout.work(self.n))

    def matvec(self, v, picked=None):
        entries = np.count_nonzero(v) * (self.n if picked is None else len(picked))
        if self.held or self.boxes is None or WORTH * entries * (self.points.d + EXP) < self.work:
            return super().matvec(v, picked)
        return self.boxes.product(v, picked)

    def rough_matvec(self, v, picked):
        """None: a product by boxes costs less."""
        return super().rough_matvec(v, picked) if self.boxes is None else None

    def take(self, picked):
        if self.held:
            return super().take(picked)
        return TreeKernel(self.kernel, self.points.take(picked), self.tolerance, self.memory_limit, self.threads)
