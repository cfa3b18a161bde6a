"""What the ranks of tests/test_mpi_peers.py do: every rule against every attack, by MPI, beside one process.

    mpiexec -n 4 python tests/mpi_ranks.py

Rank 0 prints each case that is not equal bit for bit, and how many cases there were.
"""

import itertools
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI
from problems import initial, sends, setting
from test_peers import KNOWN, ROWS, away, cases, in_one_process, share

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from mpi_peers import open_channels

from refimpl import peers


def by_mpi(comm, s, W, count):
    """W (N, d) after `count` rounds on rank 0, None on the others."""
    parts = peers.deal(len(W), comm.size)
    own, state, drawn = share(s, W, parts[comm.rank])
    hears = peers.channels(s)
    channels = open_channels(comm, s, hears, parts, W, timeout=60)
    for batch, signals in itertools.islice(drawn, count):
        state = peers.round_(own, parts[comm.rank], state, batch, signals, hears, *channels)
    for channel in channels:
        channel.graph.Free()
    found = comm.gather(state.W)
    return found and np.concatenate(found)


def main():
    comm, count = MPI.COMM_WORLD, 0
    with sends(away, knows=KNOWN, per_receiver=True) as attack:
        apart = {"attackers": [2, 7, 8], "attack": attack, "rule": "average"}
        for name, options in [*cases(), ("a message per receiver", apart)]:
            s, W = setting(ROWS, **options), initial(len(ROWS))
            found, count = by_mpi(comm, s, W, count=3), count + 1
            if comm.rank == 0 and not np.array_equal(found, in_one_process(s, W, count=3), equal_nan=True):
                print("different:", name)
    if comm.rank == 0:
        print(f"{count} cases on {comm.size} ranks")


if __name__ == "__main__":
    main()
