"""hypothesis strategies for the inputs that break aggregation rules."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# Ties, zeros of both signs, tiny and huge values come up often; the rest is ordinary.
ordinary = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 6))
finite = ordinary | st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-150, 1e100, -1e100])
poison = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300])

positive = st.floats(1e-6, 1e6)
risk = st.one_of(positive, st.sampled_from([0.0, 5e-324, 1e-300, 0.5, 0.5, 1e300]))
any_risk = risk | st.sampled_from([np.nan, np.inf])


def layouts_of(array):
    """The same numbers, read-only, in C order, in Fortran order or as a strided view."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    forms = [array.copy(), np.asfortranarray(array), wide[..., ::2]]
    for form in forms:
        form.flags.writeable = False
    return st.sampled_from(forms)


@st.composite
def models(draw, elements=ordinary, least=1, most=9, dtype=np.float64):
    """W (n, d), sometimes with repeated rows."""
    n, d = draw(st.integers(least, most)), draw(st.integers(1, 5))
    W = draw(hnp.arrays(dtype, (n, d), elements=elements))
    if draw(st.booleans()):
        W = W[draw(hnp.arrays(np.intp, n, elements=st.integers(0, n - 1)))]
    return draw(layouts_of(W))


@st.composite
def risks(draw, elements=any_risk, most=8):
    """(risks (n,), own)."""
    n = draw(st.integers(1, most))
    r = draw(hnp.arrays(np.float64, n, elements=elements))
    return draw(layouts_of(r)), draw(st.integers(0, n - 1))
