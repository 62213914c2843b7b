#!/usr/bin/env bash
# The paper's GPU figures on one GPU, in at most eight minutes, without downloads:
#   eval/gpu.sh [--out DIR] [any flag of `python -m eval gpu`]
#   eval/gpu.sh --device cpu --tiny     the same steps in seconds, anywhere
# What is finished is in the results folder at once; the same command goes on from there. PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

config=eval/gpu.yaml
flags=()
for flag in "$@"; do
  if [ "$flag" = --tiny ]; then
    config=eval/gpu-tiny.yaml
  else
    flags+=("$flag")
  fi
done

python=${PYTHON:-}
if [ -z "$python" ]; then
  if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi
fi

command=("$python" -m eval gpu --config "$config" ${flags[@]+"${flags[@]}"})
# The suite ends by itself; this is for a device that does not answer.
if command -v timeout >/dev/null; then
  exec timeout --signal=INT --kill-after=10 480 "${command[@]}"
fi
exec "${command[@]}"
