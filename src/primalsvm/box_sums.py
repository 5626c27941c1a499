"""The compiled loops of TreeKernel: from points to the nodes of their boxes, and back.

Points lie in boxes, three coordinates t in [-1, 1] each; p nodes along each coordinate make a grid in every box. A
coordinate that the data do not have has one node. Boxes stand side by side in one large grid, and those of different
threads do not overlap.
"""

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True)
def _basis(t, nodes, scales, out):
    """Lagrange's polynomials at t: products of differences, so each is right to a few roundings, relatively."""
    p = nodes.size
    run = 1.0
    for a in range(p):
        out[a] = scales[a] * run
        run *= t - nodes[a]
    run = 1.0
    for a in range(p - 1, -1, -1):
        out[a] *= run
        run *= t - nodes[a]


@njit(cache=True, nogil=True)
def _bases(t, nodes, scales, sizes, out):
    for k in range(3):
        if sizes[k] == 1:  # the data have no such coordinate
            out[k, 0] = 1.0
        else:
            _basis(t[k], nodes, scales, out[k])


@njit(cache=True, nogil=True, fastmath=FAST)
def spread(places, weights, members, starts, corners, begin, end, nodes, scales, sizes, chunk, grid):
    """grid += sum_j weights_j L(places_j) over the members of the boxes from begin to end.

    The members of box k are members[starts[k] : starts[k + 1]], its first node is corners[k]. `chunk` of them at a time
    are summed up before they meet the others: it keeps the roundings few.
    """
    bases = np.empty((3, nodes.size))
    block = np.empty((sizes[0], sizes[1], sizes[2]))
    for box in range(begin, end):
        for first in range(starts[box], starts[box + 1], chunk):
            block[:] = 0.0
            for j in members[first : min(first + chunk, starts[box + 1])]:
                _bases(places[j], nodes, scales, sizes, bases)
                for a in range(sizes[0]):
                    for b in range(sizes[1]):
                        weight = weights[j] * bases[0, a] * bases[1, b]
                        row = block[a, b]
                        for c in range(sizes[2]):
                            row[c] += weight * bases[2, c]
            x, y, z = corners[box]
            for a in range(sizes[0]):
                for b in range(sizes[1]):
                    for c in range(sizes[2]):
                        grid[x + a, y + b, z + c] += block[a, b, c]


@njit(cache=True, nogil=True, fastmath=FAST)
def gather(places, members, starts, corners, begin, end, nodes, scales, sizes, grid, out):
    """out_i = sum over the nodes of the box of L(places_i) grid, for the members of the boxes from begin to end."""
    bases = np.empty((3, nodes.size))
    block = np.empty((sizes[0], sizes[1], sizes[2]))
    for box in range(begin, end):
        if starts[box] == starts[box + 1]:
            continue
        x, y, z = corners[box]
        block[:] = grid[x : x + sizes[0], y : y + sizes[1], z : z + sizes[2]]
        for i in members[starts[box] : starts[box + 1]]:
            _bases(places[i], nodes, scales, sizes, bases)
            total = 0.0
            for a in range(sizes[0]):
                plane = 0.0
                for b in range(sizes[1]):
                    line, row = 0.0, block[a, b]
                    for c in range(sizes[2]):
                        line += bases[2, c] * row[c]
                    plane += bases[1, b] * line
                total += bases[0, a] * plane
            out[i] = total
