"""Compiles once in this fresh process and prints the seconds it took, with the pool of compilers warm.

    python compile_once.py METHOD SHAPE      methods: diode, forced, none, default, exhaustive
"""

from __future__ import annotations

import json
import sys
import time

import torch
from shapes import Shape
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile


def main() -> None:
    method, what = sys.argv[1], json.loads(sys.argv[2])
    torch.cuda.synchronize()
    if what == "block":
        layers = [torch.nn.Linear(*sizes) for sizes in [(1024, 4096), (4096, 1024)] * 4]
        function = torch.nn.Sequential(*layers).cuda().bfloat16()
        inputs = (torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16),)
    else:
        shape = Shape(*what)
        function, inputs = shape.function(), shape.inputs()
    options = {}
    if method in ("default", "exhaustive"):
        options = {"max_autotune_gemm": True, "max_autotune_gemm_search_space": method.upper()}
    elif method == "diode":
        import torch_diode

        torch_diode.install()
    elif method == "forced":
        # The same pick, as a table of Inductor's own, without any of our code at work in the compile.
        import torch_diode

        torch_diode.install()
        with torch.no_grad():
            torch.compile(function)(*inputs)
        picks = torch_diode.history()
        table = as_table(picks)
        torch_diode.uninstall()
        torch._dynamo.reset()
        from torch._inductor.lookup_table import LookupTableChoices

        options = {"max_autotune_gemm": True, "inductor_choices_class": LookupTableChoices, "lookup_table.table": table}
        torch._inductor.virtualized.threadlocal.__dict__.pop(torch._inductor.virtualized._choices._key, None)
    config.force_disable_caches = True
    AsyncCompile.warm_pool()
    AsyncCompile.wait_pool_ready()
    with torch.no_grad():
        torch.compile(lambda x: x + 1)(torch.ones(8, device="cuda"))
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.no_grad():
        torch.compile(function, options=options)(*inputs)
    torch.cuda.synchronize()
    print(json.dumps({"seconds": time.perf_counter() - start}))


def as_table(picks) -> dict:
    """The picks as Inductor's lookup table, by device-agnostic keys."""
    import torch_diode

    entries = {}
    for pick in picks:
        one = pick.picks[0].config
        config_fields = {"template": one.template}
        if not one.is_library:
            names = ("block_m", "block_n", "block_k", "group_m", "num_stages", "num_warps")
            config_fields |= {name: getattr(one, name) for name in names}
        problem = pick.problem
        fields = {name: getattr(problem, name) for name in ("op", "b", "m", "n", "k", "b_dtype", "out_dtype", "a_layout", "b_layout", "bias")}
        entries[problem] = {"problem": {**fields, "a_dtype": problem.dtype}, "configs": [config_fields]}
    hardware = {"slug": "nvidia-h200", "name": torch.cuda.get_device_name(), "vendor": "nvidia", "facts": None}
    table = {"format": "diode-table/1", "hardware": hardware, "method": "unspecified", "entries": list(entries.values())}
    return json.loads(torch_diode.Table.from_json(json.dumps(table)).to_inductor_json(device_agnostic=True))


if __name__ == "__main__":
    main()
