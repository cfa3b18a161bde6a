"""Reference implementation of "Resilient Peer-to-peer Learning based on Adaptive Aggregation".

Bhowmick and Koutsoukos, 2024. Start at `refimpl.train` (Algorithm 1) and `refimpl.aggregate` (its
equations); README.md has the map from each equation to its line.
"""

__version__ = "0.1.0"
