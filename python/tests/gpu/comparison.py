"""Measures the plug-in against no tuning, its own next tiles and default max-autotune, on a GPU.

    python python/tests/gpu/comparison.py --times times.jsonl --report report.md

Every case is written to the file of times as soon as it is measured, and is not measured again. Hugging Face's
transformers must be installed for the networks. On a machine with several GPUs, each can measure other cases (`--only`, and
`CUDA_VISIBLE_DEVICES`) into a file of its own; `compared.py` joins the files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCHINDUCTOR_QUIESCE_ASYNC_COMPILE_POOL", "0")

import cases
import compared
import networks
import products
import served
import served_networks
import torch
import unaligned
from cases import Case
from timing import (
    GRAPHS,
    GRAPHS_OF_COMPARED,
    GRAPHS_OF_NETWORKS,
    compiled,
    compiled_cold,
    microseconds,
    take_turns,
    turn,
)  # fmt: skip
from torch._inductor import config

import torch_diode
from torch_diode import models
from torch_diode.heuristics import Answer, Candidate, Request
from torch_diode.inductor import hiding

NONE, OURS, MAX = "no tuning", "ours", "max-autotune"
SHOWN = ", strides shown"
NAMES = "names.json"
TILES = 8
MOST = 16
"""How many picks a model ranks without ranking all configs."""
PARTS: dict[str, Callable[[], Sequence[Case]]] = {
    "alone": cases.alone, "batched": cases.batched, "layers": cases.in_a_row, "epilogues": cases.epilogues,
    "prologues": cases.prologues, "unaligned": unaligned.unaligned, "served": served.served, "scaled": products.scaled, "grouped": products.grouped,
    "served networks": served_networks.served_networks, "networks": networks.networks,
}  # fmt: skip


class NthTile:
    """Picks the tile with this rank in the model's order, and never the library."""

    source = "function"

    def __init__(self, method: str) -> None:
        self._method = method
        self._rank = int(method.removeprefix("tile ").removesuffix(SHOWN))
        hardware = torch_diode.Hardware.find(NAME)
        model = models.for_hardware(hardware.slug) if hardware else None
        if model is None:
            raise SystemExit(f"there is no model of {NAME}; expected an H100 or an H200")
        self._model = model

    def answer(self, request: Request) -> Answer | None:
        offered: dict[str, Any] = {"shared_memory": request.shared_memory, "swapped": request.may_swap, "tma": request.tma}
        choice = self._model.choose(request.problem, MOST, tf32=request.tiles_tf32, **offered)
        tiles = [Candidate(config, us) for config, us in choice.picks if not config.is_library]
        # Tiles that differ in nothing but the width of a group are as one.
        unlike: dict[str, Candidate] = {}
        for tile in tiles:
            unlike.setdefault(tile.config.label, tile)
        tiles = list(unlike.values())
        return Answer(self.source, tiles[self._rank :][:1], f"tile {self._rank}") if len(tiles) > self._rank else None

    def digest(self) -> str:
        return f"{self._method} {self._model.digest}"


NAME = torch.cuda.get_device_name() if torch.cuda.is_available() else "NVIDIA H200"
HIDDEN = hiding.unaligned_strides


def prepare(case: Case, method: str) -> dict[str, Any]:
    """Installs what a method needs, sets how float32 is rounded, and returns the options for the compile."""
    torch_diode.uninstall()
    torch.set_float32_matmul_precision("high" if case.tf32 else "highest")
    if method == OURS:
        torch_diode.install()
    elif method.startswith("tile "):
        torch_diode.install(heuristic=NthTile(method))
    hiding.unaligned_strides = (lambda template, inputs, stages: template) if method.endswith(SHOWN) else HIDDEN
    quiet = {"autotune_num_choices_displayed": 0, "max_autotune_report_choices_stats": False}
    return {"max_autotune_gemm": True, **quiet} if method == MAX else {}


def methods(part: str, tiles: int) -> list[str]:
    several = [] if part.endswith(("networks", "served")) else [f"tile {rank}" for rank in range(tiles)]
    shown = [f"{tile}{SHOWN}" for tile in several] if part == "unaligned" else []
    return [NONE, OURS, *several, *shown]


def picks() -> list[Any]:
    """What was picked in the last compiles, for each problem."""
    return [
        [pick.label, pick.source, pick.picks[0].config.label if pick.picks else None, pick.lines()]
        for pick in torch_diode.history()
    ]


def measured(case: Case, tiles: int) -> dict[str, Any]:
    """How many microseconds each method takes."""
    with turn():
        torch.manual_seed(0)
        function, inputs = case.make()
    graphs: dict[str, list[torch.cuda.CUDAGraph]] = {}
    noted: dict[str, list[Any]] = {}
    # Where results lie in memory may follow from the order of captures, so the compared methods are captured in both orders.
    for method in (*methods(case.part, tiles), OURS, NONE):
        many = GRAPHS_OF_COMPARED // 2 if method in (NONE, OURS) else GRAPHS
        try:
            _, captured = compiled(function, inputs, training=case.training, graphs=many, **prepare(case, method))
            graphs.setdefault(method, []).extend(captured)
            noted.setdefault(method, picks())
        except Exception as error:
            noted[method] = [f"{type(error).__name__}: {error}"[:500]]
    times = dict(zip(graphs, microseconds(list(graphs.values())), strict=True))
    return {"times": times, "picks": noted}


def measure_share(given: Sequence[Case], arguments: argparse.Namespace, until: float) -> None:
    """Compiles and measures this process's share of the cases."""
    take_turns(arguments.folder / "gpu")
    names = json.loads((arguments.folder / NAMES).read_text())[arguments.share :: arguments.workers]
    for case in with_time([case for case in given if case.name in names], until):
        found = measured(case, arguments.tiles)
        with turn():
            keep(case, found, arguments.times)


def measure_all(given: Sequence[Case], arguments: argparse.Namespace, folder: Path) -> None:
    """Compiles in several processes, which use the GPU in turns."""
    start = time.perf_counter()
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/cache"
    command = [sys.executable, __file__, *sys.argv[1:], "--folder", str(folder)]
    (folder / NAMES).write_text(json.dumps([case.name for case in given]))
    shares = range(min(arguments.workers, len(given)))
    workers = [subprocess.Popen([*command, "--share", str(share)], env=environment) for share in shares]
    for worker in workers:
        worker.wait()
    print(f"{len(given)} cases in {time.perf_counter() - start:.0f} s", flush=True)


def warm_up(case: Case) -> None:
    """Runs each method once, because its first run in a process takes longer."""
    for method in (NONE, OURS):
        options = prepare(case, method)
        compiled_cold(*case.make(), training=case.training, **options)


def measured_network(case: Case, autotuned: bool) -> dict[str, Any]:
    """The microseconds of each method, and the seconds that its cold compile takes."""
    torch.manual_seed(0)
    function, inputs = case.make()
    graphs, seconds, found = {}, {}, []
    for method in (NONE, OURS, MAX) if autotuned else (NONE, OURS):
        options = prepare(case, method)
        seconds[method], graphs[method] = compiled_cold(
            function, inputs, training=case.training, graphs=GRAPHS_OF_NETWORKS, **options
        )
        if method == OURS:
            found = picks()
    times = dict(zip(graphs, microseconds(list(graphs.values())), strict=True))
    return {"times": times, "seconds": seconds, "picks": {OURS: found}}


def left(given: Sequence[Case], path: Path) -> list[Case]:
    """The cases that were not measured yet."""
    known = {json.loads(line)["name"] for line in path.read_text().splitlines()} if path.exists() else set()
    return [case for case in given if case.name not in known]


def has_one_of(names: str, case: Case) -> bool:
    """Whether one of the names, which commas separate, is part of the case's name. Every case has the empty name."""
    return any(name in case.name for name in names.split(","))


def with_time(given: Sequence[Case], until: float) -> Iterator[Case]:
    """Yields cases until the time is over."""
    for at, case in enumerate(given):
        if time.time() > until:
            print(f"{len(given) - at} of {len(given)} cases are left: no time", flush=True)
            return
        yield case


def keep(case: Case, found: dict[str, Any], path: Path) -> None:
    """Appends a case to the file of times."""
    line = {"part": case.part, "name": case.name, "alone": case.alone, "gpu": NAME, "torch": torch.__version__, **found}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(case.name, {method: round(us, 2) for method, us in found["times"].items()}, found.get("seconds", ""), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=Path, required=True, help="the file of times, a line for each case")
    parser.add_argument("--report", type=Path, help="the tables, in Markdown")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure")
    parser.add_argument("--tiles", type=int, default=TILES, help="how many of the model's tiles are timed for each case")
    parser.add_argument(
        "--autotuned", default="", help="networks with one of these in their names, by commas, are autotuned too; all by default"
    )
    parser.add_argument("--autotune-seconds", type=float, default=1e9, help="autotune no network after so long")
    parser.add_argument("--only", default="", help="cases with one of these in their names, by commas; all by default")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--cold", action="store_true", help="served networks are compiled one at a time too, with empty caches")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    until, autotuned_until = time.time() + arguments.seconds, time.time() + arguments.autotune_seconds
    given = [
        case
        for part in arguments.parts.split(",")
        for case in (PARTS[part]() if arguments.share is not None else left(PARTS[part](), arguments.times))
        if has_one_of(arguments.only, case)
    ]
    is_cold = lambda case: case.part == "networks" or (arguments.cold and case.part == "served networks")
    kernels = [case for case in given if not is_cold(case)]
    nets = [case for case in given if is_cold(case)]
    if nets and arguments.share is None:
        # Networks come first, because they are compiled one at a time with the whole machine. They are compiled as
        # users do it: rows that are no multiple of 16 bytes are padded.
        warm_up(nets[0])
        for case in with_time(nets, until):
            autotuned = has_one_of(arguments.autotuned, case) and time.time() < autotuned_until
            keep(case, measured_network(case, autotuned), arguments.times)
    if kernels:
        with config.patch(shape_padding=False), tempfile.TemporaryDirectory() as folder:
            if arguments.share is not None:
                measure_share(kernels, arguments, until)
                return
            measure_all(kernels, arguments, Path(folder))
    if arguments.report:
        compared.write(arguments.report, [arguments.times])


if __name__ == "__main__":
    main()
