"""The judge on functions of tensors, in the style that people use."""

import numpy as np
import pytest

from refimpl.audit import KINDS, judge, report
from refimpl.audit.__main__ import main

torch = pytest.importorskip("torch", reason="torch is in the extra 'oracles'")
torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("patient")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("round", "alie-z")])
def test_the_definition_is_right_on_tensors(kind, dtype):
    def function(*inputs):
        assert not isinstance(inputs[0], np.ndarray)
        arrays = [v.numpy() if isinstance(v, torch.Tensor) else v for v in inputs]
        answer = torch.tensor(KINDS[kind].define(*arrays))
        return answer if dtype == torch.float64 else answer.float()

    said = judge(function, kind)
    assert (said.status, said.form) == (report.RIGHT, "torch"), said


def krum(gradients, f):
    """Of a list of tensors. topk takes the distance to itself too, so it is Blanchard's."""
    x = torch.stack(gradients)
    scores = (torch.cdist(x, x) ** 2).topk(len(x) - f - 1, largest=False).values.sum(dim=1)
    return x[scores.argmin()]


def test_krum_of_a_list_of_tensors():
    said = judge(krum, "krum", shrinks=False)
    assert said.form == "list of tensors"
    assert said.agreement.full, said
    assert said.verdict == "right"
    assert said.fates["is captured"]  # by a model of NaN


class Median(torch.nn.Module):
    """torch's own, of a parameter that has a gradient."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, W):
        return (self.scale * W).median(dim=0).values


def test_a_module_whose_output_has_a_gradient():
    said = judge(Median().double(), "median", shrinks=False)
    assert (said.form, said.variant.name) == ("torch", "lower median that NaN takes down"), said


def test_the_command_imports_torch_if_the_module_does(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "import torch\n\n\nclass Mean:\n    def __call__(self, W):\n        return torch.mean(W, dim=0)\n",
        encoding="utf-8",
    )
    assert main([f"{tmp_path}/mine.py:Mean", "--as", "average", "--call", "Mean()", "--form", "torch"]) == 0
    assert "takes its inputs as: torch" in capsys.readouterr().out
