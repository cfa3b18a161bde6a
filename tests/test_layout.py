import numpy as np
from numpy.testing import assert_array_equal

from refimpl.layout import layout


def test_tensors_lie_consecutively_in_c_order_and_are_views():
    fields = layout([("A", (2, 3), 2), ("b", (3,), 2), ("c", (), 1)])
    assert [(f.name, f.offset, f.shape) for f in fields.fields] == [
        ("A", 0, (2, 3)),
        ("b", 6, (3,)),
        ("c", 9, ()),
    ]
    assert fields.size == 10
    W = np.arange(20.0).reshape(2, 10)
    views = fields.views(W)
    assert_array_equal(views["A"][1], [[10, 11, 12], [13, 14, 15]])
    assert_array_equal(views["b"], [[6, 7, 8], [16, 17, 18]])
    assert_array_equal(views["c"], [9, 19])
    views["A"][0, 1, 2] = -1
    assert W[0, 5] == -1
