import numpy as np
from numpy.testing import assert_array_equal

from refimpl.models import layout


def test_tensors_lie_consecutively_in_c_order_and_are_views():
    fields = layout([("A", (2, 3), 2), ("b", (3,), 2), ("c", (), 1)])
    assert [(f.name, f.offset, f.shape) for f in fields.fields] == [
        ("A", 0, (2, 3)),
        ("b", 6, (3,)),
        ("c", 9, ()),
    ]
    assert fields.size == 10
    w = np.arange(10.0)
    views = fields.views(w)
    assert_array_equal(views["A"], [[0, 1, 2], [3, 4, 5]])
    assert_array_equal(views["b"], [6, 7, 8])
    assert_array_equal(views["c"], 9)
    views["A"][1, 2] = -1
    assert w[5] == -1
