"""int8 and fp8 weights with bf16 rows, `(x @ w.t().to(bf16)) * scale`: what may stand for torch's rewrite.

pack      aten._weight_int8pack_mm, which Inductor makes of it
convert   weights converted by a kernel of their own, then cuBLAS, then the scale
sum       multiplied and summed in fp32, one kernel
others    one Triton tile with swapped operands, which converts: (columns of the weight, rows, depth, stages, warps)
"""

ROWS = (1, 16, 64, 4, 512, 128, 2, 8, 32, 256)
SHAPES = {"int8": ((4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (28672, 8192), (2048, 2048), (8192, 1024), (1024, 4096)),
          "fp8": ((4096, 4096), (14336, 4096), (4096, 14336))}  # fmt: skip
TILES = {
    16: ((64, 16, 128, 5, 4), (64, 16, 256, 4, 4), (32, 16, 256, 4, 4), (128, 16, 128, 4, 4), (16, 16, 256, 5, 2)),
    32: ((64, 32, 128, 4, 4), (64, 32, 256, 3, 4), (128, 32, 128, 4, 4), (32, 32, 256, 4, 4)),
    64: ((64, 64, 128, 4, 4), (128, 64, 64, 4, 4), (128, 64, 128, 3, 8), (64, 64, 64, 5, 4)),
    128: ((128, 128, 64, 4, 8), (64, 128, 64, 4, 4), (128, 64, 64, 4, 4), (64, 128, 128, 3, 4)),
    256: ((128, 128, 64, 4, 8), (128, 256, 64, 3, 8), (128, 128, 64, 3, 8), (64, 256, 64, 3, 4)),
}


def cases():
    found = []
    for rows in ROWS:
        for dtype, shapes in SHAPES.items():
            for n, k in shapes:
                found.append({"case": f"{dtype}-{rows}-{n}-{k}", "dtype": dtype, "rows": rows, "n": n, "k": k})
    return found


def touched(case):
    return case["n"] * case["k"] + 2 * case["rows"] * (case["n"] + case["k"])


def inputs(case, sets):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, n, k = case["rows"], case["n"], case["k"]
    tensors = []
    for _ in range(sets):
        weight = torch.randn(n, k, device=device)
        weight = (weight * 40).clamp(-127, 127).to(torch.int8) if case["dtype"] == "int8" else weight.to(torch.float8_e4m3fn)
        tensors.append(
            (
                torch.randn(rows, k, dtype=torch.bfloat16, device=device),
                weight,
                (torch.rand(n, device=device) * 0.01).to(torch.bfloat16),
            )
        )
    return tensors


def forced_tile(tile):
    """Inductor takes one tile of its template, without timing any."""
    import contextlib
    from functools import partial
    from unittest import mock

    import torch
    from torch._inductor.template_heuristics import triton as heuristics

    one = heuristics.GemmConfig(*tile, group_m=8)
    stack = contextlib.ExitStack()
    configs = lambda self: partial(self.preprocess_mm_configs, configs=[one])
    stack.enter_context(mock.patch.object(heuristics.BaseConfigHeuristic, "get_mm_configs", configs))
    stack.enter_context(
        torch._inductor.config.patch(max_autotune_gemm=True, max_autotune_gemm_backends="TRITON", prologue_fusion=True)
    )
    return stack


def variants(case):
    import contextlib

    import torch

    def build(way, tile=None):
        functions = {
            "pack": lambda x, w, scale: torch.ops.aten._weight_int8pack_mm(x, w, scale),  # noqa: PLW0108  a function of Python
            "convert": lambda x, w, scale: scale * (x @ w.t().to(x.dtype)),
            "sum": lambda x, w, scale: ((x.float().unsqueeze(1) * w.float().unsqueeze(0)).sum(-1) * scale).to(x.dtype),
            "tile": lambda x, w, scale: (w.to(x.dtype) @ x.t()).t() * scale,
        }

        def compiled(tensors):
            done = torch.compile(functions[way], dynamic=False, fullgraph=True)
            call = lambda turn: done(*tensors[turn])
            with forced_tile(tile) if tile else contextlib.nullcontext():
                call(0)
            return call

        return compiled

    found = [("convert", build("convert"))]
    if case["dtype"] == "int8" and case["rows"] * case["n"] * case["k"] < 2e10:
        found.append(("pack", build("pack")))
    if case["rows"] <= 8:
        found.append(("sum", build("sum")))
    up = max(16, min(256, case["rows"]))
    return found + [(",".join(map(str, tile)), build("tile", tile)) for tile in TILES[up]]
