"""Triton kernels of the multiplications that language models are served with.

Sizes, strides and the width of a group of row blocks are arguments: one binary serves every problem of its variant.
Conventions of all kernels: A is row-major, a weight is stored as (N, K), so both are contiguous along K; C is row-major bf16.
"""

import triton
import triton.language as tl

SCALE_BLOCK = tl.constexpr(128)  # Scales by block: A has one for 128 columns of a row, a weight one for 128 by 128.


@triton.jit
def place(pid, blocks_m, blocks_n, group_m):
    """The tile of a program: down `group_m` tiles, then one column to the right."""
    width = group_m * blocks_n
    group = pid // width
    height = min(blocks_m - group * group_m, group_m)
    block_m = group * group_m + (pid % width) % height
    block_n = (pid % width) // height
    return block_m, block_n


@triton.jit
def multiplied(a, b, acc, FAST: tl.constexpr, SWAP: tl.constexpr):
    """One step. SWAP multiplies the transposes: the 64 rows of a wgmma are then columns of the weight."""
    if SWAP:
        return tl.dot(tl.trans(b), tl.trans(a), acc) if FAST else acc + tl.dot(tl.trans(b), tl.trans(a))
    else:
        return tl.dot(a, b, acc) if FAST else acc + tl.dot(a, b)


@triton.jit
def scaled_mm(A, B, SA, SB, C, M, N, K, lda, ldb, ldc, sa_row, sb_row, group_m,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
              SCALING: tl.constexpr, FAST: tl.constexpr, SWAP: tl.constexpr):
    """C = (A · Bᵀ) scaled. SCALING: "tensor", "row" (of A and of B), "block", or "each": by row, as Inductor's template does it.

    Inductor's epilogue reads two scales for each element of the tile: twice the registers, so large tiles are slower or spill.
    """
    block_m, block_n = place(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), group_m)
    row = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    column = (block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    depth = tl.arange(0, BLOCK_K)
    a_at = A + row[:, None] * lda + depth[None, :]
    b_at = B + column[None, :] * ldb + depth[:, None]
    if SWAP:
        acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    else:
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            a = tl.load(a_at, mask=depth[None, :] < K - k, other=0.0)
            b = tl.load(b_at, mask=depth[:, None] < K - k, other=0.0)
        if SCALING == "block":
            at = k // SCALE_BLOCK
            of_rows = tl.load(SA + row * sa_row + at)
            if BLOCK_N <= SCALE_BLOCK:
                scale = of_rows * tl.load(SB + (block_n * BLOCK_N // SCALE_BLOCK) * sb_row + at)
                if SWAP:
                    acc += tl.dot(tl.trans(b), tl.trans(a)) * scale[None, :]
                else:
                    acc += tl.dot(a, b) * scale[:, None]
            else:
                of_columns = tl.load(SB + (column // SCALE_BLOCK) * sb_row + at)
                acc += tl.dot(a, b) * of_rows[:, None] * of_columns[None, :]
        else:
            acc = multiplied(a, b, acc, FAST, SWAP)
        a_at += BLOCK_K
        b_at += BLOCK_K
    if SWAP:
        acc = tl.trans(acc)
    stored_row = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    stored_column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (stored_row < M)[:, None] & (stored_column < N)[None, :]
    if SCALING == "tensor":
        acc *= tl.load(SA) * tl.load(SB)
    if SCALING == "row":
        acc = acc * tl.load(SA + stored_row, stored_row < M)[:, None] * tl.load(SB + stored_column, stored_column < N)[None, :]
    if SCALING == "each":
        of_row = tl.load(SA + tl.broadcast_to(stored_row[:, None], mask.shape), mask, eviction_policy="evict_last")
        of_column = tl.load(SB + tl.broadcast_to(stored_column[None, :], mask.shape), mask, eviction_policy="evict_last")
        acc = acc * (of_row * of_column)
    at = stored_row[:, None] * ldc + stored_column[None, :]
    tl.store(C + at, acc.to(C.dtype.element_ty), mask)


@triton.jit
def scaled_mm_split(A, B, SA, SB, C, SUMS, TURNS, M, N, K, lda, ldb, ldc, group_m,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
                    FAST: tl.constexpr, SWAP: tl.constexpr):
    """Scaled by row, K split between programs of one launch: the last one to finish a tile adds the sums of all, in order.

    TURNS has a zero for each tile, and has it again afterwards. So few rows keep all multiprocessors busy.
    """
    tile, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    block_m, block_n = place(tile, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), group_m)
    row = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    column = (block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    depth = tl.arange(0, BLOCK_K)
    share = tl.cdiv(tl.cdiv(K, BLOCK_K), parts) * BLOCK_K
    a_at = A + row[:, None] * lda + depth[None, :] + part * share
    b_at = B + column[None, :] * ldb + depth[:, None] + part * share
    if SWAP:
        acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
        at = tl.arange(0, BLOCK_N)[:, None] * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
    else:
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        at = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    for k in range(part * share, min(K, (part + 1) * share), BLOCK_K):
        if EVEN_K:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            a = tl.load(a_at, mask=depth[None, :] < K - k, other=0.0)
            b = tl.load(b_at, mask=depth[:, None] < K - k, other=0.0)
        acc = multiplied(a, b, acc, FAST, SWAP)
        a_at += BLOCK_K
        b_at += BLOCK_K
    sums = SUMS + tile * parts * (BLOCK_M * BLOCK_N)
    tl.store(sums + part * (BLOCK_M * BLOCK_N) + at, acc)
    tl.debug_barrier()
    if tl.atomic_add(TURNS + tile, 1, sem="acq_rel") == parts - 1:
        total = tl.load(sums + at, cache_modifier=".cg")
        for other in range(1, parts):
            total += tl.load(sums + other * (BLOCK_M * BLOCK_N) + at, cache_modifier=".cg")
        tl.store(TURNS + tile, 0)
        summed = tl.trans(total) if SWAP else total
        row = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
        column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
        summed = summed * tl.load(SA + row, row < M)[:, None] * tl.load(SB + column, column < N)[None, :]
        at_c = row[:, None] * ldc + column[None, :]
        tl.store(C + at_c, summed.to(C.dtype.element_ty), (row < M)[:, None] & (column < N)[None, :])


@triton.jit
def scaled_mm_tma(A, B, SA, SB, C, M, N, K, lda, ldb, ldc, sa_row, sb_row, group_m,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
                  SCALING: tl.constexpr, FAST: tl.constexpr, SWAP: tl.constexpr):
    """The same by row or tensor, persistent, through the copy engine: no addresses in registers, so large tiles don't spill."""
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    a_tiles = tl.make_tensor_descriptor(A, [M, K], [lda, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(B, [N, K], [ldb, 1], [BLOCK_N, BLOCK_K])
    c_tiles = tl.make_tensor_descriptor(C, [M, N], [ldc, 1], [BLOCK_M, BLOCK_N])
    for tile in tl.range(tl.program_id(0), blocks_m * blocks_n, tl.num_programs(0), flatten=True):
        block_m, block_n = place(tile, blocks_m, blocks_n, group_m)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_tiles.load([block_m * BLOCK_M, k])
            b = b_tiles.load([block_n * BLOCK_N, k])
            acc = multiplied(a, b.T, acc, FAST, False)
        row = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
        column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
        if SCALING == "tensor":
            acc *= tl.load(SA) * tl.load(SB)
        if SCALING == "row":
            acc = acc * tl.load(SA + row, row < M)[:, None] * tl.load(SB + column, column < N)[None, :]
        c_tiles.store([block_m * BLOCK_M, block_n * BLOCK_N], acc.to(C.dtype.element_ty))


@triton.jit
def grouped_mm(A, B, C, ENDS, groups, N, K, lda, ldb, ldc, b_group, group_m,
               BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, TMA: tl.constexpr):
    """Ragged groups of rows of A, each by its own weight. Persistent: each program walks the groups and takes every n-th tile.

    ENDS holds the row after the last of each group. Inside a group rows run fastest, as in Inductor's template.
    """
    programs = tl.num_programs(0)
    mine = tl.program_id(0)
    blocks_n = tl.cdiv(N, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    first = 0
    done = 0
    weight = B
    if TMA:
        rows = tl.load(ENDS + groups - 1)
        a_tiles = tl.make_tensor_descriptor(A, [rows, K], [lda, 1], [BLOCK_M, BLOCK_K])
        b_tiles = tl.make_tensor_descriptor(B, [groups * N, K], [ldb, 1], [BLOCK_N, BLOCK_K])
    for group in range(groups):
        end = tl.load(ENDS + group)
        size = end - first
        if size > 0:
            blocks_m = tl.cdiv(size, BLOCK_M)
            tiles = blocks_m * blocks_n
            while mine < done + tiles:
                tile = mine - done
                row = first + (tile % blocks_m) * BLOCK_M
                column = (tile // blocks_m) * BLOCK_N
                rows_at = row + tl.arange(0, BLOCK_M)
                columns_at = column + tl.arange(0, BLOCK_N)
                acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
                if TMA:
                    for k in range(0, K, BLOCK_K):
                        a = a_tiles.load([row, k])
                        b = b_tiles.load([group * N + column, k])
                        acc = tl.dot(a, b.T, acc)
                else:
                    a_at = A + tl.minimum(rows_at, end - 1)[:, None] * lda + depth[None, :]
                    b_at = weight + (columns_at % N)[None, :] * ldb + depth[:, None]
                    for k in range(0, K, BLOCK_K):
                        if EVEN_K:
                            a = tl.load(a_at)
                            b = tl.load(b_at)
                        else:
                            a = tl.load(a_at, mask=depth[None, :] < K - k, other=0.0)
                            b = tl.load(b_at, mask=depth[:, None] < K - k, other=0.0)
                        acc = tl.dot(a, b, acc)
                        a_at += BLOCK_K
                        b_at += BLOCK_K
                mask = (rows_at < end)[:, None] & (columns_at < N)[None, :]
                tl.store(C + rows_at[:, None] * ldc + columns_at[None, :], acc.to(C.dtype.element_ty), mask)
                mine += programs
            done += tiles
        first = end
        weight += b_group


@triton.jit
def fused_moe(A, B, SA, SB, C, PAIRS, EXPERTS, PADDED, WEIGHTS, N, K, blocks_m, pairs, lda, ldb, ldc, b_expert,
              sa_row, sb_expert, sb_row, top_k, weighted, group_m,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SCALING: tl.constexpr, FAST: tl.constexpr, SWAP: tl.constexpr):
    """One launch of a layer of experts, as vLLM and SGLang launch it.

    PAIRS lists pairs (token · top-k + slot) sorted by expert and padded to whole blocks with `pairs`; EXPERTS has the expert
    of each block, or -1: zeros are written; PADDED is the length in use. The row of A is pair // top_k: `top_k` is 1 in the
    second launch (down), whose rows are pairs already. If `weighted`, rows are multiplied by their routing weight.
    SCALING "early" is "row" with the scales loaded before the loop, as vLLM's kernel does it.
    """
    block_m, block_n = place(tl.program_id(0), blocks_m, tl.cdiv(N, BLOCK_N), group_m)
    if block_m * BLOCK_M >= tl.load(PADDED):
        return
    pair = tl.load(PAIRS + block_m * BLOCK_M + tl.arange(0, BLOCK_M))
    real = pair < pairs
    row = (pair // top_k).to(tl.int64)
    pair = pair.to(tl.int64)
    expert = tl.load(EXPERTS + block_m).to(tl.int64)
    stored_column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_at = C + pair[:, None] * ldc + stored_column[None, :]
    mask = real[:, None] & (stored_column < N)[None, :]
    if expert == -1:
        tl.store(c_at, tl.zeros((BLOCK_M, BLOCK_N), C.dtype.element_ty), mask)
        return
    column = (block_n * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    depth = tl.arange(0, BLOCK_K)
    a_at = A + row[:, None] * lda + depth[None, :]
    b_at = B + expert * b_expert + column[None, :] * ldb + depth[:, None]
    if SCALING == "early":
        by_column = tl.load(SB + expert * sb_expert + column[None, :])
        by_row = tl.load(SA + row * sa_row, mask=real, other=0.0)[:, None]
    if SWAP:
        acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    else:
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_at, mask=real[:, None] & (depth[None, :] < K - k), other=0.0)
        b = tl.load(b_at, mask=depth[:, None] < K - k, other=0.0)
        if SCALING == "block":
            at = k // SCALE_BLOCK
            of_rows = tl.load(SA + row * sa_row + at, mask=real, other=0.0)
            of_columns = tl.load(SB + expert * sb_expert + (column // SCALE_BLOCK) * sb_row + at)
            if SWAP:
                acc += tl.dot(tl.trans(b), tl.trans(a)) * of_rows[None, :] * of_columns[:, None]
            else:
                acc += tl.dot(a, b) * of_rows[:, None] * of_columns[None, :]
        else:
            acc = multiplied(a, b, acc, FAST, SWAP)
        a_at += BLOCK_K
        b_at += BLOCK_K
    if SWAP:
        acc = tl.trans(acc)
    if SCALING == "row":
        of_columns = tl.load(SB + expert * sb_expert + column)
        acc = acc * tl.load(SA + row * sa_row, mask=real, other=0.0)[:, None] * of_columns[None, :]
    if SCALING == "early":
        acc = acc * by_row * by_column
        c_at = C + pair[:, None] * ldc + stored_column[None, :]
        mask = real[:, None] & (stored_column < N)[None, :]
    if SCALING == "tensor":
        acc *= tl.load(SA) * tl.load(SB + expert)
    acc *= tl.load(WEIGHTS + pair, mask=real & (weighted != 0), other=1.0)[:, None]
    tl.store(c_at, acc.to(C.dtype.element_ty), mask)
