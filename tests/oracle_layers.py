"""Layers, networks and optimisers again, as scalar loops written from their definitions.

Imports nothing from refimpl. Tensors are nested lists (numpy arrays will do as well: only indexing is used);
there are no batches and no workers. Each network runs the layers in the order of the paper's tables
(supplement C), one at a time.
"""

import itertools
import math


def zeros(*shape):
    """Nested lists of 0.0."""
    return [zeros(*shape[1:]) for _ in range(shape[0])] if shape else 0.0


def total(rows):
    """The sum of vectors, entry by entry."""
    return [math.fsum(column) for column in zip(*rows)]


def slope(f, x, direction, h):
    """The derivative of the scalar function f at x along the direction: central differences, error O(h^6)."""
    up, down = ([float(f(x + sign * i * h * direction)) for i in (1, 2, 3)] for sign in (1, -1))
    return sum(c * (a - b) for c, a, b in zip((3 / 4, -3 / 20, 1 / 60), up, down)) / h


# --- Affine layer and ReLU ----------------------------------------------------------------------------------


def affine(x, W, b):
    """y_j = b_j + sum_i x_i W_ij, for one row x."""
    return [b[j] + math.fsum(x[i] * W[i][j] for i in range(len(W))) for j in range(len(b))]


def affine_backward(dy, x, W):
    """(dx, dW, db), by the chain rule for one row: each product x_i W_ij passes dy_j to its two factors."""
    dx = [math.fsum(dy[j] * W[i][j] for j in range(len(dy))) for i in range(len(W))]
    return dx, [[xi * d for d in dy] for xi in x], list(dy)


def relu(x):
    return [max(v, 0.0) for v in x]


def relu_backward(dy, x):
    """By the input x. The derivative at the kink is 0, as everybody takes it."""
    return [d if v > 0 else 0.0 for d, v in zip(dy, x)]


# --- Images: x[i][j][c] -------------------------------------------------------------------------------------


def taps(H, W, C, O):
    """The terms of a 3x3 convolution, stride 1, padding 1, as (output, input, kernel) indices.

    Those that fall outside of the image are left out: there the input is 0.
    """
    for i, j, s, t in itertools.product(range(H), range(W), range(3), range(3)):
        p, q = i + s - 1, j + t - 1
        if 0 <= p < H and 0 <= q < W:
            for c, o in itertools.product(range(C), range(O)):
                yield (i, j, o), (p, q, c), (s, t, c, o)


def conv2d(x, K, b):
    """Cross-correlation, as in every deep-learning library: the kernel is not flipped."""
    H, W, C, O = len(x), len(x[0]), len(x[0][0]), len(b)
    y = [[list(b) for _ in range(W)] for _ in range(H)]
    for (i, j, o), (p, q, c), (s, t, _, _) in taps(H, W, C, O):
        y[i][j][o] += x[p][q][c] * K[s][t][c][o]
    return y


def conv2d_backward(dy, x, K):
    """(dx, dK, db): each product of the sum passes dy to its two factors."""
    H, W, C, O = len(x), len(x[0]), len(x[0][0]), len(dy[0][0])
    dx, dK, db = zeros(H, W, C), zeros(3, 3, C, O), zeros(O)
    for (i, j, o), (p, q, c), (s, t, _, _) in taps(H, W, C, O):
        dx[p][q][c] += dy[i][j][o] * K[s][t][c][o]
        dK[s][t][c][o] += dy[i][j][o] * x[p][q][c]
    for i, j, o in itertools.product(range(H), range(W), range(O)):
        db[o] += dy[i][j][o]
    return dx, dK, db


def maxpool2d(x):
    """(y, where): the maximum of each 2x2 window and the pixel it came from; ties go to the first, row by row.

    An odd last row or column is dropped.
    """
    H, W, C = len(x) // 2, len(x[0]) // 2, len(x[0][0])
    y, where = zeros(H, W, C), {}
    for i, j, c in itertools.product(range(H), range(W), range(C)):
        best = 2 * i, 2 * j
        for p, q in ((2 * i, 2 * j + 1), (2 * i + 1, 2 * j), (2 * i + 1, 2 * j + 1)):
            if x[p][q][c] > x[best[0]][best[1]][c]:
                best = p, q
        y[i][j][c] = x[best[0]][best[1]][c]
        where[i, j, c] = *best, c
    return y, where


def maxpool2d_backward(dy, x, where):
    dx = zeros(len(x), len(x[0]), len(x[0][0]))
    for (i, j, c), (p, q, _) in where.items():
        dx[p][q][c] = dy[i][j][c]
    return dx


# --- Softmax cross-entropy ----------------------------------------------------------------------------------


def cross_entropy(z, label):
    """-log softmax(z)_label; 0 for padding (label -1)."""
    if label < 0:
        return 0.0
    top = max(z)
    return math.log(math.fsum(math.exp(v - top) for v in z)) + (top - z[label])


def cross_entropy_backward(z, label):
    """softmax(z)_j - [j = label]; 0 for padding."""
    share = [1 / math.fsum(math.exp(min(v - u, 700)) for v in z) for u in z]
    return [(p - (j == label)) * (label >= 0) for j, p in enumerate(share)]


# --- Networks: supplement C ---------------------------------------------------------------------------------


def mlp_shapes(sizes):
    """{name: shape} in the order of the flat vector, for mlp([57, 20, 2]) and the like."""
    shapes = {}
    for i, (p, h) in enumerate(itertools.pairwise(sizes), start=1):
        shapes |= {f"W{i}": (p, h), f"b{i}": (h,)}
    return shapes


def cnn_shapes(side, channels, hidden, classes):
    shapes, C = {}, 1
    for i, O in enumerate(channels, start=1):
        shapes |= {f"K{i}": (3, 3, C, O), f"b{i}": (O,)}
        side, C = side // 2, O
    for i, (p, h) in enumerate([(side * side * C, hidden), (hidden, classes)], start=len(channels) + 1):
        shapes |= {f"W{i}": (p, h), f"b{i}": (h,)}
    return shapes


def unflatten(w, shapes):
    """The named tensors of the flat vector, each in C order."""
    entries = iter(w)

    def tensor(shape):
        return [tensor(shape[1:]) for _ in range(shape[0])] if shape else float(next(entries))

    return {name: tensor(shape) for name, shape in shapes.items()}


def flatten(tensor):
    return [x for part in tensor for x in flatten(part)] if isinstance(tensor, list) else [tensor]


def forward(t, x):
    """(logits, the input of every layer) of one sample: a list of numbers, or of rows of pixels."""
    seen, i = [], 1
    if "K1" in t:
        x = [[[float(v)] for v in row] for row in x]
    while f"K{i}" in t:  # convolution, ReLU, pooling
        z = conv2d(x, t[f"K{i}"], t[f"b{i}"])
        positive = [[relu(pixel) for pixel in row] for row in z]
        pooled, where = maxpool2d(positive)
        seen.append((x, z, positive, where))
        x, i = pooled, i + 1
    x = flatten(x) if "K1" in t else x
    while f"W{i}" in t:  # affine, ReLU but for the last
        z = affine(x, t[f"W{i}"], t[f"b{i}"])
        seen.append((x, z))
        x, i = relu(z) if f"W{i + 1}" in t else z, i + 1
    return x, seen


def backward(t, seen, dy):
    """{name: derivative}, from the derivative by the logits."""
    dt, i, last = {}, len(seen), len(seen)
    while f"W{i}" in t:
        x, z = seen[i - 1]
        dz = dy if i == last else relu_backward(dy, z)
        dy, dt[f"W{i}"], dt[f"b{i}"] = affine_backward(dz, x, t[f"W{i}"])
        i -= 1
    if i:  # back to the shape of the last pooling: row, column, channel
        _, _, positive, where = seen[i - 1]
        flat, dy = iter(dy), zeros(len(positive) // 2, len(positive[0]) // 2, len(positive[0][0]))
        for p, q, c in where:
            dy[p][q][c] = next(flat)
    while i:
        x, z, positive, where = seen[i - 1]
        dpositive = maxpool2d_backward(dy, positive, where)
        dz = [[relu_backward(d, v) for d, v in zip(*rows)] for rows in zip(dpositive, z)]
        dy, dt[f"K{i}"], dt[f"b{i}"] = conv2d_backward(dz, x, t[f"K{i}"])
        i -= 1
    return dt


def risk(w, X, y, shapes):
    """r(w), the mean loss over the rows that are not padding: below Eq. (1)."""
    t = unflatten(w, shapes)
    losses = [cross_entropy(forward(t, x)[0], label) for x, label in zip(X, y) if label >= 0]
    return math.fsum(losses) / len(losses)


def gradient(w, X, y, shapes):
    """The gradient of the risk, flat."""
    t = unflatten(w, shapes)
    rows = []
    for x, label in zip(X, y):
        if label >= 0:
            z, seen = forward(t, x)
            dt = backward(t, seen, cross_entropy_backward(z, label))
            rows.append([g for name in shapes for g in flatten(dt[name])])
    return [g / len(rows) for g in total(rows)]


# --- Optimisers ---------------------------------------------------------------------------------------------


def sgd(w, g, state, lr):
    """Eq. (2)."""
    return [x - lr * d for x, d in zip(w, g)], state


def adam(w, g, state, lr):
    """Kingma and Ba 2015, Algorithm 1, with its defaults; the state is (t, m, v)."""
    t, m, v = state or (0, [0.0] * len(w), [0.0] * len(w))
    t += 1
    m = [0.9 * a + (1 - 0.9) * d for a, d in zip(m, g)]
    v = [0.999 * a + (1 - 0.999) * d**2 for a, d in zip(v, g)]
    step = [a / (1 - 0.9**t) / (math.sqrt(b / (1 - 0.999**t)) + 1e-8) for a, b in zip(m, v)]
    return [x - lr * s for x, s in zip(w, step)], (t, m, v)


OPTIMIZERS = {"sgd": sgd, "adam": adam}
