"""hypothesis strategies for the inputs that break aggregation rules.

Every array comes read-only, in C order, in Fortran order or as a strided view. Drawn often: ties, repeated
rows, zeros of both signs, subnormals, 1e300, NaN and infinity; n = 1, n even and odd; d = 1; f = 0.
"""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# --- Numbers ------------------------------------------------------------------------------------------------

ordinary = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 6))
whole = st.integers(-50, 50).map(float)  # arithmetic on them is exact
few = st.integers(-2, 2).map(float)  # ties are the rule
tiny = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-200, 1e-150])
finite = ordinary | st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-150, 1e100, -1e100])
huge = st.sampled_from([1e300, -1e300, 3e300, 1e200, -1e160])
poison = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300])
hard = ordinary | few | tiny | huge | poison
single = few | st.floats(-1e3, 1e3, width=32) | st.sampled_from([np.nan, np.inf, -np.inf])  # for float32

positive = st.floats(1e-6, 1e6)
risk = st.one_of(positive, st.sampled_from([0.0, 5e-324, 1e-310, 1e-300, 0.5, 0.5, 2.0, 1e300]))
any_risk = risk | st.sampled_from([np.nan, np.inf])

# --- Arrays -------------------------------------------------------------------------------------------------


def frozen(array, form=0):
    """The same numbers, read-only: in C order, in Fortran order, or as a strided view."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    array = [array.copy(), np.asfortranarray(array), wide[..., ::2]][form]
    array.flags.writeable = False
    return array


forms = st.sampled_from([0, 1, 2])


@st.composite
def models(draw, elements=ordinary, least=1, most=9, dtype=np.float64):
    """W (n, d), sometimes with repeated rows."""
    n, d = draw(st.integers(least, most)), draw(st.integers(1, 5))
    W = draw(hnp.arrays(dtype, (n, d), elements=elements))
    if draw(st.booleans()):
        W = W[draw(hnp.arrays(np.intp, n, elements=st.integers(0, n - 1)))]
    return frozen(W, draw(forms))


@st.composite
def risks(draw, elements=any_risk, most=8):
    """(risks (n,), own)."""
    n = draw(st.integers(1, most))
    r = draw(hnp.arrays(np.float64, n, elements=elements))
    return frozen(r, draw(forms)), draw(st.integers(0, n - 1))


@st.composite
def weighted(draw, elements=ordinary):
    """(weights (n,) on the simplex, some of them 0; W (n, d)) for Eq. (3)."""
    W = draw(models(elements))
    c = draw(hnp.arrays(np.float64, len(W), elements=st.integers(0, 4).map(float)))
    c[draw(st.integers(0, len(W) - 1))] += 1
    return frozen(c / c.sum(), draw(forms)), W


@st.composite
def attacked(draw, least_honest, elements=ordinary, attackers=hard, most=3):
    """(honest (h, d), W (h + f, d) with f attackers' rows in between, f).

    least_honest(f) is how many honest rows there have to be.
    """
    f = draw(st.integers(0, most))
    honest = draw(models(elements, least=least_honest(f), most=max(9, least_honest(f))))
    bad = draw(hnp.arrays(np.float64, (f, honest.shape[1]), elements=attackers))
    order = draw(st.permutations(range(len(honest) + f)))
    return honest, frozen(np.concatenate([honest, bad])[order], draw(forms)), f
