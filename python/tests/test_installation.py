"""In and out of Inductor: threads, the cache of graphs, and no trace afterwards."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import choices, config, utils, virtualized
from torch._inductor.lowering import lowerings
from torch._inductor.virtualized import V

import simulated
import torch_diode
from simulated import compile, tensor
from torch_diode import DiodeError, DiodeInductorChoices, installation


def in_thread(function: Callable[[], Any]) -> Any:
    """What a function returns in a thread of its own."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def state() -> tuple[Any, ...]:
    """Everything of torch that installing touches."""
    aten = torch.ops.aten
    targets = [target for target in lowerings if str(target).startswith(("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"))]
    return (
        {target: lowerings[target] for target in targets},
        choices.InductorChoices._finalize_template_configs,
        choices._use_autotune_backend,
        utils._use_autotune_backend,
        config.inductor_choices_class,
        set(config._config),
        config.max_autotune,
        config.max_autotune_gemm,
        config.max_autotune_gemm_backends,
        type(V.choices),
        aten.mm.default in lowerings,
    )


def test_uninstalling_leaves_no_trace() -> None:
    V.choices  # noqa: B018 - this thread has made its handler before the installation
    before = state()
    torch_diode.install()
    during = state()
    assert all(one != other for one, other in zip(before[:6], during[:6], strict=True))
    torch_diode.install(top_k=3)
    torch_diode.uninstall()
    assert state() == before
    torch_diode.uninstall()
    assert state() == before


def test_a_failed_installation_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    before = state()
    monkeypatch.setattr(installation, "_wrap_backend_test", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        torch_diode.install()
    assert state() == before and not torch_diode.is_installed()


def test_a_torch_that_lacks_something_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.8.1")
    with pytest.raises(DiodeError, match="torch: got 2.8.1, expected 2.9 or newer"):
        torch_diode.install()
    with monkeypatch.context() as absent:
        absent.setattr(torch, "__version__", "2.9.1")
        absent.setitem(sys.modules, "torch._inductor.kernel_template_choice", None)
        with pytest.raises(DiodeError, match="torch 2.9.1: import of torch._inductor.kernel_template_choice"):
            torch_diode.install()
    monkeypatch.setattr(torch, "__version__", "2.13.0")
    monkeypatch.setattr(choices.InductorChoices, "get_ktc", lambda self, inputs: None)
    with pytest.raises(DiodeError, match="torch 2.13.0: .* has changed; tested with 2.11"):
        torch_diode.install()


@pytest.mark.usefixtures("gpu")
def test_every_thread_picks_whenever_it_made_its_handler() -> None:
    ready, go = threading.Event(), threading.Event()
    kernels: list[list[str]] = []

    def early() -> None:
        V.choices  # noqa: B018
        ready.set()
        go.wait()
        kernels.append(compile(torch.mm, tensor((512, 256)), tensor((256, 1024))).constants("BLOCK_M"))

    thread = threading.Thread(target=early)
    thread.start()
    ready.wait()
    torch_diode.install(heuristic=lambda problem: {"block_m": 64, "block_n": 64, "block_k": 64, "num_stages": 3, "num_warps": 4})
    go.set()
    thread.join()
    assert kernels == [["64"]], "a thread that had a handler before the installation"
    assert isinstance(in_thread(lambda: V.choices), DiodeInductorChoices)
    late = in_thread(lambda: compile(torch.mm, tensor((512, 256)), tensor((256, 1024))).constants("BLOCK_M"))
    assert late == ["64"]


@pytest.mark.usefixtures("gpu")
def test_a_handler_that_outlives_the_installation_is_inductors_own() -> None:
    torch_diode.install()
    handler = V.choices
    assert isinstance(handler, DiodeInductorChoices)
    torch_diode.uninstall()
    with V.set_choices_handler(handler), config.patch(max_autotune_gemm=True), simulated.offered() as lists:
        compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert len(lists[0]) > 10
    assert handler.get_stats() == {}


def test_threads_share_one_model_and_count_right() -> None:
    problems = [torch_diode.Problem("mm", 64 + 8 * at, 1024, 1024, "bfloat16") for at in range(40)]
    from workspace import MODEL

    model = torch_diode.Model.load(MODEL)
    answers: list[list[str]] = []

    def ask() -> None:
        answers.append([repr(model.choose(problem, 3)) for problem in problems])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and all(answer == answers[0] for answer in answers)
    assert model.cached == len(problems)


def graph_key() -> bytes:
    """What of Inductor's config goes into the key of its cache of graphs."""
    return pickle.dumps(config.save_config_portable(ignore_private_configs=False))


def block_m_64(problem: Any) -> Any:
    return {"block_m": 64, "block_n": 64, "block_k": 64, "num_stages": 3, "num_warps": 4}


def test_the_cache_of_graphs_tells_models_settings_and_functions_apart(tmp_path: Path) -> None:
    keys = [graph_key()]

    def installed(**arguments: Any) -> None:
        torch_diode.install(**arguments)
        keys.append(graph_key())
        assert graph_key() == keys[-1], "the same is the same"

    limit = 64
    installed()
    installed(top_k=2)
    installed(min_confidence=0.9)
    installed(heuristic=block_m_64)
    installed(heuristic=lambda problem: "aten" if problem.m > limit else None)
    limit = 128
    installed(heuristic=lambda problem: "aten" if problem.m > limit else None)
    installed(hardware="nvidia-h100")
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"x+mm": []}))
    installed(table=table)
    table.write_text(json.dumps({"y+mm": []}))
    keys.append(graph_key())
    assert len(set(keys)) == len(keys)


def test_inductors_own_key_holds_it() -> None:
    from torch._inductor.codecache import FxGraphHashDetails

    torch_diode.install()
    graph_module = torch.fx.symbolic_trace(lambda x: x + 1)
    details = FxGraphHashDetails(graph_module, [torch.ones(1)], {}, [])
    digest = pickle.dumps(details.inductor_config["inductor_choices_class"])
    assert torch_diode.get_model_info()["model_manifest"]["models"][0]["digest"].encode() in digest
    assert copy.deepcopy(config.inductor_choices_class) is config.inductor_choices_class


def test_a_choices_class_of_the_users_stays_in_charge() -> None:
    class Own(choices.InductorChoices):
        pass

    config.inductor_choices_class = Own
    try:
        torch_diode.install()
        assert type(in_thread(lambda: V.choices)) is Own
        torch_diode.uninstall()
        assert config.inductor_choices_class is Own
    finally:
        config.inductor_choices_class = None


def test_a_handler_travels_to_another_process_by_its_arguments() -> None:
    from workspace import MODEL

    handler = torch_diode.create_diode_choices(model_path=str(MODEL), top_k_configs=3)
    copied = pickle.loads(pickle.dumps(handler))
    assert copied._arguments == handler._arguments
    assert virtualized._choices._key
