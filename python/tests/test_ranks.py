"""Processes that compile the same network, such as the ranks of distributed training, pick the same kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_RANK = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from torch.nn import functional as F
import torch_diode
from simulated import compile, gpu, tensor

with gpu(name="NVIDIA H100 80GB HBM3"):
    torch_diode.install()
    for rows in (16, 512, 8192):
        layer = lambda x, w, b, v: F.gelu(F.linear(x, w, b)) @ v
        compile(layer, tensor((rows, 256)), tensor((4096, 256)), tensor((4096,)), tensor((4096, 512)))
    assert len(torch_diode.history()) == 6
    print(torch_diode.history())
"""


def test_two_processes_pick_the_same() -> None:
    command = [sys.executable, "-c", _RANK, str(Path(__file__).parent)]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert said[0] == said[1] and "by the model of nvidia-h100" in said[0]
