#!/bin/sh
# The whole workflow: collect, set problems aside, train, validate, compare with
# an autotuner's configs. Files go to ./workflow; run it again with RESUME=--resume
# after an interruption.
set -eu

SEED=${SEED:-52}
SHAPES=${SHAPES:-12}
VALIDATION=${VALIDATION:-6}
MIN_SIZE=${MIN_SIZE:-65}
MAX_SIZE=${MAX_SIZE:-160}
DTYPES=${DTYPES:-float32}
BACKEND=${BACKEND:-cpu}
FOLDS=${FOLDS:-0}
RESUME=${RESUME:-}

mkdir -p workflow
cd workflow

# Validation problems are drawn with the next seed into a file of their own, so the model is not
# trained on them. $RESUME is one flag or nothing.
diode --seed "$SEED" collect-and-train \
    --dataset train.msgpack.zst --validation-dataset validation.msgpack.zst --model matmul.safetensors \
    --num-shapes "$SHAPES" --validation-shapes "$VALIDATION" \
    --min-size "$MIN_SIZE" --max-size "$MAX_SIZE" --dtypes "$DTYPES" --operations mm addmm bmm \
    --search-space EXHAUSTIVE --backend "$BACKEND" --folds "$FOLDS" --force $RESUME

diode stats validation.msgpack.zst --top 3

# Configs to compare with: some blocks of the CPU backend, or your own list as MAX_AUTOTUNE_SOLUTION.
if [ -z "${MAX_AUTOTUNE_SOLUTION:-}" ]; then
    MAX_AUTOTUNE_SOLUTION=max_autotune.csv
    cat > "$MAX_AUTOTUNE_SOLUTION" <<'END'
name,grid,block_m,block_n,block_k,group_m,num_stages,num_warps
small,1,16,64,64,8,1,1
medium,1,64,64,64,8,1,1
large,1,128,128,128,8,1,1
END
fi
diode validate-max-autotune --model matmul.safetensors --dataset validation.msgpack.zst \
    --max-autotune-solution "$MAX_AUTOTUNE_SOLUTION" --output against_max_autotune.json
