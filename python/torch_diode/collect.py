"""Keeps what Inductor measures while it autotunes: timings of real programs, to train on or to contribute."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import choices, messages
from ._core import Config, Dataset, Problem, Table
from .errors import DiodeValueError
from .inductor import OPS, kernels, measuring
from .problems import Unsupported, problem_of
from .recording import write

_TILES = ("triton::mm", "triton::bmm", "triton::mm_persistent_tma")


class MatmulDatasetCollector:
    """Records every timing that Inductor takes of mm, addmm, bmm and baddbmm while it is active.

    While it is active, GEMMs are autotuned, caches are not used, and ``torch_diode`` picks nothing in this thread.
    ``search_space`` is Inductor's, ``"DEFAULT"`` or ``"EXHAUSTIVE"``. Afterwards, everything is as it was.

    >>> with torch_diode.MatmulDatasetCollector("NVIDIA H200") as collector:
    ...     pass  # torch.compile(model)(x)
    >>> collector.save_to_file("timings.msgpack.zst")
    >>> collector.get_dataset()
    <Dataset of nvidia-h200: 0 problems, 0 timings>
    """

    def __init__(
        self,
        hardware_name: str | None = None,
        *,
        operations: Sequence[str] = OPS,
        search_space: str | None = None,
    ) -> None:
        unknown = [operations] if isinstance(operations, str) else [one for one in operations if one not in OPS]
        if unknown:
            raise DiodeValueError(f"operations: got `{unknown[0]}`, expected a list with some of {', '.join(OPS)}")
        if search_space not in (None, "DEFAULT", "EXHAUSTIVE"):
            raise DiodeValueError(f"search_space: got `{search_space}`, expected DEFAULT or EXHAUSTIVE")
        self.skipped = 0
        """How many timings were of kernels that no config describes."""
        self._operations = frozenset(operations)
        self._search_space = search_space
        self._dataset = Dataset(_device_name() if hardware_name is None else hardware_name)
        self._undo: contextlib.ExitStack | None = None
        self._lock = threading.Lock()

    def start_collection(self) -> None:
        """Begins to record. If it has begun already, it only logs a warning."""
        if self._undo is not None:
            messages.logger.warning("this collector is recording already")
            return
        with contextlib.ExitStack() as undo:
            undo.enter_context(choices.paused())
            undo.enter_context(measuring.measuring(self._search_space))
            undo.callback(measuring.add_feedback_saver(self._record))
            self._undo = undo.pop_all()

    def stop_collection(self) -> None:
        """Stops recording and restores what it had changed, but not before what began later in this thread has ended."""
        if self._undo is None:
            messages.logger.warning("this collector is not recording")
            return
        undo, self._undo = self._undo, None
        undo.close()

    def __enter__(self) -> MatmulDatasetCollector:
        self.start_collection()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop_collection()

    def get_dataset(self) -> Dataset:
        """The timings that were recorded so far."""
        return self._dataset

    def to_table(self, top: int | None = None) -> Table:
        """A table of the best configs that were recorded."""
        return Table.from_dataset(self._dataset, top)

    def save_to_file(self, path: str | os.PathLike[str]) -> None:
        """Writes the format of the extension: ``.msgpack.zst`` holds everything, ``.json`` and ``.msgpack`` are torch-diode's.

        As in torch-diode, an earlier file is replaced, and what the format cannot hold is left out with a warning.
        """
        lost = self._dataset.save(os.fspath(path), overwrite=True, lossy=True)
        if lost is not None:
            messages.logger.warning("%s holds no %s: left out; a .msgpack.zst file holds everything", path, lost)

    def load_from_file(self, path: str | os.PathLike[str]) -> None:
        """Continues with the timings of a file in any of the formats."""
        self._dataset = Dataset.load(os.fspath(path))

    def save_table_to_file(self, path: str | os.PathLike[str], top: int | None = None) -> None:
        """Writes the best configs as a table."""
        write(path, self.to_table(top).to_json())

    def _record(self, timings: Mapping[Any, float], name: str, input_nodes: Sequence[Any]) -> None:
        """Inductor calls this after it has benchmarked. No error in here may end the compile."""
        try:
            self._add(timings, name, input_nodes)
        except Exception as error:
            self.skipped += len(timings)
            level = logging.INFO if isinstance(error, Unsupported) else logging.WARNING
            messages.log_once(f"collect {name} {error}", level, "timings of %s were not recorded: %s", name, error)

    def _add(self, timings: Mapping[Any, float], name: str, input_nodes: Sequence[Any]) -> None:
        if name not in self._operations:
            raise Unsupported(f"{name} is not among {', '.join(sorted(self._operations))}")
        problem = problem_of(measuring.inputs_of(input_nodes), name)
        times: dict[Config, float | None] = {}
        for choice, milliseconds in timings.items():
            config = config_of(choice, problem)
            if config is None:
                self.skipped += 1
                continue
            time = milliseconds if 0 < milliseconds < float("inf") else None
            known = times.get(config)
            # The library may be offered under two names. A user would get the faster one.
            times[config] = min(time, known) if time is not None and known is not None else time if known is None else known
        with self._lock:
            self._dataset.add(problem, list(times.items()))


def config_of(choice: Any, problem: Problem) -> Config | None:
    """The config that one of Inductor's choices runs. ``None`` for a kernel that no config describes."""
    ktc = kernels.ktc_of(choice)
    if ktc is None:
        return None
    template, params = ktc.template.uid, ktc.params.to_serializeable_dict()
    if template.startswith("aten::"):
        return Config("aten")
    if template == "decompose_k":
        return Config(template, k_split=params["k_split"])
    if template not in _TILES:
        return None
    rocm = {name: params[name] for name in ("matrix_instr_nonkdim", "waves_per_eu", "kpack") if name in params}
    return Config(
        template,
        block_m=params["BLOCK_M"],
        block_n=params["BLOCK_N"],
        block_k=params["BLOCK_K"],
        group_m=params["GROUP_M"],
        num_stages=params["num_stages"],
        num_warps=params["num_warps"],
        even_k=bool(params["EVEN_K"]),
        # Inductor sets this for every type, but it matters only for fp32.
        allow_tf32=bool(ktc.extra_kwargs.get("ALLOW_TF32", False)) and problem.dtype == "float32",
        use_fast_accum=bool(params["USE_FAST_ACCUM"]),
        acc_type=params["ACC_TYPE"],
        **rocm,
    )


def _device_name() -> str:
    return torch.cuda.get_device_properties(torch.cuda.current_device()).name if torch.cuda.is_available() else "cpu"
