"""Everything that exists only for speed. Nothing here is needed to understand the algorithm.

The law of this room: it changes no number beyond rounding. Each piece names its plain twin in the
specification and the test that proves the two equal. No file of the specification imports from here.

engine.py       a round for all workers at once; plain: algorithm.round_
plan.py         what a run computes once
risks.py        the risks of what receivers hear; plain: algorithm.risk
reused_products.py  risks on all local data, from products reused from round to round
ranked_rows.py  risks on all local data, first from the rows on which models lose most
networks.py     forward and backward passes of many models; plain: models.MLP, models.Network
elementwise.py  ReLU and cross-entropy; plain: layers
conv_pool.py    convolution and pooling in one step; plain: layers.conv2d, layers.maxpool2d
rules.py        the rules for many neighbourhoods at once, and attacks; plain: aggregate, attacks
distances.py    distances between models by matrix products; plain: aggregate.squared_distances
released.py     a round of the authors' code; plain: released.round_
parallel.py     how much to compute at a time, on which threads, and memory
"""
