"""The package `torch_diode_models`, with either of the other two distributions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

import torch_diode
from simulated import compile, tensor
from torch_diode import status
from workspace import MODEL, ROOT


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package, newly imported from the source tree."""
    monkeypatch.syspath_prepend(str(ROOT / "python/models"))
    before = (status._outcome, list(status._errors))
    sys.modules.pop("torch_diode_models", None)
    import torch_diode_models

    yield torch_diode_models
    sys.modules.pop("torch_diode_models", None)
    status._outcome, status._errors[:] = before


def test_the_promised_functions_are_there(package: ModuleType) -> None:
    promised = {"get_detected_hardware", "list_available_models", "register_model", "set_log_level", "profile_predictions"}
    assert promised | {"get_prediction_stats"} == set(package.__all__)
    assert package.list_available_models() == ["NVIDIA-H100-matmul", "NVIDIA-H200-matmul"]
    assert package.get_detected_hardware() is None, "there is no GPU here"
    assert not torch_diode.is_installed()


@pytest.mark.usefixtures("gpu")
def test_registering_by_name_picks_and_profiles(package: ModuleType) -> None:
    package.register_model("NVIDIA-H200-matmul")
    with package.profile_predictions() as profile:
        compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert [pick.source for pick in profile] == ["model"]
    assert "not benchmarked" in str(profile)
    stats = package.get_prediction_stats()
    assert (stats["total_predictions"], stats["fallbacks"]) == (1, 0) and stats["avg_confidence"] > 0.5
    assert {"total_calls", "model_selections", "fallback_no_model", "fallback_error", "configs_filtered"} <= set(stats)


def test_a_built_package_brings_its_models(package: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from torch_diode import models

    built = tmp_path / "torch_diode_models" / "matmul" / "nvidia-h200"
    built.mkdir(parents=True)
    (tmp_path / "torch_diode_models" / "__init__.py").write_text("")
    (built / MODEL.name).write_bytes(MODEL.read_bytes())
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("torch_diode_models", None)
    monkeypatch.setattr(models, "shipped_models", list)
    assert [listed.origin for listed in models.available()] == ["torch_diode_models"]
