"""Compiles kernels ahead of time, on all cores, into a folder of cubins. Needs Triton 3.6, no GPU and no torch.

python3 cubins.py FOLDER [KIND…]    compiles what the problems and configs of these kinds need and the folder lacks
"""

import functools
import hashlib
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # Line tables double a binary and change nothing that runs.

TYPES = {"fp8": "fp8e4nv", "bf16": "bf16", "int8": "i8"}
POINTERS = {"SA": "*fp32", "SB": "*fp32", "SUMS": "*fp32", "TURNS": "*i32", "ENDS": "*i32", "PAIRS": "*i32", "EXPERTS": "*i32", "PADDED": "*i32",
            "WEIGHTS": "*fp32"}  # fmt: skip
DIVISIBLE = {"N", "K", "lda", "ldb", "ldc", "b_group", "b_expert"}  # by 16: loads of 16 bytes, asynchronous copies


def variant(kernel, tile, **constants):
    """What is compiled. A tile is (rows, columns, depth, stages, warps)."""
    rows, columns, depth, stages, warps = tile
    blocks = {"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": depth}
    return {"kernel": kernel, "stages": stages, "warps": warps, **constants, "constants": {**blocks, **constants["constants"]}}


@functools.cache
def source_of(path):
    return Path(path).read_text()


def name_of(one):
    """The name of a variant's file. It changes with the kernel's source."""
    text = json.dumps(one, sort_keys=True) + source_of(one.get("module", Path(__file__).parent / "kernels.py"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def resources(cubin):
    """Registers and bytes of stack per thread, from the `.nv.info` section of the ELF file."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    entry, count, names = struct.unpack_from("<HHH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * entry) for i in range(count)]
    found = {}
    for name, _, _, _, offset, size, *_ in sections:
        start = sections[names][4] + name
        if cubin[start : start + 9] != b".nv.info\0":
            continue
        at = offset
        while at < offset + size:
            form, attribute, length = struct.unpack_from("<BBH", cubin, at)
            if form == 4:
                found[attribute] = struct.unpack_from("<I", cubin, at + 8)[0] if length >= 8 else 0
            at += 4 + (length if form == 4 else 0)
    return found[0x2F], found.get(0x11, 0)


def build(one):
    """The cubin of a variant, and what its launch needs."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(module_of(one.get("module", Path(__file__).parent / "kernels.py")), one["kernel"])
    operand = "*" + TYPES[one["dtype"]]
    types = {**POINTERS, "A": operand, "B": operand, "C": "*bf16", **one.get("types", {})}
    signature, attributes = {}, {}
    for index, name in enumerate(function.arg_names):
        if name in one["constants"]:
            signature[name] = "constexpr"
            continue
        signature[name] = types.get(name, "i32")
        if signature[name].startswith("*") or name in DIVISIBLE or name in one.get("divisible", ()):
            attributes[(index,)] = [["tt.divisibility", 16]]
    values = {
        name: triton.language.dtype(value[3:]) if str(value).startswith("tl.") else value
        for name, value in one["constants"].items()
    }
    source = ASTSource(function, signature, constexprs=values, attrs=attributes)
    options = {"num_stages": one["stages"], "num_warps": one["warps"]}
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    registers, stack = resources(built.asm["cubin"])
    about = {"symbol": built.metadata.name, "threads": 32 * one["warps"], "shared": built.metadata.shared, "registers": registers,
             "stack": stack, "scratch": built.metadata.global_scratch_size, "mma": sorted(instructions(built.asm["ptx"]))}  # fmt: skip
    return built.asm["cubin"], about


def module_of(path):
    """A module from a file: our kernels, or a consumer's."""
    name = re.sub(r"\W", "_", str(path))
    if name not in sys.modules:
        found = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(found)
        found.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def up(a, b):
    return -(-a // b)


def instructions(ptx):
    return set(re.findall(r"(wgmma\.mma_async\.\S+?m64n\d+k\d+|mma\.sync\.aligned\.m\d+n\d+k\d+)", ptx))


def _job(order):
    folder, one = order
    started = time.time()
    try:
        cubin, about = build(one)
        (folder / (name_of(one) + ".cubin")).write_bytes(cubin)
    except Exception as error:  # Whatever the compiler raises is this kernel's result.
        about = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"}
    about["seconds"] = round(time.time() - started, 2)
    path = folder / (name_of(one) + ".json")
    path.with_suffix(".new").write_text(json.dumps({**about, "variant": one}))
    path.with_suffix(".new").rename(path)
    return about


def compile_all(folder, variants, cores=None, deadline=None):
    """Compiles what the folder lacks, in the given order. Past the deadline the rest is left out."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {name_of(one): one for one in variants}
    missing = [one for name, one in wanted.items() if not (folder / (name + ".json")).exists()]
    started, seconds, done = time.time(), 0.0, 0
    if missing:
        os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()  # Triton writes each stage of each kernel to files, and reads them.
        with multiprocessing.get_context("fork").Pool(cores or os.cpu_count()) as pool:
            for about in pool.imap_unordered(_job, [(folder, one) for one in missing]):
                seconds, done = seconds + about["seconds"], done + 1
                if done % 100 == 0:
                    print(f"compiled {done}/{len(missing)} in {time.time() - started:.0f} s", flush=True)
                if deadline and time.time() > deadline:
                    pool.terminate()
                    break
        shutil.rmtree(os.environ["TRITON_CACHE_DIR"], ignore_errors=True)
    print(
        f"{len(wanted)} kernels, {done} of {len(missing)} compiled now in {time.time() - started:.0f} s ({seconds:.0f} s of cores)",
        flush=True,
    )


if __name__ == "__main__":
    import configs
    import problems

    kinds = sys.argv[2:] or list(configs.KINDS)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    compile_all(sys.argv[1], [one for kind in kinds for one in configs.variants(kind, problems.of_kind(kind))])
