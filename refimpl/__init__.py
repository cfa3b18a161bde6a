"""Reference implementation of "Resilient Peer-to-peer Learning based on Adaptive Aggregation".

Bhowmick and Koutsoukos, 2024. Start at `refimpl.algorithm` (Algorithm 1) and `refimpl.aggregate` (equations);
what exists only for speed is in `refimpl.fast`. README.md maps each equation to its function.
"""

__version__ = "0.1.0"
