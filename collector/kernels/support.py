"""Kernels around a measurement: inputs, a reference in higher precision, a comparison."""

import triton
import triton.language as tl


@triton.jit
def fill(out, count, seed, BLOCK: tl.constexpr):
    """Standard normal numbers, the same for the same seed."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.randn(seed, at).to(out.dtype.element_ty), at < count)


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
