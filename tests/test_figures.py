"""Figures of results."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression
from some_results import BY_DEFAULT, GRID, ONE_SEED, as_released, at_the_end, losing, result, with_options

from refimpl.aggregate import RULES
from refimpl.experiments import figures
from refimpl.related import SYSTEMS


@pytest.mark.parametrize("results", [GRID, GRID[:2]])
def test_the_figure_is_a_png_and_a_pdf(tmp_path, results):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    figures.figure(results, "A title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_caption_says_what_the_panels_have_in_common(monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    made = []
    monkeypatch.setattr(figures, "save", lambda fig, path: made.append(fig.get_suptitle()))
    figures.figure(GRID, "A title", None)
    alone = [run for run in GRID if run.config.attack == "none" and run.config.seed == 0]
    figures.figure(alone, "A title", None, ("highest_loss", "worst_own"))
    assert made == [
        "A title\ntest accuracy of the worst normal worker, own test split; "
        "10 workers, 3 attackers, seeds 0, 1; thin line: one seed",
        "A title\ntraining loss of the worst normal worker and test accuracy of the worst normal worker, "
        "own test split; 10 workers, 0 attackers, seed 0\n"
        "The released code plots this loss divided by the batch size.",
    ]


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are made, instead of written."""
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    made = []
    monkeypatch.setattr(figures, "save", lambda fig, path: made.append(fig))
    return made


def lines_of(ax):
    """The lines of the rules by their name, the last drawn first, without what is written beside the panel."""
    return {line.get_label(): line for line in ax.lines[::-1] if not line.get_label().startswith("_")}


def test_one_epoch_is_drawn_as_a_line_of_dots_per_rule(drawn):
    figures.figure(list(map(at_the_end, GRID)), "A title", None, ("worst_own", "mean_own"))
    (fig,) = drawn
    assert len(fig.axes) == 2 * len(BY_DEFAULT)
    assert [text.get_text() for text in fig.axes[0].get_yticklabels()] == list(RULES)[::-1]
    assert {ax.get_xlabel() for ax in fig.axes} == {"test accuracy,\nstretched towards 1"}
    assert [ax.get_title() for ax in fig.axes[: len(BY_DEFAULT)]] == ["no attack", *BY_DEFAULT[1:]]


def test_axes_say_where_they_are_stretched(drawn):
    figures.figure(
        [run for run in GRID if run.config.attack == "none"], "A title", None, ("worst_own", "highest_loss")
    )
    (fig,) = drawn
    assert [ax.get_title("left") for ax in fig.axes] == ["no attack"] * 2
    assert [ax.get_ylabel() for ax in fig.axes] == ["test accuracy,\nstretched towards 1", "training loss"]
    assert [ax.get_yscale() for ax in fig.axes] == ["function", "linear"]


def test_a_figure_of_one_rule_has_room_for_its_title(tmp_path):
    """matplotlib warns if a panel has no room."""
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    alone = result("krum", "alie", 0, 0.5)
    for run in (alone, at_the_end(alone)):
        figures.figure(
            [run], "A title that is so long that it takes two lines or even more", tmp_path / "one.png"
        )


def test_curves_are_drawn_at_the_epochs_that_were_evaluated():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [replace(run, evaluated=[5, 7]) for run in GRID], "foe")
    assert ax.lines[0].get_xdata().tolist() == [5, 7]
    assert ax.get_xlim() == (0, 7)


def test_curves_that_coincide_have_their_markers_at_other_epochs():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    same = {m: [0.5] * 40 for m in ("worst_own", "not_finite")}
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [replace(run, history=same, evaluated=list(range(1, 41))) for run in ONE_SEED], "foe")
    assert len({line.get_markevery() for line in lines_of(ax).values()}) == len(RULES)
    assert len({line.get_marker() for line in lines_of(ax).values()}) == len(RULES)


def test_a_panel_has_a_line_per_rule_and_the_paper_s_on_top():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, GRID, "foe")
    assert ax.get_title("left") == "foe"
    assert list(lines_of(ax)) == list(RULES)
    assert lines_of(ax)["adaptive"].get_ydata().tolist() == pytest.approx([0.1, 0.51])


def test_each_line_has_its_name_and_last_value_beside_it_apart_from_the_others():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, ONE_SEED, "foe")
    assert [text.get_text() for text in ax.texts] == [
        f"{rule} {0.5 + 0.01 * i:.2f}" for i, rule in enumerate(RULES)
    ]
    heights = [text.get_position()[1] for text in ax.texts]
    assert np.diff(heights).min() > 0.1
    assert 0 <= heights[0] < heights[-1] <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_names_are_spread_in_their_order_inside_the_panel(heights):
    heights, gap = np.sort(heights), 1 / 40
    places = figures.spread(heights, gap)
    assert (np.diff(places) >= gap - 1e-9).all()
    assert -1e-9 <= places.min() <= places.max() <= 1 + 1e-9
    if (np.diff(heights) >= gap).all():
        np.testing.assert_allclose(places, heights, atol=1e-9)
    steps = gap * np.arange(len(heights))
    nearest = isotonic_regression(heights - steps, y_min=0, y_max=1 - steps[-1]) + steps
    np.testing.assert_allclose(places, nearest, atol=1e-9)


def test_few_seeds_are_lines_of_their_own_and_many_an_interval():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    seeds = [result("krum", "foe", seed, 0.5 + 0.1 * seed) for seed in range(figures.FEW)]
    few, many = matplotlib.Figure().subplots(2)
    figures.panel(few, seeds[:-1], "foe")
    figures.panel(many, seeds, "foe")
    assert [text.get_text() for ax in (few, many) for text in ax.texts] == ["krum 0.65", "krum 0.70±0.20"]
    assert len(few.lines) == len(many.lines) + len(seeds) - 1


def test_an_axis_of_accuracies_has_room_where_rules_differ():
    forward, back = figures.STRETCH
    a = np.linspace(0, 1, 11)
    np.testing.assert_allclose(back(forward(a)), a, atol=1e-12)
    assert (np.diff(forward(a), n=2) > 0).all()


def test_intervals_end_where_the_numbers_do():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ends = {}
    for what in ("worst_own", "highest_loss"):
        ax = matplotlib.Figure().subplots()
        figures.dots(ax, np.array([0.01, 0.01, 0.9, 0.9, 0.9]), 0, "krum", what)
        (bars,) = ax.collections
        ends[what] = bars.get_segments()[0][:, 0].tolist()
    assert ends["worst_own"] == pytest.approx([0, 1])
    assert ends["highest_loss"] == pytest.approx([0, 1.15], abs=0.01)


def test_losses_of_different_magnitude_are_all_seen():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    for highest, scale in ((5.0, "linear"), (400.0, "log")):
        ax = matplotlib.Figure().subplots()
        figures.panel(
            ax, [losing("krum", "foe", 0, highest), losing("local", "foe", 0, 0.1)], "foe", "highest_loss"
        )
        assert ax.get_yscale() == scale


def test_every_rule_has_a_line_of_its_own_even_a_new_one(monkeypatch):
    before = {rule: figures.style_of(rule) for rule in RULES | SYSTEMS}
    for i in range(3):
        monkeypatch.setitem(RULES, f"new {i}", RULES["median"])
    assert before == {rule: figures.style_of(rule) for rule in before}
    styles = {rule: figures.style_of(rule) for rule in RULES | SYSTEMS}
    assert len({style[:3] for style in styles.values()}) == len(styles)
    assert [rule for rule, style in styles.items() if style.linewidth > 1.5] == ["adaptive"]
    assert styles["adaptive"].color == "#D55E00"
    assert styles["krum"][:3] == ("#7F7F7F", "-", 0.9)
    assert styles["local"][:3] == ("#000000", "--", 1.2)


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ([[4], [4]], "seed 4"),
        ([[0, 1, 2], [0, 1, 2]], "seeds 0-2"),
        ([[2, 0], [0, 2]], "seeds 0, 2"),
        ([[0, 1], [0]], "seeds 0, 1 or fewer"),
    ],
)
def test_the_caption_names_the_seeds_that_were_run(seeds, expected):
    found = [result(rule, "foe", seed, 0.5) for rule, some in zip(RULES, seeds) for seed in some]
    assert figures.seeds_of(found) == expected


def test_the_title_says_what_is_of_the_released_code():
    def titled(**options):
        return figures.caption([with_options(GRID[0], **options)], "A title", "what").partition("\n")[0]

    assert titled() == "A title"
    assert titled(released=("adam",)) == "A title, released adam"
    assert titled(**as_released("spambase")) == "A title, protocol released"


def test_runs_that_were_evaluated_at_other_epochs_share_a_panel():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    seldom = at_the_end(replace(result("krum", "foe", 0, 0.5), evaluated=[2, 4]))
    figures.panel(ax, [replace(result("adaptive", "foe", 0, 0.5), evaluated=[2, 4]), seldom], "foe")
    assert {rule: line.get_xdata().tolist() for rule, line in lines_of(ax).items()} == {
        "adaptive": [2, 4],
        "krum": [4],
    }
    again = replace(result("adaptive", "foe", 1, 0.7), evaluated=[3, 4])  # another seed, by other code
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [replace(result("adaptive", "foe", 0, 0.5), evaluated=[2, 4]), again], "foe")
    assert lines_of(ax)["adaptive"].get_xydata().tolist() == [[4, pytest.approx(0.6)]]


def test_trust_has_a_row_per_normal_worker_and_the_attackers_on_the_right():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    C = np.arange(16).reshape(4, 4) / 16
    image = figures.matrix(ax, C, [0, 2])
    assert image.get_array().tolist() == C[[1, 3]][:, [1, 3, 0, 2]].tolist()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["1", "3"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "3", "0\nx", "2\nx"]
