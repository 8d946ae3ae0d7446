# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The benchmarks of the first mails in the shapes that they have there: `lab mails`. Sourced by `lab`.

# Short reads: 16 threads, here on two processors; and a program that is built, here a part of the kernel.
mails_variants=(off lock-bit short-read)
mails_threads=16
# Sixteen threads on two processors take turns, tick by tick.
mails_round_ms=200

# What the guest's `make` begins with: a tree that is configured and has no objects.
mails_objects() {
	local dir=$out/mails/objects
	say "mails: configuring what is built in the guests"
	rm -rf "$dir"
	mkdir -p "$dir"
	{
		kbuild um "$tree" "$dir" CC=gcc HOSTCC=gcc KCONFIG_ALLCONFIG="$here/configs/base.config" allnoconfig &&
			kbuild um "$tree" "$dir" CC=gcc HOSTCC=gcc prepare
	} >"$out/mails/objects.log" 2>&1 || build_failed "the tree is not configured" "$out/mails/objects.log"
}

# mails_boot VARIANT WHAT ARGUMENT...: its lines, of which there is one at least.
mails_boot() {
	local variant=$1 what=$2 log=$out/mails/$1-$2.log memory=3G
	shift 2
	say "mails: boot $i of $boots, $variant, $what"
	boot "$out/bench-$variant" "$log" 1800 "$@"
	bench_lines "$log" >>"$out/mails/bench.jsonl"
}

# Every second round the other way round.
mails_round() {
	local variant variants=("${mails_variants[@]}") engine module=filemap_short_read_bench
	((i % 2)) || mapfile -t variants < <(printf '%s\n' "${mails_variants[@]}" | tac)
	for variant in "${variants[@]}"; do
		engine=${variant/#off/baseline}
		mails_boot "$variant" build "init=$here/lab.d/init-build" "lab_engine=$engine" \
			"lab_tree=$tree" "lab_objects=$out/mails/objects" lab_rounds=1
		[[ $variant == lock-bit ]] || mails_boot "$variant" threads "$module.run=1" "$module.rounds=$rounds" \
			"$module.threads=$mails_threads" "$module.seconds_ms=$mails_round_ms"
	done
}

# Migration: 5 MiB of a parent, which a thousand children have each written, from one node to the other. Emulated.
mails_migration() {
	local variant log root=$out/mails/guest
	# shellcheck disable=SC2034 # of guest_boot: the children's pages are all on one of the two nodes
	local memory=14G
	mkdir -p "$root"
	guest_init "$root"
	guest_pack "$out/mails/guest.cpio" "$root"
	for variant in off all; do
		guest_kernel "$variant" qemu
		log=$out/mails/migration-$variant.log
		say "mails: 5 MiB and 1000 children, $variant"
		(guest_boot "$variant" "$log" 3000 -initrd "$out/mails/guest.cpio" \
			-append "console=ttyS0 quiet numa=fake=2 reboot=t panic=-1 lab_engine=$variant lab_moves=mail") || true
		must_end "$log" '^GUEST done' 'the guest'
		grep -aq '^MBIND .*"pages":1280,"forked":1000,.*"bad":0}' "$log" ||
			{ tail -n 15 "$log" >&2; die "the pages did not move as they should, see $log"; }
		grep -aE '^MBIND' "$log" | sed 's/^/        /'
	done
}

mails() {
	need python3 python3
	need_realtime
	need_clean_tree
	prepare
	mkdir -p "$out/mails"
	local i variant
	for variant in "${mails_variants[@]}"; do build_one bench "$variant"; done
	mails_objects
	: >"$out/mails/bench.jsonl"
	for ((i = 1; i <= boots; i++)); do mails_round; done
	python3 "$here/lab.d/tables.py" some "$out/mails/bench.jsonl" | tee "$out/mails/bench.txt"
	if command -v qemu-system-x86_64 >/dev/null; then
		need_guest
		need cpio cpio
		mails_migration
	else
		say "mails: migration skipped, QEMU is missing (apt-get install qemu-system-x86)"
	fi
	say "mails: done in $(((SECONDS - begin + 59) / 60)) minutes"
}
