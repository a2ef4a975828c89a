"""Picked tiles in C++ code: compiled ahead of time and loaded again, and called by the C++ wrapper."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_results import TILE, TOLERANCE, error
from torch._inductor import config
from torch.nn import functional as F

import torch_diode

DEVICE = "cuda"


class Block(torch.nn.Module):
    """A linear layer with an epilogue that a tile can compute, and one with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = x + self.down(F.gelu(self.up(x)))
        return found


def made() -> Block:
    torch.manual_seed(0)
    return Block().to(DEVICE, torch.bfloat16)


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 256, device=DEVICE, dtype=torch.bfloat16)


def tile(problem: torch_diode.Problem) -> object:
    return {"template": "triton::mm", **TILE}


def check_picked() -> None:
    """Checks that both layers have the tile."""
    picked = torch_diode.history()
    assert [pick.source for pick in picked] == ["function", "function"]
    assert {pick.picks[0].config.block_n for pick in picked} == {TILE["block_n"]}


def off(found: torch.Tensor, network: Block, x: torch.Tensor) -> float:
    return error(found, copy.deepcopy(network).double()(x.double()))


# A separate process shows that what was packaged needs neither the plug-in nor the process that
# made it.
_LOADED = """
import sys
import torch

package, given, found = sys.argv[1:]
loaded = torch._inductor.aoti_load_package(package)
torch.save([loaded(x) for x in torch.load(given)], found)
"""


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_a_package_holds_tiles(dynamic: bool, tmp_path: Path) -> None:
    torch_diode.install(heuristic=tile)
    network = made()
    sizes = {0: torch.export.Dim("rows", min=2, max=4096)} if dynamic else None
    package, given, found = (str(tmp_path / name) for name in ("block.pt2", "given.pt", "found.pt"))
    with torch.no_grad(), config.patch(shape_padding=False):
        program = torch.export.export(network, (rows(512),), dynamic_shapes=(sizes,))
        torch._inductor.aoti_compile_and_package(program, package_path=package)
        check_picked()
        inputs = [rows(count) for count in ((512, 100, 2) if dynamic else (512,))]
        torch.save(inputs, given)
        subprocess.run([sys.executable, "-c", _LOADED, package, given, found], timeout=300, check=True)
        for x, value in zip(inputs, torch.load(found), strict=True):
            assert off(value, network, x) < TOLERANCE[torch.bfloat16]


def test_the_wrapper_in_cpp_launches_tiles() -> None:
    torch_diode.install(heuristic=tile)
    network, x = made(), rows(512)
    with torch.no_grad(), config.patch(shape_padding=False):
        compiled = torch.compile(network, options={"cpp_wrapper": True})
        assert off(compiled(x), network, x) < TOLERANCE[torch.bfloat16]
    check_picked()
