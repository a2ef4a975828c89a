"""Artifacts of `torch.compiler.save_cache_artifacts` serve another machine only if the same picks would be made there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KEY = "((torch.bfloat16, [512, 256], [256, 1]), (torch.bfloat16, [256, 1024], [1024, 1]))+mm"
ENTRY = {
    "template_id": "triton::mm", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8,
    "num_stages": 3, "num_warps": 4, "EVEN_K": True, "USE_FAST_ACCUM": False, "ACC_TYPE": "tl.float32",
}  # fmt: skip

# A separate process is needed: if a first compile finds no GPU, torch remembers that.
_PROGRAM = """
import sys
import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache
import torch_diode

def compiled(table):
    torch.compiler.reset()
    counters.clear()
    torch_diode.uninstall()
    if table:
        torch_diode.install(table=table)
    torch.compile(torch.mm)(torch.ones(8, 8), torch.ones(8, 8))
    print(table[-8:], "hits", counters["inductor"]["fxgraph_cache_hit"], "misses", counters["inductor"]["fxgraph_cache_miss"])

one, other = sys.argv[1:]
with fresh_cache():
    compiled(one)
    artifacts, _ = torch.compiler.save_cache_artifacts()
for table in (one, other, ""):
    with fresh_cache():
        torch.compiler.load_cache_artifacts(artifacts)
        compiled(table)
"""


def test_artifacts_serve_only_where_the_same_things_decide(tmp_path: Path) -> None:
    tables = []
    for block in (16, 64):
        tables.append(tmp_path / f"{block}.json")
        tables[-1].write_text(json.dumps({KEY: [{**ENTRY, "BLOCK_M": block}]}))
    command = [sys.executable, "-c", _PROGRAM, *map(str, tables)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout
    assert said.splitlines() == [
        "/16.json hits 0 misses 1",
        "/16.json hits 1 misses 0",
        "/64.json hits 0 misses 1",
        " hits 0 misses 1",
    ]
