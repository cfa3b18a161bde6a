"""Figures of results."""

from dataclasses import replace

import pytest
from some_results import GRID, ONE_SEED, as_released, at_the_end, losing, result, with_options

from refimpl.aggregate import RULES
from refimpl.experiments import figures, tables
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
        "A title\nN = 10, F = 3, seeds 0, 1; worst test accuracy, own split",
        "A title\nN = 10, F = 0, seed 0; highest training loss and worst test accuracy, own split",
    ]


def test_panels_of_the_last_row_are_centred():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    places = figures.centred(matplotlib.Figure(), 5, 3)
    assert [(p.rowspan.start, p.colspan.start, p.colspan.stop) for p in places] == [
        (0, 0, 2), (0, 2, 4), (0, 4, 6), (1, 1, 3), (1, 3, 5)
    ]  # fmt: skip


def test_one_epoch_is_drawn_as_dots():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    once = list(map(at_the_end, GRID))
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, once, "foe")
    assert [bar.get_label() for bar in ax.containers][::-1] == [rule.label for rule in RULES.values()]


def test_curves_are_drawn_at_the_epochs_that_were_evaluated():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [replace(run, evaluated=[5, 7]) for run in GRID], "foe")
    assert ax.lines[0].get_xdata().tolist() == [5, 7]
    assert ax.get_xlim() == (0, 8)


def test_curves_that_coincide_have_their_markers_at_other_epochs():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    same = {m: [0.5] * 40 for m in ("worst_own", "not_finite")}
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [replace(run, history=same, evaluated=list(range(1, 41))) for run in ONE_SEED], "foe")
    assert len({line.get_markevery() for line in ax.lines}) == len(RULES)
    assert len({line.get_marker() for line in ax.lines}) == len(RULES)


def test_a_panel_has_a_line_per_rule_and_the_paper_s_on_top():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, GRID, "foe")
    assert ax.get_title() == "Fall-of-empire attack"
    assert [line.get_label() for line in ax.lines][::-1] == [rule.label for rule in RULES.values()]
    assert ax.lines[-1].get_ydata().tolist() == pytest.approx([0.1, 0.51])


def test_bands_end_where_the_numbers_do():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    wild = [losing("krum", "foe", seed, 0.1 + 5 * seed) for seed in (0, 1)]
    for run, worst in zip(wild, (0.1, 0.9)):
        run.history.update(worst_own=[0.1, worst])
    ends = {}
    for what in ("worst_own", "highest_loss"):
        ax = matplotlib.Figure().subplots()
        figures.panel(ax, wild, "foe", what)
        (shade,) = ax.collections
        ends[what] = shade.get_paths()[0].vertices[:, 1]
    assert (ends["worst_own"].min(), ends["worst_own"].max()) == (0, 1)
    assert ends["highest_loss"].min() == 0
    assert ends["highest_loss"].max() > 5
    ax = matplotlib.Figure().subplots()
    figures.dots(ax, wild, ["krum"], "foe", "worst_own")
    (bars,) = ax.collections
    assert bars.get_segments()[0][:, 0].tolist() == pytest.approx([0, 1])


def test_losses_of_different_magnitude_are_all_seen():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    for highest, scale in ((5.0, "linear"), (400.0, "log")):
        ax = matplotlib.Figure().subplots()
        figures.panel(
            ax, [losing("krum", "foe", 0, highest), losing("local", "foe", 0, 0.1)], "foe", "highest_loss"
        )
        assert ax.get_yscale() == scale


def test_every_rule_has_a_line_of_its_own_even_a_new_one(monkeypatch):
    for i in range(3):
        monkeypatch.setitem(RULES, f"new {i}", RULES["median"])
    styles = {rule: figures.style_of(rule) for rule in RULES | SYSTEMS}
    assert len({style[:3] for style in styles.values()}) == len(styles)
    assert [rule for rule, style in styles.items() if style.linewidth > 1] == ["adaptive"]
    assert styles["adaptive"].color == "#D55E00"
    assert styles["krum"][:3] == ("#7F7F7F", "-", 0.9)
    assert styles["local"][:3] == ("#000000", "--", 0.9)


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ([[4], [4]], "seed 4"),
        ([[0, 1, 2], [0, 1, 2]], "seeds 0 to 2"),
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


def test_dots_have_the_name_of_their_number_below(monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    made = []
    monkeypatch.setattr(figures, "save", lambda fig, path: made.append(fig))
    once = list(map(at_the_end, GRID))
    for runs_of in (once, GRID):
        figures.figure(runs_of, "A title", None, ("worst_own", "mean_own"))
    dots, curves = (fig.axes[0] for fig in made)
    assert (dots.get_xlabel(), dots.get_ylabel()) == ("worst test accuracy", "")
    assert curves.get_ylabel() == "worst test accuracy"


def test_systems_have_markers_of_a_usual_size_on_short_runs():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [result(system, "foe", 0, 0.5) for system in SYSTEMS], "foe")
    assert max(line.get_markersize() for line in ax.lines) < 10


def test_runs_that_were_evaluated_at_other_epochs_share_a_panel():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    seldom = at_the_end(replace(result("krum", "foe", 0, 0.5), evaluated=[2, 4]))
    figures.panel(ax, [replace(result("adaptive", "foe", 0, 0.5), evaluated=[2, 4]), seldom], "foe")
    assert [line.get_xdata().tolist() for line in ax.lines] == [[4], [2, 4]]
    again = replace(result("adaptive", "foe", 1, 0.7), evaluated=[3, 4])  # another seed, by other code
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [replace(result("adaptive", "foe", 0, 0.5), evaluated=[2, 4]), again], "foe")
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[4, pytest.approx(0.6)]]]


def test_the_legend_fits_below_the_panels():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    from matplotlib.figure import Figure

    some = [run for run in GRID if run.config.rule in ("adaptive", "inverse-risk", "average", "local")]
    with matplotlib.rc_context(figures.TEXT):
        fig = Figure(figsize=(2 * figures.PANEL, 2), layout="constrained")
        for ax, attack in zip(fig.subplots(1, 2), ("none", "foe")):
            figures.panel(ax, some, attack)
        figures.legend(fig, tables.rules_of(some))
        (made,) = fig.legends
        assert made.get_window_extent().width <= fig.bbox.width
        assert len(made.get_texts()) == 4


def test_a_rule_that_the_first_panel_lacks_is_in_the_legend_too():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    names = [("krum", "none"), ("krum", "foe"), ("adaptive", "foe")]
    some = [run for run in GRID if (run.config.rule, run.config.attack) in names]
    fig = matplotlib.Figure()
    for ax, attack in zip(fig.subplots(1, 2), ("none", "foe")):
        figures.panel(ax, some, attack)
    figures.legend(fig, tables.rules_of(some))
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["adaptive", "Krum"]
