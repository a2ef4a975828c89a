"""Ranks of distributed training pick the same kernels and train the same network.

With two GPUs, each rank has its own, and they communicate through NCCL. With one GPU, they share it and use Gloo.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import torch_diode

RANKS = 2
STEPS = 3
DEVICE = "cuda"
# Allows for several roundings in bf16, of gradients that are sums over all rows.
TOLERANCE = 5e-2


class Tower(torch.nn.Module):
    """A class of its own, because torch does not compile frames of its own modules by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = torch.nn.Linear(256, 512), torch.nn.Linear(512, 512), torch.nn.Linear(512, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.third(F.relu(self.second(F.relu(self.first(x)))))
        return found


def network() -> Tower:
    torch.manual_seed(0)
    return Tower()


def rows(rank: int) -> torch.Tensor:
    return torch.randn(2048, 256, generator=torch.Generator().manual_seed(rank + 1))


def loss(values: torch.Tensor) -> torch.Tensor:
    return values.float().square().mean()


def train(rank: int, folder: str, device: str, backend: str) -> None:
    """One rank of the training. After a few steps it writes its picks and its weights to a file."""
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    timeout = datetime.timedelta(seconds=120)
    dist.init_process_group(backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS, timeout=timeout)
    try:
        torch_diode.install()
        trained = DistributedDataParallel(network().to(device, torch.bfloat16))
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        compiled = torch.compile(trained)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss(compiled(rows(rank).to(device, torch.bfloat16))).backward()
            optimizer.step()
        picks = [(pick.label, pick.source, [one.config.label for one in pick.picks]) for pick in torch_diode.history()]
        learnt = {name: value.float().cpu() for name, value in trained.module.state_dict().items()}
        torch.save({"picks": picks, "learnt": learnt}, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


def alone() -> dict[str, torch.Tensor]:
    """The same training in one process and in fp64, with the rows of all ranks."""
    trained = network().double()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    given = torch.cat([rows(rank) for rank in range(RANKS)]).double()
    for _ in range(STEPS):
        optimizer.zero_grad()
        trained(given).square().mean().backward()
        optimizer.step()
    return trained.state_dict()


def ran(folder: Path, device: str, backend: str) -> list[dict[str, Any]]:
    torch.multiprocessing.spawn(train, args=(str(folder), device, backend), nprocs=RANKS)
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]


def test_ranks_pick_the_same(tmp_path: Path) -> None:
    several = torch.cuda.device_count() >= RANKS
    one, other = ran(tmp_path, DEVICE, "nccl" if several else "gloo")
    assert one["picks"] == other["picks"]
    assert {source for _, source, _ in one["picks"]} == {"model"}
    assert any(label != "library" for _, _, labels in one["picks"] for label in labels), "some layer has a tile"
    exact = alone()
    for name, value in one["learnt"].items():
        assert torch.equal(value, other["learnt"][name]), "every rank has learnt the same"
        off = (value.double() - exact[name]).abs().max() / exact[name].abs().max()
        assert off < TOLERANCE, f"{name}: {off:.2g}"
