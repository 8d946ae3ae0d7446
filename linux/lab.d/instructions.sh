# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The benchmarks' instructions, counted: `lab instructions`. Sourced by `lab`.
#
# With -icount the clock of an emulated machine goes on by one nanosecond with each
# instruction, so what a benchmark takes for a time is a number of instructions. It is the
# same from run to run, and the kernel is a native one of x86-64: its barriers, its disabling
# of preemption. It says nothing of what an instruction costs, nor of a second processor.

instructions_boot() {
	local module=$1_bench variant=$2 log=$out/instructions/$1-$2.log what=''
	if [[ $1 == page_ref ]]; then what="$module.only=$only"; fi
	# shellcheck disable=SC2034 # of guest_boot
	local accelerator=tcg,thread=single processors=1
	say "instructions: $1, $2"
	(guest_boot "count-$variant" "$log" 3000 -icount shift=0,sleep=off \
		-append "console=ttyS0 quiet loglevel=7 tsc=reliable reboot=t panic=-1 $module.run=1 $module.seconds_ms=$round_ms $module.rounds=3 $what") || true
	bench_lines "$log" >>"$out/instructions.jsonl"
}

instructions_variant() { echo "$2"; }

instructions() {
	need python3 python3
	need_guest
	prepare
	mkdir -p "$out/instructions"
	local variant
	# The kernels of the chosen benchmarks; the others begin as a copy of the first, which is off.
	for variant in $(bench_round 1 instructions_variant | awk '!seen[$0]++'); do
		guest_kernel "count-$variant" qemu count
	done
	: >"$out/instructions.jsonl"
	bench_round 0 instructions_boot
	python3 "$here/lab.d/tables.py" instructions "$out/instructions.jsonl" | tee "$out/instructions.txt"
	say "instructions: table in $out/instructions.txt, raw lines in $out/instructions.jsonl"
}
