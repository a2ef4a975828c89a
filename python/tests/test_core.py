"""The Rust core: problems and configs, models, tables, datasets, limits."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import torch_diode
from torch_diode import Config, Dataset, DiodeError, Hardware, Model, Problem, Table, obstacle
from torch_diode._core import Epilogue, shipped_models
from workspace import MODEL, ROOT


def tile(block_m: int = 128, block_n: int = 128, block_k: int = 64, stages: int = 3, warps: int = 8, **more: Any) -> Config:
    return Config(block_m=block_m, block_n=block_n, block_k=block_k, num_stages=stages, num_warps=warps, **more)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.load(MODEL)


def test_problems_compare_hash_and_have_labels() -> None:
    linear = Problem("addmm", 64, 1024, 512, "torch.bfloat16", b_layout="column")
    assert linear == Problem("addmm", 64, 1024, 512, "bfloat16", b_layout="column", bias="vector")
    assert len({linear, Problem("addmm", 64, 1024, 512, "bfloat16", b_layout="column")}) == 1
    assert linear.label == "addmm 64×1024×512 bfloat16 nt"
    assert eval(repr(linear), {"Problem": Problem}) == linear
    assert linear.flops == 2 * 64 * 1024 * 512


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mm", 0, 1, 1, "float16"), "M: got 0, expected a size from 1 to 2147483648"),
        (("conv", 1, 1, 1, "float16"), "op: got `conv`, expected one of mm addmm bmm baddbmm"),
        (("mm", 1, 1, 1, "complex64"), "dtype: got `complex64`"),
    ],
)
def test_refusals_say_what_was_given_and_expected(arguments: tuple, message: str) -> None:
    with pytest.raises(DiodeError, match=message):
        Problem(*arguments)


def test_configs_show_their_fields() -> None:
    assert (tile().label, tile().template, tile().group_m) == ("128×128×64 s3 w8", "triton::mm", 8)
    assert Config("aten").is_library and Config("aten").block_m is None
    assert Config("decompose_k", k_split=8).k_split == 8
    assert tile(matrix_instr_nonkdim=16).rocm == (16, 0, 2)
    with pytest.raises(DiodeError, match="block_m: got 48, expected a power of two up to 1024"):
        tile(48)


def test_hardware_is_found_by_the_devices_name() -> None:
    assert Hardware.find("NVIDIA H100 80GB HBM3").slug == "nvidia-h100"
    assert Hardware.find("NVIDIA H200").shared_memory == 232448
    assert Hardware.find("AMD Instinct MI300X").vendor == "amd"
    assert Hardware.find("NVIDIA GH200 480GB") is None


def test_every_released_model_is_inside() -> None:
    released = {path.name: path.read_bytes() for path in (ROOT / "trained_models").rglob("*.safetensors")}
    inside = dict(shipped_models())
    assert inside == (released if torch_diode.DISTRIBUTION == "torch-diode" else {})


def test_the_model_answers_as_the_command_line_does(model: Model, diode: str) -> None:
    words = "predict --op mm --m 512 --n 11008 --k 4096 --dtype bfloat16 --top 5 --json --model"
    told = json.loads(subprocess.check_output([diode, *words.split(), str(MODEL)]))
    choice = model.choose(Problem("mm", 512, 11008, 4096, "bfloat16"), 5)
    expected = [(one["template"], one["block_m"], one["num_stages"], one["num_warps"]) for one in told["candidates"]]
    assert [(c.template, c.block_m, c.num_stages, c.num_warps) for c, _ in choice.picks] == expected
    assert [us for _, us in choice.picks] == pytest.approx([one["predicted_us"] for one in told["candidates"]], rel=1e-6)
    assert choice.probability == pytest.approx(told["within_5_percent"]["5"])


@pytest.mark.parametrize("flags", ["", "--tf32", "--epilogue silu-gate"])
def test_300_problems_are_answered_as_by_the_command_line(model: Model, diode: str, flags: str) -> None:
    """``tests/tests/whole/one_answer.rs`` asks the browser about the same problems."""
    problems = ROOT / "tests/problems.json"
    tf32 = flags == "--tf32"
    command = [diode, "predict", "--list", str(problems), "--model", str(MODEL), "--top", "5", "--json", *flags.split()]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    told = json.loads(run.stdout)
    # One problem is too large for the GPU's memory.
    assert (run.returncode, len(told)) == (1, 300)
    sure = 0
    for fields, expected in zip(json.loads(problems.read_text()), told, strict=True):
        problem = Problem(fields.pop("op"), dtype=fields.pop("a_dtype"), **fields)
        if expected is None:
            with pytest.raises(DiodeError, match="for A, B and the output"):
                model.choose(problem, 5, tf32=tf32)
            continue
        epilogue = _gated(problem) if "epilogue" in flags else None
        choice = model.choose(problem, 5, tf32=tf32, epilogue=epilogue)
        candidates = [Config(**_given(one)) for one in expected["candidates"]]
        assert [config for config, _ in choice.picks] == candidates, problem
        assert [us for _, us in choice.picks] == [_alone(one) for one in expected["candidates"]], problem
        shares = expected["within_5_percent"]
        judged = [int(picks) for picks in shares if int(picks) <= len(choice.picks)]
        assert choice.probability == (shares[str(max(judged))] if judged else None), problem
        between = expected["first_candidate_us"]
        assert choice.first_us == (between and tuple(between)), problem
        assert (choice.group, choice.caveat) == (expected["group"], expected["outside_training_range"])
        sure += choice.probability is not None
        tile = next((one for one in expected["candidates"] if one["template"] != "aten"), None)
        if epilogue is not None and tile is not None:
            assert choice.tile == (Config(**_given(tile)), _alone(tile), tile["epilogue_us"]), problem
        # What runs alone is what stands first, but for the doubt about tiles and the kinds that nobody judged.
        alone = model.choose(problem, tf32=tf32, library_tf32=tf32, epilogue=epilogue, alone=True)
        assert (alone.unjudged is None) or choice.caveat is not None or problem.op == "addmm", problem
        trusted = model.choose(problem, tf32=tf32, library_tf32=tf32, epilogue=epilogue, alone=True, untried=True)
        assert trusted.unjudged is None and trusted.picks == alone.picks
    assert sure > 100 if not epilogue else sure == 0


def _alone(candidate: dict[str, Any]) -> float:
    """The predicted time without what follows."""
    return candidate.get("alone_us", candidate["predicted_us"])


def _gated(problem: Problem) -> Epilogue:
    """What ``--epilogue silu-gate`` stands for."""
    elements = problem.b * problem.m * problem.n
    size = elements * (4 if problem.out_dtype == "float32" else 2)
    return Epilogue(["sigmoid"], elements, size, size, size, keeps_product=False)


def _given(candidate: dict[str, Any]) -> dict[str, Any]:
    """The fields of a candidate of ``diode predict --json`` that a config has."""
    others = ("predicted_us", "alone_us", "epilogue_us", "library_over_this")
    return {key: value for key, value in candidate.items() if key not in others and value is not None}


def test_a_repeated_choice_takes_microseconds(model: Model) -> None:
    problem = Problem("mm", 777, 1024, 2048, "bfloat16")
    first = model.choose(problem)
    assert model.choose(Problem("mm", 777, 1024, 2048, "bfloat16")) is first
    assert model.choose(problem, cache=False) is not first
    best = min(_seconds(lambda: model.choose(problem), 2000) for _ in range(5))
    assert best < 5e-6, f"{best * 1e6:.2f} µs"


def test_a_new_choice_takes_a_few_milliseconds(model: Model) -> None:
    problems = iter(Problem("mm", 64, 1024 + 8 * at, 2048, "bfloat16") for at in range(60))
    best = min(_seconds(lambda: model.choose(next(problems)), 1) for _ in range(60))
    assert best < 3e-3, f"{best * 1e3:.2f} ms"


def _seconds(function, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - start) / times


def test_other_threads_run_while_it_computes(model: Model) -> None:
    choices, ticks, done = 1000, 0, threading.Event()

    def compute() -> None:
        for at in range(choices):
            model.choose(Problem("mm", 8 + at, 3000, 1000, "float16"), 3)
        done.set()

    thread = threading.Thread(target=compute)
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0)
    thread.join()
    # If the core held the interpreter's lock, this thread would wait for each choice. Then there
    # would be at most one tick per choice.
    assert ticks > 2 * choices


def test_settings_of_a_choice_are_checked(model: Model) -> None:
    problem = Problem("mm", 64, 64, 64, "float16")
    with pytest.raises(DiodeError, match="top: got 0, expected a number from 1 on"):
        model.choose(problem, 0)
    with pytest.raises(DiodeError, match="min_confidence: got 2, expected a probability"):
        model.choose(problem, min_confidence=2.0)
    with pytest.raises(DiodeError, match="performance_threshold: got 0.5"):
        model.choose(problem, performance_threshold=0.5)
    with pytest.raises(DiodeError, match="no config that fits the hardware"):
        model.choose(problem, shared_memory=16)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiodeError, match="no/model: No such file"):
        Model.load("no/model")
    with pytest.raises(DiodeError, match="not a safetensors file"):
        Model.from_bytes(b"nothing of the kind")
    damaged = bytearray(MODEL.read_bytes())
    damaged[-1] ^= 1
    with pytest.raises(DiodeError, match="it was damaged or changed, get it again"):
        Model.from_bytes(bytes(damaged))


def test_a_model_can_stand_in_for_other_hardware(model: Model) -> None:
    other = model.standing_in_for(Hardware.find("NVIDIA H100"))
    assert (other.hardware.slug, other.digest != model.digest) == ("nvidia-h100", True)
    choice = other.choose(Problem("mm", 4096, 4096, 4096, "bfloat16"))
    assert choice.probability is None and choice.picks


@pytest.mark.parametrize(
    ("config", "out", "reason"),
    [
        (tile(128, 128, 128, 4, 8), "bfloat16", "it needs 262144 bytes of shared memory per block, there are 232448"),
        (tile(128, 128, 64, 5, 8), "bfloat16", None),
        # The last stage of kernels without warp groups stays in registers.
        (tile(32, 256, 128, 4, 4), "bfloat16", None),
        # The epilogue transposes the whole tile in shared memory.
        (tile(256, 256, 16, 1, 8), "float32", "it needs 262144 bytes"),
        (tile(256, 256, 16, 1, 8), "bfloat16", None),
        (tile(64, 64, 64, 2, 4, matrix_instr_nonkdim=32), "bfloat16", None),
        (tile(16, 64, 64, 2, 4, matrix_instr_nonkdim=32), "bfloat16", "no multiples of matrix_instr_nonkdim = 32"),
        (tile(64, 64, 8, 2, 4), "bfloat16", "its block_k is 8, Triton multiplies 16 or more of K at once"),
        (tile(8, 64, 16, 2, 4), "bfloat16", None),
        (Config("aten"), "bfloat16", None),
    ],
)
def test_limits_are_those_of_compiled_kernels(config: Config, out: str, reason: str | None) -> None:
    problem = Problem("mm", 4096, 4096, 4096, "bfloat16", out_dtype=out)
    found = obstacle(problem, config, 232448)
    assert found is None if reason is None else reason in found


def test_tiles_that_fault_on_unaligned_rows_are_never_picked(model: Model) -> None:
    faulting = tile(128, 32, 128, 3, 2)
    unaligned = Problem("mm", 3253, 4691, 231, "bfloat16")
    assert "faulted on unaligned rows" in obstacle(unaligned, faulting, 232448)
    assert obstacle(Problem("mm", 3256, 4688, 232, "bfloat16"), faulting, 232448) is None
    picked = [config for config, _ in model.choose(unaligned, 64).picks]
    assert len(picked) == 64 and faulting not in picked


def test_tables_answer_exactly_and_by_their_nearest() -> None:
    data = ROOT / "trained_models/matmul/nvidia-h200/data/h200-mm-fp16.msgpack.zst"
    table = Table.from_dataset(data, top=3)
    assert table.hardware.slug == "nvidia-h200" and table.method == "median-cold-event" and len(table) > 10
    again = Table.from_json(table.to_json())
    assert (len(again), again.digest == table.digest) == (len(table), False), "the digest is that of the text"
    known = Problem("mm", 1024, 1024, 1024, "float16")
    near = table.nearest(known, 2)
    assert len(near) == 2 and near[0][1] <= near[1][1]
    with pytest.raises(DiodeError, match="expected a table"):
        Table.load(data)


def test_datasets_keep_times_failures_and_the_method(tmp_path: Path) -> None:
    dataset = Dataset("NVIDIA H200")
    problem = Problem("addmm", 64, 1024, 512, "bfloat16", b_layout="column")
    dataset.add(problem, [(tile(), 0.0123), (Config("aten"), 0.011), (tile(64), None)])
    path = tmp_path / "timings.msgpack.zst"
    assert dataset.save(path) is None, "nothing is lost"
    again = Dataset.load(path)
    assert (len(again), again.timings, again.failures) == (1, 2, 1)
    assert again.methods == ["minimum-cold-event"]
    assert again.times(problem) == [(Config("aten"), 0.011), (tile(), 0.0123)]
    with pytest.raises(DiodeError, match=r"timings.msgpack.zst exists; overwrite=True replaces it"):
        dataset.save(path)
    assert dataset.save(path, overwrite=True) is None
    poorer = tmp_path / "timings.json"
    with pytest.raises(DiodeError, match="cannot hold .*; write a .msgpack.zst file, or let it go with lossy=True"):
        dataset.save(poorer)
    assert not poorer.exists()
    lost = dataset.save(poorer, lossy=True)
    assert "library timings" in lost and "column-major inputs" in lost
    with pytest.raises(DiodeError, match="more than 0 and at most one hour"):
        dataset.add(problem, [(tile(), -1.0)])
    with pytest.raises(DiodeError, match="the extension names no format"):
        dataset.save(tmp_path / "timings.txt")


def test_the_stub_is_that_of_the_built_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "torch_diode._core", "--concise"]
    compared = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert compared.returncode == 0, compared.stdout + compared.stderr
