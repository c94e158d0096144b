#!/bin/bash -eu
# Builds every harness for OSS-Fuzz, and puts its seeds, its dictionary and its options beside it.
#
# OSS-Fuzz sets SRC, OUT, WORK, CC and the flags of the sanitizer, and has Atheris, which belongs to its clang: the extra
# [fuzz] would put another in its place.

fuzz=$SRC/i2s-spec/fuzz

# The extensions are compiled with the flags of the sanitizer. The harnesses import pytest and Hypothesis.
pip3 install "$SRC/i2s-spec[gguf,testing]" pytest

# Rules, verbs and broken files are imported by name on demand, so PyInstaller would not find them.
hidden=()
while IFS= read -r module; do
  module=${module%.py}
  module=${module%/__init__}
  hidden+=("--hidden-import=${module//\//.}")
done < <(cd "$SRC/i2s-spec" && find i2s_spec -name '*.py' | sort)

# Outside the checkout, whose package has no extensions.
cd "$WORK"
for harness in "$fuzz"/fuzz_*.py; do
  target=$(basename -s .py "$harness")
  name=${target#fuzz_}
  compile_python_fuzzer "$harness" --collect-data=i2s_spec "${hidden[@]}"

  # Harnesses of GGUF files also get the seeds of the container.
  seeds=$WORK/seeds/$target
  mkdir -p "$seeds"
  for folder in corpus/container "corpus/$name" "regressions/$name"; do
    if [ -d "$fuzz/$folder" ]; then
      find "$fuzz/$folder" -maxdepth 1 -type f -exec cp {} "$seeds" \;
    fi
  done
  (cd "$seeds" && python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" ./*)

  words=$fuzz/dictionary/$name.dict
  if [ ! -f "$words" ]; then
    words=$fuzz/dictionary/gguf.dict
  fi
  cp "$words" "$OUT/$target.dict"

  printf '[libfuzzer]\nmax_len = 65536\ntimeout = 20\nrss_limit_mb = 2048\n' > "$OUT/$target.options"
done
