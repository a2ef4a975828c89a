"""Whether our kernels rank configs as the kernels of their consumers do: vLLM's experts kernel and Inductor's scaled_mm template.

python3 agreement.py compile --data FOLDER --cubins FOLDER --consumers FOLDER      (no GPU needed)
python3 agreement.py time    --data FOLDER --cubins FOLDER --consumers FOLDER --out FILE
python3 agreement.py report --out FILE

CONSUMERS holds vLLM's fused_moe.py and, in inductor/, the code that Inductor generated for each problem, named M_N_K.py: foreign
code, so it is not part of this repository. Problems and configs come from the measured data, so that all steps agree on them.
"""

import argparse
import ast
import json
import re
from pathlib import Path

import numpy as np

import configs
import cubins
from measure import Kind

KINDS = {"fused_moe_bf16": 12, "fused_moe_fp8_block": 12, "fused_moe_fp8_row": 6, "scaled_mm_row": 12}  # problems of each
OURS = {
    "scaled_mm_row": "scaled_mm_row_inductor",
    "fused_moe_fp8_row": "fused_moe_fp8_row_early",
}  # the kernels that do as the consumers' ones do
MOE_TYPES = {"a_ptr": "A", "b_ptr": "B", "c_ptr": "*bf16", "topk_weights_ptr": "*fp32", "sorted_token_ids_ptr": "*i32", "expert_ids_ptr": "*i32",
             "num_tokens_post_padded_ptr": "*i32", "a_scale_ptr": "*fp32", "b_scale_ptr": "*fp32"}  # fmt: skip


def picked(kind):
    """Problems of as many batch sizes as there are, and configs of each: the best 20, and 12 spread over the slower ones."""
    chosen, seen = [], set()
    spread = sorted({one["m"] for one in kind.done})
    spread = [spread[round(at)] for at in np.linspace(0, len(spread) - 1, KINDS[kind.name])]
    for m in spread:
        for one, times in zip(kind.done, kind.times, strict=True):
            depth = one["stages"][0][1]
            scaled = kind.name.startswith("scaled")
            if (
                one["m"] == m
                and (one["model"], m) not in seen
                and one["model"] not in {model for model, _ in seen}
                and (not scaled or depth % 512 == 0)
            ):
                seen.add((one["model"], m))
                total = times.sum(axis=0)
                usable = [at for at in np.argsort(total) if np.isfinite(total[at]) and total[at] < 4 * np.nanmin(total)]
                if scaled:
                    usable = [
                        at
                        for at in usable
                        if kind.configs[at][0][0] == "scaled_mm" and not kind.configs[at][0][6] and kind.configs[at][1] == 8
                    ]
                rest = usable[20:]
                some = usable[:20] + [rest[round(at)] for at in np.linspace(0, len(rest) - 1, min(12, len(rest)))]
                chosen.append((one, sorted(set(some))))
                break
    return chosen


def extracted(consumers):
    """vLLM's kernel alone, as a module that needs only Triton."""
    text = (Path(consumers) / "fused_moe.py").read_text()
    wanted = {"write_zeros_to_output", "fused_moe_kernel"}
    found = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef) and one.name in wanted]
    parts = ["@triton.jit\n" + ast.get_source_segment(text, one) for one in found]
    path = Path(consumers) / "vllm_kernel.py"
    path.write_text("import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(parts) + "\n")
    return str(path)


def vllm_variant(kind, stage, tile, group, module, length):
    operand, scaling = configs.KINDS[kind]["operand"], configs.KINDS[kind]["scaling"]
    block = scaling == "block"
    _, rows, columns, depth, stages, warps, swap = tile
    naive = 4 * stage["pairs"] <= stage["experts"]
    constants = {"group_n": 128 if block else 0, "group_k": 128 if block else 0, "naive_block_assignment": naive, "BLOCK_SIZE_M": rows,
                 "BLOCK_SIZE_N": columns, "BLOCK_SIZE_K": depth, "GROUP_SIZE_M": group, "SPLIT_K": 1, "MUL_ROUTED_WEIGHT": bool(stage["down"]),
                 "top_k": 1 if stage["down"] else stage["top_k"], "compute_type": "tl.bf16", "use_fp8_w8a8": operand == "fp8",
                 "use_int8_w8a8": False, "use_int8_w8a16": False, "per_channel_quant": scaling == "row", "HAS_BIAS": False, "SWAP_AB": bool(swap),
                 "USE_TD": False, "b_bias_ptr": None, "stride_ak": 1, "stride_bk": 1, "stride_cn": 1, "stride_bbe": 0, "stride_bbn": 0}  # fmt: skip
    if block:
        constants |= {"stride_ask": 1, "stride_bsk": 1}
    elif scaling == "row":
        constants |= {"stride_asm": 1, "stride_ask": 1, "stride_bsk": 1, "stride_bsn": 1}
    else:
        constants |= dict.fromkeys(
            ("a_scale_ptr", "b_scale_ptr", "stride_asm", "stride_ask", "stride_bse", "stride_bsk", "stride_bsn")
        )
    if naive:
        constants["sorted_token_ids_ptr"] = None
    operand_type = "*" + cubins.TYPES[operand]
    types = {name: operand_type if kind_of in "AB" else kind_of for name, kind_of in MOE_TYPES.items()}
    integers = {"N": stage["n"], "K": stage["k"], "EM": length, "num_valid_tokens": stage["pairs"], "stride_am": stage["k"],
                "stride_be": stage["n"] * stage["k"], "stride_bn": stage["k"], "stride_cm": stage["n"],
                "stride_asm": cubins.up(stage["k"], 128),
                "stride_bse": cubins.up(stage["n"], 128) * cubins.up(stage["k"], 128) if block else stage["n"],
                "stride_bsn": cubins.up(stage["k"], 128)}  # fmt: skip
    return {"kernel": "fused_moe_kernel", "module": module, "stages": stages, "warps": warps, "dtype": operand, "constants": constants,
            "types": types, "divisible": sorted(name for name, value in integers.items() if value % 16 == 0 and name not in constants)}  # fmt: skip


def stage_facts(problem, down):
    n, k = problem["stages"][down]
    return {
        "n": n,
        "k": k,
        "down": down,
        "top_k": problem["top_k"],
        "experts": problem["experts"],
        "pairs": problem["m"] * problem["top_k"],
    }


def launch_length(stage, rows):
    """The launch's EM, as vLLM computes it."""
    pairs, experts = stage["pairs"], stage["experts"]
    if 4 * pairs <= experts:
        return pairs * rows
    length = min(pairs + experts * (rows - 1), pairs * rows) if pairs < experts else pairs + experts * (rows - 1)
    of_a, top_k = (pairs, 1) if stage["down"] else (pairs // stage["top_k"], stage["top_k"])
    return min(length, of_a * top_k * rows) if of_a < rows else length


def inductor_variant(consumers, problem, tile):
    """Inductor's kernel of a problem with another tile: its sizes stay in the source."""
    (n, k), m = problem["stages"][0], problem["m"]
    _, rows, columns, depth, stages, warps, _ = tile
    module = Path(consumers) / "inductor" / f"made_{m}_{n}_{k}_{rows}_{columns}_{depth}.py"
    if not module.exists() and (source := module.with_name(f"{m}_{n}_{k}.py")).exists():
        text = source.read_text()
        for name, value in (("BLOCK_M", rows), ("BLOCK_N", columns), ("BLOCK_K", depth)):
            text = re.sub(rf"^(    {name} : tl\.constexpr = )\d+", rf"\g<1>{value}", text, flags=re.MULTILINE)
        module.write_text(text)
    types = {"arg_A": "*fp8e4nv", "arg_B": "*fp8e4nv", "in_ptr2": "*fp32", "in_ptr3": "*fp32", "out_ptr0": "*bf16"}
    return {
        "kernel": "triton_tem_fused_0",
        "module": str(module),
        "stages": stages,
        "warps": warps,
        "dtype": "fp8",
        "constants": {},
        "types": types,
    }


def theirs(kind, problem, stage, at, consumers, module):
    tile, group = kind.configs[at]
    if kind.name.startswith("scaled"):
        return inductor_variant(consumers, problem, tile)
    facts = stage_facts(problem, stage)
    return vllm_variant(kind.name, facts, tile, group, module, launch_length(facts, tile[1]))


def compile_theirs(chosen):
    module = extracted(chosen.consumers)
    wanted = []
    for name in chosen.kinds or KINDS:
        kind = Kind(name, chosen.data)
        for problem, some in picked(kind):
            print(name, problem["model"], problem["m"], problem["stages"], len(some), "configs", flush=True)
            wanted += [
                theirs(kind, problem, stage, at, chosen.consumers, module)
                for stage in range(len(problem["stages"]))
                for at in some
            ]
    cubins.compile_all(chosen.cubins, wanted)


def their_launch(device, stage, kind, function, tile):
    import work

    handle, about = function
    if kind.startswith("scaled"):
        tiles = work.up(stage.m, tile[1]) * work.up(stage.n, tile[2])
        return device.launch(handle, about, [stage.a, stage.b, stage.sa, stage.sb, stage.c], tiles)
    facts = {"pairs": stage.pairs, "experts": stage.experts, "down": stage.stage, "top_k": stage.top_k}
    rows, length = tile[1], launch_length(facts, tile[1])
    ids, of_block, used, _ = stage.sorted(rows)
    lists = [of_block, used] if 4 * stage.pairs <= stage.experts else [ids, of_block, used]
    of_k, of_n = work.up(stage.k, 128), work.up(stage.n, 128)
    scales = {"none": [], "row": [stage.n], "block": [of_k, of_n * of_k, of_k]}[stage.scaling]
    arguments = [stage.a, stage.b, stage.c, *([stage.sa, stage.sb] if scales else []), stage.weights, *lists, stage.n, stage.k, length,
                 stage.pairs, stage.k, stage.n * stage.k, stage.k, stage.n, *scales]  # fmt: skip
    return device.launch(handle, about, arguments, work.up(length, rows) * work.up(stage.n, tile[2]))


def ranks(values):
    return np.argsort(np.argsort(values)).astype(float)


def time_both(chosen):
    import torch

    import work
    from measure import Session

    session = Session(chosen.data, chosen.cubins, 500)
    device, results = session.device, []
    module = str(Path(chosen.consumers) / "vllm_kernel.py")
    for name in chosen.kinds or KINDS:
        kind = Kind(name, chosen.data)
        ours = [configs.variant_of(OURS.get(name, name), kind.configs[at][0], k % kind.configs[at][0][3] == 0)
                for problem, some in picked(kind) for _, k in problem["stages"] for at in some]  # fmt: skip
        cubins.compile_all(chosen.cubins, ours)
        device.fill(configs.KINDS[name]["operand"])
        for problem, some in picked(kind):
            stages = work.stages(device, name, problem)
            times = np.zeros((2, len(stages), len(some)))
            for number, stage in enumerate(stages):
                launches, which = [], []
                for column, at in enumerate(some):
                    tile, group = kind.configs[at]
                    mine = device.function(chosen.cubins, configs.variant_of(OURS.get(name, name), tile, stage.k % tile[3] == 0))
                    other = device.function(chosen.cubins, theirs(kind, problem, number, at, chosen.consumers, module))
                    if mine[0] is None or other[0] is None:
                        times[:, number, column] = np.nan
                        print("missing", tile, other[1].get("failed"), flush=True)
                        continue
                    pair = stage.launch(*mine, tile, group), their_launch(device, stage, name, other, tile)
                    if column == 0:
                        found = []
                        for launch in pair:
                            stage.c.tensor().fill_(float("nan"))
                            device.once(launch)
                            found.append(stage.c.tensor().float().clone())
                        difference = float((found[0] - found[1]).norm() / found[1].norm())
                        if not difference < 0.01:
                            print("DIFFERENT", name, problem["m"], number, difference, flush=True)
                        del found
                    launches += pair
                    which.append(column)
                count, rounds = session.plan(float(np.nanmin(kind.times[kind.done.index(problem)][number])), len(launches))
                fine, _ = session.fine(stage, launches, count, max(5, rounds))
                times[0, number, which], times[1, number, which] = fine[0::2], fine[1::2]
            total = times.sum(axis=1)
            good = np.isfinite(total).all(axis=0)
            mine, other = total[0, good], total[1, good]
            correlation = float(np.corrcoef(ranks(mine), ranks(other))[0, 1])
            loss = float(other[np.argmin(mine)] / other.min())
            results.append({"kind": name, "our_kernel": OURS.get(name, name), "model": problem["model"], "m": problem["m"], "stages": problem["stages"], "configs": [kind.configs[at] for at in some],
                            "ours": times[0].round(3).tolist(), "theirs": times[1].round(3).tolist(), "rank_correlation": correlation, "best_loss": loss})  # fmt: skip
            print(f"{name} {problem['model']} m={problem['m']}: {good.sum()} configs, rank correlation {correlation:.3f}, best by ours {loss:.3f}× "
                  f"the best, time ours/theirs {np.median(mine / other):.3f} ({(mine / other).min():.2f}–{(mine / other).max():.2f})", flush=True)  # fmt: skip
            torch.cuda.synchronize()
    Path(chosen.out).write_text(json.dumps(results))
    for name in chosen.kinds or KINDS:
        some = [one for one in results if one["kind"] == name]
        ranked, lost = [one["rank_correlation"] for one in some], [one["best_loss"] for one in some]
        print(
            f"{name}: rank correlation {np.median(ranked):.3f} in the median, {min(ranked):.3f} at worst; "
            f"best by ours {np.mean(lost):.3f}× the best, {max(lost):.3f}× at worst"
        )


def apart(times, step):
    """Indices of configs whose times are at least a share `step` apart, from the fastest: of near-equal ones, noise decides the rank."""
    kept = []
    for at in np.argsort(times):
        if not kept or times[at] > (1 + step) * times[kept[-1]]:
            kept.append(at)
    return kept


def report(path):
    """Figures of a file of results: over all configs, over those 1 % apart, and the share of pairs more than 2 % apart that both order alike."""
    by_kernel = {}
    for one in json.loads(Path(path).read_text()):
        mine, other = (np.array(one[name]).sum(axis=0) for name in ("ours", "theirs"))
        good = np.isfinite(mine) & np.isfinite(other)
        mine, other = mine[good], other[good]
        few = apart(other, 0.01)
        between, ours = (np.log(times)[:, None] - np.log(times)[None, :] for times in (other, mine))
        alike = float((ours * between > 0)[between > 0.02].mean())
        figures = [np.corrcoef(ranks(mine), ranks(other))[0, 1], np.corrcoef(ranks(mine[few]), ranks(other[few]))[0, 1], alike]
        by_kernel.setdefault(one["our_kernel"], []).append([*figures, other[np.argmin(mine)] / other.min()])
    for kernel, rows in by_kernel.items():
        every, few, alike, lost = zip(*rows, strict=True)
        print(
            f"{kernel}, {len(rows)} problems: rank correlation {np.median(every):.3f} ({min(every):.3f}), of configs 1 % apart "
            f"{np.median(few):.3f} ({min(few):.3f}), pairs 2 % apart ordered alike {np.median(alike):.3f} ({min(alike):.3f}), "
            f"best by ours {np.mean(lost):.3f}× the best ({max(lost):.3f})"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["problems", "compile", "time", "report"])
    for name in ("--data", "--cubins", "--consumers", "--out"):
        parser.add_argument(name)
    parser.add_argument("kinds", nargs="*")
    chosen = parser.parse_args()
    if chosen.step == "problems":
        for problem, _ in picked(Kind("scaled_mm_row", chosen.data)):
            print(problem["m"], *problem["stages"][0])
    elif chosen.step == "report":
        report(chosen.out)
    elif chosen.step == "compile":
        compile_theirs(chosen)
    else:
        time_both(chosen)


if __name__ == "__main__":
    main()
