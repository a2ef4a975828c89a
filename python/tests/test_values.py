"""Values of the package: as text, equal, hashed, pickled, in triton's form; and what is refused, in Python's own words."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

import torch_diode
from torch_diode import Config, Dataset, DiodeError, Hardware, Model, Problem, Table
from workspace import MODEL

TILE = Config(block_m=64, block_n=128, block_k=64, num_stages=4, num_warps=4)
VALUES: list[Any] = [
    TILE,
    Config("triton::mm_persistent_tma", block_m=64, block_n=128, block_k=64, num_stages=4, num_warps=4, swap_ab=True),
    Config(block_m=64, block_n=64, block_k=32, num_stages=2, num_warps=4, even_k=True, allow_tf32=True, use_fast_accum=True),
    Config(block_m=64, block_n=64, block_k=32, num_stages=2, num_warps=4, acc_type="tl.int32", matrix_instr_nonkdim=16),
    Config("aten"),
    Config("aten", allow_tf32=True),
    Config("decompose_k", k_split=4),
    Problem("addmm", 64, 1024, 512, "bf16", b_layout="column"),
    Problem("baddbmm", 64, 1024, 512, "fp16", b=4, out_dtype="float32", bias="matrix"),
    Problem.parse("16x4096x14336 fp8 row"),
    Problem.parse("grouped 512x1536x2048 groups 128 top8"),
    Problem.parse("moe 128x768x2048 top8 64 tokens fp8 block gate-up"),
    Hardware("nvidia-h200"),
    Hardware("NVIDIA H100 80GB HBM3"),
    Hardware("A GPU of tomorrow"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_copied_pickled_and_pasted(value: object) -> None:
    for again in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), eval(repr(value), vars(torch_diode))):
        assert again == value and hash(again) == hash(value) and repr(again) == repr(value)
    assert [other for other in VALUES if other == value] == [value]
    assert value != repr(value)


def test_configs_come_from_their_dicts() -> None:
    for config in (value for value in VALUES if isinstance(value, Config)):
        assert Config(**config.to_dict()) == config
    assert TILE.to_dict() == {
        "template": "triton::mm", "block_m": 64, "block_n": 128, "block_k": 64, "group_m": 8, "num_stages": 4, "num_warps": 4
    }  # fmt: skip


def test_a_tile_is_a_config_of_triton() -> None:
    config = TILE.triton_config()
    assert isinstance(config, triton.Config)
    assert config.kwargs == {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    assert (config.num_stages, config.num_warps) == (4, 4)
    names = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"}
    assert set(TILE.triton_config(infix="_SIZE_").kwargs) == names, "as in Triton's tutorial"
    of_amd = Config(block_m=64, block_n=64, block_k=32, num_stages=2, num_warps=4, matrix_instr_nonkdim=16).triton_config()
    assert of_amd.kwargs["matrix_instr_nonkdim"] == 16 and of_amd.kwargs["kpack"] == 2
    with pytest.raises(ValueError, match="swap, whose operands are swapped, which a triton.Config cannot say"):
        VALUES[1].triton_config()
    for other in ("aten", "decompose_k"):
        config_of = Config(other, k_split=4) if other == "decompose_k" else Config(other)
        with pytest.raises(ValueError, match="which is no kernel of Triton's"):
            config_of.triton_config()


def test_what_models_and_measurements_give_is_equal_and_pickled(tmp_path: Path) -> None:
    model = Model.load(MODEL)
    standing_in = model.standing_in_for(Hardware("nvidia-a100"))
    for one in (model, standing_in):
        again = pickle.loads(pickle.dumps(one))
        assert again == one and hash(again) == hash(one) and again.hardware == one.hardware
    assert model != standing_in and (model.stands_in, standing_in.stands_in) == (False, True)
    assert repr(model) == f"<Model of nvidia-h200 {model.digest[:12]}>"
    again = pickle.loads(pickle.dumps(TABLE))
    assert again == TABLE and hash(again) == hash(TABLE) and repr(TABLE) == "<Table of nvidia-h200: 1 problems>"
    assert Table.from_dataset(TIMINGS, top=1) != TABLE
    TIMINGS.save(tmp_path / "timings.msgpack.zst")
    assert Table.from_dataset(tmp_path / "timings.msgpack.zst") == TABLE
    assert copy.deepcopy(TIMINGS) == TIMINGS == Dataset.load(tmp_path / "timings.msgpack.zst") != Dataset("NVIDIA H200")
    choice = model.choose(Problem.parse("16x4096x4096"), 3)
    again = pickle.loads(pickle.dumps(choice))
    assert again == choice and hash(again) == hash(choice) and again.picks == choice.picks and repr(again) == repr(choice)
    assert choice != model.choose(Problem.parse("16x4096x4096"), 2)


@pytest.mark.parametrize(
    "name", ["h200", "H200", "nvidia-h200", "NVIDIA H200", "NVIDIA-H200-matmul", "matmul-nvidia-h200.safetensors"]
)
def test_a_model_has_a_name_in_any_usual_spelling(name: str) -> None:
    assert Model.load(name) == Model.load(MODEL)
    torch_diode.install(model=name)


def test_hardware_is_the_same_in_any_usual_spelling() -> None:
    spellings = ["h200", "H200", "nvidia-h200", "NVIDIA H200", "nvidia h200"]
    assert {Hardware(name) for name in spellings} == {Hardware.find(name) for name in spellings} == {Hardware("NVIDIA H200")}
    assert Dataset("h200").hardware == Hardware("h200") != Hardware("h100")


def test_dtypes_are_named_as_people_and_torch_do() -> None:
    expected = Problem("mm", 1, 2, 3, "bfloat16", out_dtype="float32")
    for dtype, out in [("bf16", "fp32"), (torch.bfloat16, torch.float32), ("torch.bfloat16", "torch.float32")]:
        assert Problem("mm", 1, 2, 3, dtype, out_dtype=out) == expected
    assert Problem.parse("1x2x3", torch.float16) == Problem.parse("1x2x3 fp16") == Problem("mm", 1, 2, 3, "float16")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16x4096x512", Problem("mm", 16, 4096, 512, "bf16")),
        ("16×4096×512", Problem("mm", 16, 4096, 512, "bf16")),
        ("16 x 4096 x 512 FP16", Problem("mm", 16, 4096, 512, "fp16")),
        ("8x16x64x32", Problem("bmm", 16, 64, 32, "bf16", b=8)),
        ("addmm 64×1024×512 bfloat16 nt", Problem("addmm", 64, 1024, 512, "bf16", b_layout="column")),
        ("16x64x32 tn", Problem("mm", 16, 64, 32, "bf16", a_layout="column")),
        ("64x32x16 int8 row", Problem("scaled_mm", 64, 32, 16, "int8", out_dtype="bf16", b_layout="column", scaling="row")),
    ],
)
def test_texts_are_problems(text: str, expected: Problem) -> None:
    assert Problem.parse(text) == expected


def test_labels_are_texts() -> None:
    for problem in (value for value in VALUES[7:9] if isinstance(value, Problem)):
        assert Problem.parse(problem.label).label == problem.label


def test_a_prediction_needs_one_line() -> None:
    choice = torch_diode.predict("16x4096x4096", hardware="nvidia-h200", top=3)
    assert choice.picks == Model.load("h200").choose(Problem.parse("16x4096x4096"), 3).picks
    assert (choice.config, choice.us) == choice.picks[0]
    assert torch_diode.predict(Problem.parse("16x4096x4096"), model=MODEL, top=3).picks == choice.picks
    elsewhere = torch_diode.predict("16x4096x4096", hardware=Hardware("nvidia-a100"))
    assert elsewhere.caveat is not None and "stands in with the facts of" in elsewhere.caveat
    assert "stands in" in repr(elsewhere) and "stands in" not in repr(choice)
    assert torch_diode.predict("64x64x64 fp32", hardware="h200", tf32=True).picks


TIMINGS = Dataset("NVIDIA H200")
TIMINGS.add(Problem.parse("16x4096x4096"), [(TILE, 0.01), (Config("aten"), 0.02)])
TABLE = Table.from_dataset(TIMINGS)
THREE: Any = 3
TEXT: Any = "64"


def mm(m: Any, n: Any, k: Any, dtype: Any = "bf16", **more: Any) -> Problem:
    return Problem("mm", m, n, k, dtype, **more)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: mm(-1, 2, 3), ValueError, "M: got -1, expected a size from 1 to 2147483648"),
        (lambda: mm(0, 2, 3), ValueError, "M: got 0, expected a size"),
        (lambda: mm("1", 2, 3), TypeError, "'str' object cannot be interpreted as an integer"),
        (lambda: mm(1.5, 2, 3), TypeError, "'float' object cannot be interpreted as an integer"),
        (lambda: mm(1, 2, 3, dtype="complex64"), ValueError, "dtype: got `complex64`, expected one of float16"),
        (lambda: mm(1, 2, 3, dtype=3), TypeError, "dtype: got 3, expected a name such as bf16, or a torch.dtype"),
        (lambda: mm(1, 2, 3, a_layout="up"), ValueError, "got `up`, expected one of row column"),
        (lambda: mm(1, 2, 3, nothing=1), TypeError, "unexpected keyword argument 'nothing'"),
        (lambda: Problem.parse("16x32"), ValueError, "problem: got `16x32`, expected a size such as 16x4096x4096"),
        (lambda: Problem.parse("16x32x64 wide"), ValueError, "problem: got `wide`, expected a size such as"),
        (lambda: Problem.parse("moe 8x64x64 top2 4 tokens"), ValueError, "name the stage, gate-up or down"),
        (lambda: Problem.from_json("{}"), ValueError, "missing field `op`"),
        (lambda: Problem.from_json('{"op": "mm", "b": "x"}'), ValueError, "expected a whole number"),
        (lambda: Config(block_m=-16), ValueError, "block_m: got -16, expected a whole number"),
        (lambda: Config("triton::conv"), ValueError, "template: got `triton::conv`, expected one of"),
        (lambda: Config(block_m=TEXT), TypeError, "cannot be interpreted as an integer"),
        (lambda: Table.from_json("[]"), ValueError, "expected an object"),
        (lambda: Table.from_json('{"entries": [{"problem": 3}]}'), ValueError, "entry 1: problem: .*expected an object"),
        (lambda: Table.load("/no/table"), DiodeError, "/no/table: No such file or directory$"),
        (lambda: Model.load("/no/model"), DiodeError, "/no/model: No such file or directory$"),
        (lambda: Model.load("h300"), DiodeError, "model: got `h300`, expected a file or one of: NVIDIA-H100-matmul"),
        (lambda: Model.from_bytes(b"x"), ValueError, "not a safetensors file"),
        (lambda: Dataset.load("/no/dataset"), DiodeError, "/no/dataset: No such file or directory$"),
        (lambda: Dataset(""), ValueError, "hardware name: got ``, expected"),
        (lambda: Model.load("h200").choose(mm(1, 2, 3), -1), ValueError, "top: got -1, expected a number from 1 on"),
        (lambda: Model.load("h200").choose(mm(1, 2, 3), 10**60), ValueError, "got a number beyond 10.38, expected a whole"),
        (lambda: Model.load("h200").choose(mm(1, 2, 3), shared_memory=-1), ValueError, "shared_memory: got -1, expected"),
        (lambda: Model.load("h200").choose(mm(1, 2, 3, "bool")), ValueError, "mm 1×2×3: kernels exist for .*, not for bool"),
        (lambda: Model.load("h200").choose(mm(1, 2, 3), min_confidence=2), ValueError, "min_confidence: got 2, expected a"),
        (lambda: Model.from_bytes(b""), ValueError, "not a safetensors file"),
        (lambda: torch_diode.obstacle(mm(1, 2, 3), TILE, -1), ValueError, "shared_memory: got -1, expected a number of bytes"),
        (lambda: TABLE.nearest(mm(1, 2, 3), 0), ValueError, "top: got 0, expected a number from 1 on"),
        (lambda: TABLE.to_inductor_json(torch="x"), ValueError, "torch version: got `x`, expected one of"),
        (lambda: Table.from_dataset("/no/dataset", 0), ValueError, "top: got 0, expected a number from 1 on"),
        (lambda: Table.from_json(""), ValueError, "table: the text ends within a value"),
        (lambda: Dataset("NVIDIA H200").save("/no/folder/t.msgpack.zst"), DiodeError, "No such file or directory$"),
        (lambda: Dataset("NVIDIA H200").add(mm(1, 2, 3), [(TILE, -1.0)]), ValueError, "time: got -1 ms, expected more than"),
        (lambda: Dataset.from_bytes(b""), ValueError, "dataset: .*expected a dataset"),
        (lambda: torch_diode.Choice.from_json("[]"), ValueError, "choice: "),
        (lambda: Hardware("\n"), ValueError, r"hardware name: got `\\n`, expected a device name"),
        (lambda: Hardware.from_json("[]"), ValueError, "hardware: "),
        (lambda: Problem("\n", 1, 2, 3, "bf16"), ValueError, r"op: got `\\n`, expected one of"),
        (lambda: Problem.from_json(""), ValueError, "problem: the text ends within a value"),
        (lambda: Problem.parse("16x16x16\n32x32x32"), ValueError, "sizes: got another size, `32x32x32`, expected one size"),
        (lambda: Problem.parse("16x16x16 bf16 fp16"), ValueError, "dtype: got another, `fp16`, expected one"),
        (lambda: mm(10**60, 2, 3), ValueError, "expected a whole number of usual size"),
        (lambda: Config(block_m=64), ValueError, "block_n: got None, expected a number"),
        (lambda: torch_diode.predict("16x16x16", hardware="h200", top=0), ValueError, "top: got 0, expected a number from 1"),
        (lambda: torch_diode.install(hardware=""), ValueError, "hardware: got ``, expected"),
        (lambda: torch_diode.install(performance_threshold=float("inf")), ValueError, "got inf, expected a factor of at least 1"),
        (lambda: torch_diode.install(table={"a": THREE}), ValueError, "table: got {'a': 3}, expected Inductor's lookup table"),
        (lambda: torch_diode.Recording().save_problems("t.json"), DiodeError, "problems: no multiplication was compiled; call"),
        (lambda: torch_diode.Recording().save_table("t.json"), DiodeError, "table: nothing was picked here"),
        (lambda: torch_diode.set_log_level("LOUD"), ValueError, "log level: got `LOUD`, expected DEBUG, INFO, WARNING or ERROR"),
        (lambda: torch_diode.hub.pull("h200", server=THREE), TypeError, "server: got 3, expected an address such as"),
        (lambda: torch_diode.hub.pull("h200", server="file:///etc/passwd"), ValueError, "server: got .*, expected an address"),
        (lambda: torch_diode.hub.pull(""), ValueError, "hardware: got ``, expected"),
        (lambda: torch_diode.MatmulDatasetCollector(""), ValueError, "hardware name: got ``, expected"),
        (lambda: torch_diode.MatmulDatasetCollector("x", operations="mm"), ValueError, "operations: got `mm`, expected a list"),
        (lambda: torch_diode.MatmulDatasetCollector("x", search_space="ALL"), ValueError, "search_space: got `ALL`, expected"),
        (
            lambda: torch_diode.MatmulDatasetCollector("x").save_table_to_file("t"),
            DiodeError,
            "got no problem, expected at least",
        ),
        (lambda: torch_diode.DiodeInductorChoices(enable_fallback=THREE), TypeError, "got 3, expected True or False"),
        (lambda: torch_diode.DiodeInductorChoices(heuristics=[THREE]), TypeError, "heuristic: got 3, expected a function"),
        (lambda: torch_diode.predict("16x16x16"), DiodeError, "this machine shows no GPU; name one"),
        (lambda: torch_diode.predict("16x16x16", hardware="h300"), ValueError, "got `h300`, expected one of .*nvidia-h200"),
        (lambda: torch_diode.predict("16x16x16", hardware=THREE), TypeError, "hardware: got 3, expected"),
        (lambda: torch_diode.predict(THREE, hardware="h200"), TypeError, "problem: got 3, expected a Problem or a text"),
        (lambda: torch_diode.predict("16x16x16 bool", hardware="h200"), ValueError, "mm 16×16×16: .*bool"),
        (lambda: torch_diode.install(hardware=THREE), TypeError, "hardware: got 3, expected"),
        (lambda: torch_diode.install(nearest=THREE), TypeError, "nearest: got 3, expected True or False"),
        (lambda: torch_diode.install(top_k=0), ValueError, "top_k: got 0, expected"),
        (lambda: torch_diode.install(model=THREE), TypeError, "model: got 3, expected a Model, a file or a model's name"),
        (lambda: torch_diode.install(table=THREE), TypeError, "table: got 3, expected a Table, a file or a dict"),
        (lambda: torch_diode.install(heuristic=THREE), TypeError, "heuristic: got 3, expected a function"),
        (lambda: torch_diode.MatmulDatasetCollector(operations=["conv"]), ValueError, "operations: got `conv`"),
    ],
)
def test_what_is_refused_is_refused_as_python_would(wrong: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        wrong()
    said = str(caught.value)
    assert "\n" not in said
    # Rust's words, which say nothing here.
    rust = r"os error|\bstruct\b|\b[ui](8|16|32|64|size)\b|panick|PyString|Some\(|None\)|serde|entity|invalid type|EOF|null"
    assert not re.search(rust, said), said
