"""Installing and uninstalling: threads, the cache of graphs, and that no trace is left."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import choices, config, utils
from torch._inductor.codecache import FxGraphCachePickler, FxGraphHashDetails
from torch._inductor.kernel_inputs import KernelInputs, MMKernelInputs
from torch._inductor.lowering import lowerings
from torch._inductor.scheduler import Scheduler
from torch._inductor.select_algorithm import get_algorithm_selector_cache
from torch._inductor.virtualized import V

import simulated
import torch_diode
from simulated import compile, tensor
from torch_diode import DiodeError, DiodeInductorChoices
from torch_diode.inductor import check as inductor_check
from torch_diode.inductor import config as inductor_config


def in_thread(function: Callable[[], Any]) -> Any:
    """What a function returns when another thread runs it."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def state() -> tuple[Any, ...]:
    """Everything in torch that installing changes."""
    aten = torch.ops.aten
    targets = [target for target in lowerings if str(target).startswith(("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"))]
    cache = get_algorithm_selector_cache()
    return (
        {target: lowerings[target] for target in targets},
        choices.InductorChoices._finalize_template_configs,
        choices._use_autotune_backend,
        utils._use_autotune_backend,
        FxGraphHashDetails.__init__,
        list(cache.preprocessing_fns),
        set(config._config),
        graph_key(),
        list(cache.feedback_saver_fns),
        config.inductor_choices_class,
        config.max_autotune,
        config.max_autotune_gemm,
        config.max_autotune_gemm_backends,
        type(V.choices),
        Scheduler.score_fusion_memory,
        aten.mm.default in lowerings,
    )


def test_uninstalling_leaves_no_trace() -> None:
    V.choices  # noqa: B018 - this thread has made its handler before the installation
    before = state()
    torch_diode.install()
    during = state()
    assert all(one != other for one, other in zip(before[:8], during[:8], strict=True))
    torch_diode.install(top_k=3)
    torch_diode.uninstall()
    assert state() == before
    torch_diode.uninstall()
    assert state() == before


def test_a_failed_installation_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    before = state()
    monkeypatch.setattr(inductor_config, "add_backend", lambda backend: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        torch_diode.install()
    assert state() == before and not torch_diode.is_installed()


LACKS: dict[str, tuple[Any, str, Any, str]] = {
    "another signature": (choices.InductorChoices, "get_ktc", lambda self, inputs: None, "<lambda> has changed"),
    "no attribute": (MMKernelInputs, "strides_symbolic", None, "MMKernelInputs has no strides_symbolic"),
    "no hints of sizes": (inductor_check, "size_hints", lambda: None, "SizeVarAllocator has neither"),
    "other entries": (inductor_check, "entry", lambda name: None, "_ConfigEntry: .* positional argument"),
    "no lowering": (inductor_check, "lowerings", {}, "there is no lowering of mm"),
}


@pytest.mark.parametrize("lack", LACKS)
def test_a_torch_that_lacks_something_is_refused_in_one_line(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state()
    owner, name, replacement, words = LACKS[lack]
    with monkeypatch.context() as future:
        future.setattr(torch, "__version__", "2.99.0")
        if replacement is None:
            future.delattr(KernelInputs, name)
        else:
            future.setattr(owner, name, replacement)
        with pytest.raises(DiodeError, match=rf"^torch 2.99.0: {words}[^\n]*; torch_diode was run with torch 2.10.0 to [\d.]+$"):
            torch_diode.install()
    assert state() == before and not torch_diode.is_installed()


def test_this_torch_is_one_of_those_that_are_named() -> None:
    named = torch_diode.get_import_status()["torch_tried"]
    assert torch.__version__.split("+")[0] in named


@pytest.mark.usefixtures("gpu")
def test_every_thread_picks_whenever_it_made_its_handler() -> None:
    ready, go = threading.Event(), threading.Event()
    kernels: list[list[str]] = []

    def early() -> None:
        V.choices  # noqa: B018
        ready.set()
        go.wait()
        kernels.append(compile(torch.mm, tensor((512, 256)), tensor((256, 1024))).constants("BLOCK_M"))

    thread = threading.Thread(target=early, daemon=True)
    thread.start()
    ready.wait()
    torch_diode.install(heuristic=lambda problem: {"block_m": 64, "block_n": 64, "block_k": 64, "num_stages": 3, "num_warps": 4})
    go.set()
    thread.join()
    assert kernels == [["64"]], "a thread that had a handler before the installation"
    late = in_thread(lambda: compile(torch.mm, tensor((512, 256)), tensor((256, 1024))).constants("BLOCK_M"))
    assert late == ["64"]


@pytest.mark.usefixtures("gpu")
def test_a_handler_that_outlives_the_installation_is_inductors_own() -> None:
    torch_diode.install()
    handler = DiodeInductorChoices()
    torch_diode.uninstall()
    with V.set_choices_handler(handler), config.patch(max_autotune_gemm=True), simulated.offered() as lists:
        compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert len(lists[0]) > 10
    assert handler.get_stats()["total_calls"] == 0


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


def graph_key() -> str:
    """The key of a graph in Inductor's cache of graphs."""
    graph_module = torch.fx.symbolic_trace(lambda x: x + 1)
    details = FxGraphHashDetails(graph_module, [torch.ones(1)], {}, [])
    return FxGraphCachePickler(graph_module).get_hash(details)


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


def test_every_thread_keys_its_graphs_by_what_decides() -> None:
    go, ready, early_keys = threading.Event(), threading.Event(), []

    def early() -> None:
        """A thread that has compiled before the installation."""
        for _ in range(3):
            early_keys.append(graph_key())
            ready.set()
            go.wait()
            go.clear()

    plain = graph_key()
    thread = threading.Thread(target=early, daemon=True)
    thread.start()
    ready.wait()
    keys = [plain]
    for change in (lambda: torch_diode.install(heuristic=block_m_64), torch_diode.uninstall):
        ready.clear()
        change()
        keys.append(graph_key())
        assert in_thread(graph_key) == keys[-1], "a thread that begins now"
        go.set()
        ready.wait()
    go.set()
    thread.join()
    assert early_keys == keys
    assert keys[0] != keys[1] and keys[2] == plain


def test_processes_that_compile_for_this_one_do_so_without_the_settings() -> None:
    code = (
        "import torch, torch_diode\n"
        "if __name__ == '__main__':\n"
        "    torch_diode.install(top_k=2)\n"
        "    print(torch.compile(torch.mm)(torch.ones(8, 8), torch.ones(8, 8)).sum().item())\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "TORCHINDUCTOR_FX_COMPILE_MODE": "SUBPROCESS"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout == "512.0\n", ran.stderr[-2000:]


def test_an_option_of_one_compile_leaves_nothing_in_the_thread_that_compiled() -> None:
    """A thread that has set a setting of the plug-in goes on when the settings are removed."""
    go, ready, failures = threading.Event(), threading.Event(), []

    def compiling() -> None:
        graph_key()
        with config.patch(diode_top_k=3):
            graph_key()
        ready.set()
        go.wait()
        try:
            graph_key()
        except Exception as error:
            failures.append(error)

    torch_diode.install()
    thread = threading.Thread(target=compiling)
    thread.start()
    ready.wait()
    torch_diode.uninstall()
    go.set()
    thread.join()
    assert not failures


def test_a_handler_of_its_own_is_part_of_the_key() -> None:
    from workspace import MODEL

    torch_diode.install(heuristic=block_m_64)
    installed = graph_key()
    handlers = [torch_diode.create_diode_choices(model_path=str(MODEL), top_k_configs=count) for count in (1, 2)]
    keys = {installed}
    for handler in handlers:
        with V.set_choices_handler(handler):
            keys.add(graph_key())
    assert len(keys) == 3


@pytest.mark.usefixtures("gpu")
def test_a_choices_class_of_the_users_stays_in_charge() -> None:
    class Own(choices.InductorChoices):
        def _finalize_template_configs(self, template_choices: Any, *rest: Any) -> Any:
            seen.append(list(template_choices))
            return [next(iter(template_choices["aten::mm"]))]

    seen: list[list[str]] = []
    torch_diode.install(heuristic=block_m_64)
    with V.set_choices_handler(Own()), config.patch(max_autotune_gemm=True):
        code = compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert "triton::mm" in seen[0] and code.kernels()[0].startswith("extern_kernels.mm(")


def test_a_handler_travels_to_another_process_by_its_arguments() -> None:
    from workspace import MODEL

    handler = torch_diode.create_diode_choices(model_path=str(MODEL), top_k_configs=3)
    copied = pickle.loads(pickle.dumps(handler))
    assert copied._arguments == handler._arguments
