# Runs the steps of .ci/run and .ci/nightly. Sourced by them, not run.
#
# A script defines `steps`, an array of "NAME: what it checks", and a function `step_NAME` for each name
# ('-' becomes '_'), and then calls `main "$@"`:
#
#   SCRIPT              every step
#   SCRIPT STEP...      these steps
#   SCRIPT --list       the names
#
# Each step is a process of its own that ends at its first failing command. The last lines are a table with the
# seconds of each step, and each distinct line "skipped: ..." that a step or one of its tests printed.
# Exit status: 0 all steps passed; 1 a step failed; 2 wrong use; 130 interrupted.

cd "$(dirname "$0")/.." || exit 1
root=$PWD

export CARGO_TERM_COLOR=never
# Each artefact is built once, so incremental data would not be used.
export CARGO_INCREMENTAL=0
# Line tables serve backtraces only; a panic message has its file and line without them.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_LOOM_DEBUG=0
# The steps name programs under target/.
unset CARGO_TARGET_DIR

have() { command -v "$1" >/dev/null 2>&1; }

# Prints an error and ends the script.
die() { # STATUS MESSAGE
  echo "${0##*/}: $2" >&2
  exit "$1"
}

# Reports that a part of a step cannot run on this machine.
skip() { echo "skipped: $*"; }

# As `skip`, for what continuous integration must not leave out: with CI=true it is a failure.
skip_unless_ci() {
  [[ ${CI:-} != true ]] || die 1 "$*"
  skip "$*"
}

# Installs a missing program with apt. Returns 1 if it is still missing.
need() { # PROGRAM PACKAGE...
  local program=$1
  shift
  have "$program" && return
  if have apt-get && [[ $(id -u) == 0 ]]; then
    apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null || true
  fi
  have "$program"
}

# Runs a command with a cfg for the crates of the workspace. Their dependencies are those of the other builds:
# RUSTFLAGS would build all of them again. Cargo distinguishes builds by the path of the wrapper. It also asks the
# wrapper for the cfgs that build scripts get as CARGO_CFG_*.
with_cfg() { # CFG COMMAND...
  local wrapper=$root/target/rustc-with/${1//[^[:alnum:]_]/-}
  mkdir -p "${wrapper%/*}"
  printf '#!/bin/sh\nexec "$@" --cfg %q -D warnings\n' "$1" >"$wrapper"
  chmod +x "$wrapper"
  RUSTC_WORKSPACE_WRAPPER=$wrapper "${@:2}"
}

# Runs cargo with clippy as the compiler of the workspace's packages, and denies warnings. Lints and tests share a build:
# `cargo clippy` checks all dependencies separately, and compiles SQLite's C code once more.
linted() { # COMMAND...
  RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ "$@"
}

# Fails unless `linted` refuses a program that clippy warns of: the variable CLIPPY_ARGS is not documented.
check_linted() {
  local probe=$root/target/linted-probe
  mkdir -p "$probe/src"
  printf '[workspace]\n[package]\nname = "probe"\nversion = "0.0.0"\nedition = "2024"\n' >"$probe/Cargo.toml"
  printf 'fn main() {\n    let n: i32 = 5;\n    let m = n.clone();\n    println!("{m}");\n}\n' >"$probe/src/main.rs"
  if (cd "$probe" && linted cargo build --offline) >"$probe/log" 2>&1 || ! grep -q clone_on_copy "$probe/log"; then
    cat "$probe/log"
    die 1 "clippy's warnings in the adapters are not denied"
  fi
}

# Runs cargo in an adapter's folder. The adapters share one target folder, for the library's crates below them.
adapter() { (cd "adapters/$1" && shift && CARGO_TARGET_DIR=$root/target/adapters cargo "$@"); } # NAME ARGUMENT...

# Runs the tests of models. models/.cargo/config.toml has the flags.
model() { (cd models && env -u RUSTFLAGS cargo test --profile loom --locked "$@"); } # ARGUMENT...

# Runs one step in this process.
run_step() { # NAME
  set -euo pipefail
  "step_${1//-/_}"
}

# Sets `cpu` to the seconds of CPU time of all ended steps. Not in a subshell, which would have times of its own.
read_cpu() {
  times >"$log.times"
  cpu=$(awk 'NR == 2 { gsub("s", ""); for (i = 1; i <= 2; i++) { split($i, t, "m"); s += t[1] * 60 + t[2] }
    printf "%d", s }' "$log.times")
}

# Prints the table of seconds, then what was skipped.
summary() {
  printf '\nseconds  of CPU  step\n'
  printf '%s\n' "${table[@]}"
  printf '%7d %7d  all, on %d processors; load %s\n' \
    "$SECONDS" "$cpu" "$(nproc)" "$(cut -d ' ' -f 1-3 /proc/loadavg)"
  if [[ -s $log ]]; then grep -ohE '(skipped: |check: [^:]+ skipped, ).*' "$log" | sort -u; fi
}

main() {
  local names=() step name status failed=()
  for step in "${steps[@]}"; do names+=("${step%%:*}"); done
  case ${1:-} in
    --list) printf '%s\n' "${steps[@]}"; exit ;;
    --step) run_step "$2"; exit ;;
  esac
  for name; do
    [[ " ${names[*]} " == *" $name "* ]] || die 2 "no such step: $name (--list prints the steps)"
  done
  (($#)) || set -- "${names[@]}"
  have cargo || die 1 "cargo is missing: install Rust with rustup"
  need cc gcc libc6-dev || die 1 "a C compiler is missing, which is needed to link"
  mkdir -p target && log=$(mktemp target/steps.XXXXXX) || die 1 "cannot write to target"
  trap 'rm -f "$log" "$log.times"' EXIT
  trap 'die 130 "interrupted in step $name"' INT TERM
  table=() cpu=0
  for name; do
    local begin=$SECONDS cpu_before=$cpu
    printf '\n== %s (after %d s)\n' "$name" "$SECONDS"
    status=0
    bash "$0" --step "$name" 2>&1 | tee -a "$log" || status=$?
    read_cpu
    table+=("$(printf '%7d %7d  %s' $((SECONDS - begin)) $((cpu - cpu_before)) "$name")")
    ((status == 0)) && continue
    table[-1]+=": failed"
    failed+=("$name")
    $keep_going || break
  done
  summary
  ((${#failed[@]} == 0)) || die 1 "failed: ${failed[*]}"
}

set -uo pipefail
# Whether the steps after a failed one run.
keep_going=false
