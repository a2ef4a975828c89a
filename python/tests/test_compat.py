"""Scripts that were written for torch-diode's own package, with torch-diode's own files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch._inductor import config
from torch._inductor.virtualized import V

import torch_diode
import torch_diode.compat
from simulated import compile, tensor

FOLDER = os.environ.get("DIODE_COMPAT_DIR")
its_files = pytest.mark.skipif(FOLDER is None, reason="DIODE_COMPAT_DIR names no folder with torch-diode's files")


def test_every_name_is_also_one_of_the_package() -> None:
    for name in torch_diode.compat.__all__:
        assert getattr(torch_diode.compat, name) is getattr(torch_diode, name)
    with pytest.raises(AttributeError, match="module 'torch_diode.compat' has no attribute 'nothing'"):
        torch_diode.compat.nothing  # type: ignore[attr-defined] # noqa: B018


@its_files
@pytest.mark.usefixtures("gpu")
def test_its_model_picks_in_its_handler() -> None:
    model = Path(FOLDER, "v1_model.pt")
    handler = torch_diode.compat.create_diode_choices(model_path=str(model), device="cuda", top_k_configs=1)
    with V.set_choices_handler(handler), config.patch(max_autotune_gemm=True):
        code = compile(torch.mm, tensor((512, 256), torch.float16), tensor((256, 1024), torch.float16))
    assert code.constants("BLOCK_N") and handler.get_stats()["model_selections"] == 1
    installed = torch_diode.compat.install_diode_choices(model_path=str(model))
    compile(torch.mm, tensor((512, 256), torch.float16), tensor((256, 1024), torch.float16))
    assert installed.get_stats()["total_predictions"] == 1 and torch_diode.compat.get_integration_info()


@its_files
def test_its_dataset_goes_through_the_collector_unchanged(tmp_path: Path) -> None:
    collector = torch_diode.compat.MatmulDatasetCollector(hardware_name="unknown", operations=["mm", "addmm"])
    collector.load_from_file(Path(FOLDER, "matmul_dataset.json"))
    timings = collector.get_dataset()
    assert len(timings) > 0 and timings.methods[0] == "unspecified"
    collector.save_to_file(tmp_path / "again.json")
    assert torch_diode.Dataset.load(tmp_path / "again.json") == timings
    collector.save_table_to_file(tmp_path / "table.json")
    table = torch_diode.Table.load(tmp_path / "table.json")
    assert len(table) == len(set(timings.problems)) and table.lookup(timings.problems[0])
