#!/bin/bash
# Builds the packs of all lists. Meanwhile, `diode` measures with the packs that are ready, validation first.
#
#   lab/lists/measure.sh h100 FOLDER SECONDS
#
# FOLDER/spaces is the output of `spaces.py expand`. Timings go to FOLDER/out. A script that is started again goes on
# where it ended. These variables may be set: DIODE, PYTHON (with triton 3.6.0), LIBRARY (the folder of cuBLAS),
# PROCESSES, DEVICE (as for `diode collect`), ROLES, MODEL (the file of a model: only the TOP configs that it ranks best
# are timed, 8 if TOP is not set; the role `picks` needs it). With BUILD_FIRST, all packs are built before anything is
# measured, so that compilers do not disturb the measuring.
set -u
name=$1 folder=$2 end=$(($(date +%s) + $3))
diode=${DIODE:-diode} processes=${PROCESSES:-$(nproc)}
python=${PYTHON:+--python=$PYTHON} library=${LIBRARY:+--library=$LIBRARY} device=${DEVICE:+--device=$DEVICE}
roles=${ROLES:-validation train more further extra weakest short middle}
if [[ " $roles " = *" picks "* ]]; then : "${MODEL:?is not set; the role picks needs the file of a model, such as h200.safetensors}"; fi
packs="addmm-bf16-vector mm-bf16-nn bmm-bf16 baddbmm-bf16 mm-bf16-nt mm-fp16 mm-tf32 addmm-tf32-vector bmm-fp16 addmm-bf16-matrix mm-bf16-tn addmm-fp16-vector bmm-tf32"
# Some kernels of these packs take minutes to compile, so these packs are built beside the others.
slow="mm-fp32 addmm-fp32-vector bmm-fp32"
for list in mm-tf32-unaligned mm-tf32-unaligned-tn addmm-tf32-unaligned-vector; do
  packs="$packs $list.1 $list.256"
done
for list in mm-fp32-unaligned mm-fp32-unaligned-tn mm-bf16-unaligned mm-bf16-unaligned-nt mm-bf16-unaligned-tn mm-bf16-unaligned-sums addmm-bf16-unaligned-vector addmm-bf16-unaligned-matrix mm-fp16-unaligned; do
  slow="$slow $list.1 $list.256"
done
for power in 1 64 128; do slow="$slow bmm-bf16-unaligned.$power bmm-fp16-unaligned.$power"; done
mkdir -p "$folder/packs" "$folder/out"
spaces=$folder/spaces
# Lists that were not expanded have no problems to measure, so they are left out.
expanded() {
  local pack
  for pack in "$@"; do
    [ -e "$spaces/$pack.pack.problems.json" ] && echo "$pack"
  done
}
packs=$(expanded $packs) slow=$(expanded $slow)

left() { echo $((end - $(date +%s))); }

build() { # PROCESSES PACK…
  local processes=$1 pack
  shift
  for pack in "$@"; do
    local out=$folder/packs/$pack.pack what=(--problems "$spaces/$pack.pack.problems.json" --space "$spaces/$pack.pack.space.json")
    # The problems of this list are measured with the whole space.
    [ "$pack" = mm-bf16-nn ] && [[ " $roles " = *" validation "* ]] && what=(--ops mm --dtypes bfloat16 --layouts nn --space full)
    [ -e "$out" ] && continue
    nice -n 10 "$diode" kernels build --arch sm_90 "${what[@]}" --out "$out" --processes "$processes" $python > "$folder/packs/$pack.log" 2>&1
    echo "$(date +%T) $pack: $(tail -n 1 "$folder/packs/$pack.log")" >> "$folder/builds"
  done
}

collect() { # PACK ROLE: all powers of two of K, into one file
  local list=${1%.*} powers="full 256 128 64 32 16 1" power problems space chosen=${MODEL:+--model=$MODEL --top=${TOP:-8}}
  [ "$list" = "$1" ] || powers=${1##*.}
  for power in $powers; do
    problems=$spaces/$list.$2.$power.problems.json space=$spaces/$list.$2.$power.space.json
    [ -e "$problems" ] || continue
    [ "$power" = full ] && space=full
    [ "$(left)" -gt 3 ] || return
    echo "$(date +%T) $list $2 $power" >> "$folder/collections"
    "$diode" collect --output "$folder/out/$name-$list.$2.msgpack.zst" --resume --kernels "$folder/packs/$1.pack" --problems "$problems" \
      --space "$space" $chosen --budget "$(left)s" $library $device 2>&1 | tr '\r' '\n' | grep -v 'problems ·' >> "$folder/collections"
  done
}

build $((processes * 2 / 3)) $packs &
builders=$!
build $((processes - processes * 2 / 3)) $slow &
builders="$builders $!"
todo="$packs $slow"
[ -n "${BUILD_FIRST:-}" ] && wait $builders
while [ -n "$todo" ] && [ "$(left)" -gt 3 ]; do
  ready= later=
  for pack in $todo; do
    if [ -z "$ready" ] && [ -e "$folder/packs/$pack.pack" ]; then ready=$pack; else later="$later $pack"; fi
  done
  if [ -z "$ready" ]; then
    kill -0 $builders 2>/dev/null || break
    sleep 0.3
    continue
  fi
  for role in $roles; do collect "$ready" $role; done
  todo=$later
done
for builder in $builders; do pkill -INT -P "$builder"; done
echo "$(date +%T) end" >> "$folder/collections"
