"""Kernels around a measurement: inputs, a reference in higher precision, a comparison."""

import triton
import triton.language as tl


@triton.jit
def fill(out, count, seed, BLOCK: tl.constexpr):
    """Standard normal numbers, the same for the same seed. Integers are 40 times as large."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.randn(seed, at)
    if out.dtype.element_ty == tl.int8:
        value = tl.clamp(value * 40, -127.0, 127.0)
    tl.store(out + at, value.to(out.dtype.element_ty), at < count)


@triton.jit
def fill_scales(out, count, seed, rows, columns, BLOCK: tl.constexpr):
    """Numbers around 0.6. With `columns` above 1, a matrix of `rows` by `columns` is written column by column."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    drawn = at % rows * columns + at // rows
    tl.store(out + at, tl.abs(tl.randn(seed, drawn)) * 0.1 + 0.5, at < count)


@triton.jit
def reference(A, B, bias, out, M, N, K,
              a_row, a_column, b_row, b_column, bias_row, bias_column, batch_a, batch_b, batch_bias,
              ACC: tl.constexpr, HAS_BIAS: tl.constexpr,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A B (+ bias), dense and row-major, with every product and sum in ACC."""
    grid_n = (N + BLOCK_N - 1) // BLOCK_N
    row = (tl.program_id(0) // grid_n * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    column = (tl.program_id(0) % grid_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]
    batch = tl.program_id(1).to(tl.int64)
    acc = tl.zeros((BLOCK_M, BLOCK_N), ACC)
    for start in range(0, K, BLOCK_K):
        k = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        ka = k[None, :]
        kb = k[:, None]
        a = tl.load(A + batch * batch_a + row * a_row + ka * a_column, (row < M) & (ka < K), other=0.0)
        b = tl.load(B + batch * batch_b + kb * b_row + column * b_column, (kb < K) & (column < N), other=0.0)
        acc += tl.dot(a.to(ACC), b.to(ACC), input_precision="ieee", out_dtype=ACC)
    inside = (row < M) & (column < N)
    if HAS_BIAS:
        at = bias + batch * batch_bias + row * bias_row + column * bias_column
        acc += tl.load(at, inside, other=0.0).to(ACC)
    tl.store(out + (batch * M + row) * N + column, acc, inside)


@triton.jit
def grouped_reference(A, B, a_scales, b_scales, out, pairs, experts, weights, M, N, K, top_k, weighted,
                      a_scale_row, b_scale_group, b_scale_row, SCALING: tl.constexpr,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """The same for scaled and grouped rows, from lists as `fused_moe` takes them, with every scale applied to operands."""
    columns = (N + BLOCK_N - 1) // BLOCK_N
    block = tl.program_id(0) // columns
    expert = tl.load(experts + block).to(tl.int64)
    if expert < 0:
        return
    pair = tl.load(pairs + block * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    real = (pair < M)[:, None]
    row = (pair // top_k)[:, None]
    column = (tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    inside = (column < N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        ka = k[None, :]
        kb = k[:, None]
        a = tl.load(A + row * K + ka, real & (ka < K), other=0.0).to(tl.float32)
        b = tl.load(B + (expert * N + column[None, :]) * K + kb, (kb < K) & inside, other=0.0).to(tl.float32)
        if SCALING == "block":
            a *= tl.load(a_scales + row * a_scale_row + ka // 128, real & (ka < K), other=0.0)
            at = expert * b_scale_group + column[None, :] // 128 * b_scale_row + kb // 128
            b *= tl.load(b_scales + at, (kb < K) & inside, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    if SCALING == "tensor":
        acc *= tl.load(a_scales) * tl.load(b_scales + expert * b_scale_group)
    if SCALING == "row":
        acc *= tl.load(a_scales + row, real, other=0.0)
        acc *= tl.load(b_scales + expert * b_scale_group + column[None, :], inside, other=0.0)
    if weighted != 0:
        acc *= tl.load(weights + pair[:, None], real, other=0.0)
    tl.store(out + pair[:, None] * N + column[None, :], acc, real & inside)


@triton.jit
def compare(C, expected, wrong, count, absolute, relative, BLOCK: tl.constexpr):
    """Counts the elements of C that are further from the reference than allowed; NaN always is."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    c = tl.load(C + at, inside, other=0.0).to(tl.float32)
    e = tl.load(expected + at, inside, other=0.0).to(tl.float32)
    close = tl.abs(c - e) <= absolute + relative * tl.abs(e)
    bad = tl.sum((inside & (close == 0)).to(tl.int32), axis=0)
    if bad > 0:
        tl.atomic_add(wrong, bad)
