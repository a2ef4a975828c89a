"""Compiles kernels that are asked for on stdin, one JSON document a line, and answers likewise.

Runs without a GPU and without torch. The binary of each goes to the file that
the request names; the answer says what the driver has to know to launch it.
"""

import json
import os
import re
import struct
import sys

# Line tables would double the size of the binaries and change nothing that runs.
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import matmul
import serving
import support

KERNELS = {
    name: getattr(module, name)
    for module, names in [
        (matmul, ["mm", "mm_known", "bmm", "bmm_known"]),
        (serving, ["scaled_mm", "scaled_mm_tma", "grouped_mm", "fused_moe"]),
        (support, ["fill", "fill_scales", "reference", "grouped_reference", "compare"]),
    ]
    for name in names
}


def target(arch):
    if arch.startswith("sm_"):
        return GPUTarget("cuda", int(arch[3:]), 32)
    return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)


def source(request):
    """The function with its argument types, what is constant, and what divides the arguments."""
    function = KERNELS[request["kernel"]]
    constants = request["constants"]
    signature, attributes = {}, {}
    for index, name in enumerate(function.arg_names):
        if name in constants:
            signature[name] = "constexpr"
            continue
        signature[name] = request["types"][name]
        if name in request["divisible"]:
            attributes[(index,)] = [["tt.divisibility", request["divisible"][name]]]
    values = {
        name: triton.language.dtype(value[3:]) if str(value).startswith("tl.") else value for name, value in constants.items()
    }
    return ASTSource(function, signature, constexprs=values, attrs=attributes)


def cuda_resources(cubin):
    """Registers and stack bytes per thread, from the `.nv.info` section of the ELF file."""
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
            if form == 4:  # a payload of `length` bytes: here a symbol and a number
                found[attribute] = struct.unpack_from("<I", cubin, at + 8)[0] if length >= 8 else 0
            at += 4 + (length if form == 4 else 0)
    registers, frame = 0x2F, 0x11
    return found[registers], found.get(frame, 0)


def hip_resources(assembly):
    number = lambda key: int((re.search(rf"\.{key}:\s+(\d+)", assembly) or [0, 0])[1])
    return number("vgpr_count"), 4 * number("vgpr_spill_count")


def copies(ptx):
    """The bytes that the asynchronous copies to shared memory move each."""
    return sorted({int(size, 0) for size in re.findall(r"cp\.async\.c[ag]\.shared\.global \[[^]]*\], \[[^]]*\], (\w+)", ptx)})


def build(request):
    compiled = triton.compile(source(request), target=target(request["arch"]), options=request["options"])
    metadata = compiled.metadata
    if "cubin" in compiled.asm:
        binary = compiled.asm["cubin"]
        registers, stack = cuda_resources(binary)
    else:
        binary = compiled.asm["hsaco"]
        registers, stack = hip_resources(compiled.asm["amdgcn"])
    with open(request["file"] + ".new", "wb") as file:
        file.write(binary)
    os.replace(request["file"] + ".new", request["file"])
    return {
        "symbol": metadata.name,
        "threads": metadata.num_warps * metadata.target.warp_size,
        "shared": metadata.shared,
        "registers": registers,
        "stack": stack,
        "global_scratch": getattr(metadata, "global_scratch_size", 0),
        "copies": copies(compiled.asm.get("ptx", "")),
    }


def main():
    replies = sys.stdout
    # The compiler prints to stdout when it fails; that channel carries answers only.
    sys.stdout = sys.stderr
    print(json.dumps({"triton": triton.__version__}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"built": build(request)}
        except (OSError, MemoryError) as error:  # for example a full disk, which is not the kernel's fault
            answer = {"trouble": f"{type(error).__name__}: {error}"}
        except Exception as error:  # whatever the compiler raises is that kernel's result
            # Triton's message begins with the source. Its end says what is wrong with the source.
            text = " ".join(str(error).split())
            answer = {"failed": f"{type(error).__name__}: {text if len(text) <= 300 else '… ' + text[-300:]}"}
        print(json.dumps(answer), file=replies, flush=True)


if __name__ == "__main__":
    main()
