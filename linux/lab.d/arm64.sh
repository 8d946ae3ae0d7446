# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of the lab that builds for arm64, and runs it in QEMU. Sourced by `lab`.

# Two processors of QEMU's: the newest it knows, and one from before LSE.
arm64_cpus=(max cortex-a53)

arm64_suites=(migrate_entry_count migrate_entry_count_stress free_contig filemap_short_read
	filemap_short_read_stress page_ref page_ref_steps page_ref_stress page_ref_users)

# What user-mode Linux has not, and a test would leave out where it is missing.
arm64_cases=(moved_area_is_found entry_for_a_pmd_is_restored/copied-original-split
	part_of_an_entry_for_a_pmd_is_unmapped undone_migration_restores_entries_for_a_pmd
	poisoned_page_is_not_handed_out a_poisoned_page_is_not_touched
	a_folio_ends_where_it_ends a_poisoned_page_of_a_large_folio_is_not_touched)

# The kernel of the guests, with the options on that arm64 has.
arm64_kernel() {
	local dir=$out/qemu-arm64
	mkdir -p "$dir"
	{
		cat "$here/configs/arm64.config"
		option_of all | grep -vx CONFIG_FILEMAP_SHORT_READ=y
	} >"$dir/lab.config"
	build_kernel arm64 "$dir" Image
	! grep -q 'warning:' "$dir/build.log" || build_failed "qemu-arm64 has warnings" "$dir/build.log"
}

# arm64_boot CPU LOG SECONDS ARGS...: the serial console goes to LOG.
arm64_boot() {
	local cpu=$1 log=$2 limit=$3
	shift 3
	timeout --foreground -s KILL "$limit" qemu-system-aarch64 -machine virt \
		-accel tcg,thread=multi -cpu "$cpu" -smp 3 -m "${memory:-2G}" \
		-nodefaults -display none -serial stdio -no-reboot \
		-kernel "$out/qemu-arm64/arch/arm64/boot/Image" \
		-append "console=ttyAMA0 panic=-1 $*" </dev/null >"$log" 2>&1 || true
}

# arm64_guest CPU: all suites on one kind of processor. Emulated, so that it works is all
# that it shows; nor is an order of memory accesses weaker than the host's among that.
arm64_guest() {
	local cpu=$1 log=$out/arm64-$1.log one=$out/arm64-one.log suite case has_lse=no
	: >"$log"
	for suite in 'migrate_entry_count*' free_contig 'filemap_short_read*' 'page_ref*'; do
		say "arm64: $cpu, $suite"
		arm64_boot "$cpu" "$one" 1200 "${debugging[@]}" \
			"kunit.filter_glob=$suite" kunit_shutdown=reboot
		must_end "$one" 'reboot: Restarting system' 'the guest'
		cat "$one" >>"$log"
	done
	if grep -aq 'CPU features: detected: LSE atomic instructions' "$log"; then has_lse=yes; fi
	[[ $cpu == max && $has_lse == yes || $cpu != max && $has_lse == no ]] ||
		die "$cpu does not use the atomics that it should, see $log"
	grep -aq 'smp: Brought up 1 node, 3 CPUs' "$log" || die "the guest has not three processors, see $log"
	! grep -aqE 'a race needs two processors|allocation profiling is (not supported|disabled)|page_owner is disabled' "$log" ||
		die "the guest lacks what the tests want, see $log"
	python3 "$here/lab.d/ktap.py" results "$log" >"$out/arm64-$cpu.results" ||
		die "no case was run, see $log"
	for suite in "${arm64_suites[@]}"; do
		grep -q "^[a-z]* $suite " "$out/arm64-$cpu.results" || die "$suite was not run, see $log"
	done
	for case in "${arm64_cases[@]}"; do
		grep -qE "^(pass|fail) [a-z_]+ $case\$" "$out/arm64-$cpu.results" || die "$case was not run, see $log"
	done
	python3 "$here/lab.d/ktap.py" summary "$log"
}

# The operations as the compiler makes them, without what the tests' kernels have.
arm64_assembly() {
	local dir=$out/arm64
	mkdir -p "$dir"
	say "arm64: building mm, fs/dax and some drivers"
	printf 'CONFIG_%s=y\n' EXPERT PAGE_REF_FROZEN_BIT SHMEM TMPFS \
		MIGRATE_ENTRY_COUNT MIGRATE_ENTRY_COUNT_BENCH FREE_CONTIG_MODES FREE_CONTIG_BENCH MEMCG \
		BLOCK BLK_DEV BLK_DEV_RAM TRANSPARENT_HUGEPAGE HUGETLBFS MEMORY_FAILURE \
		MEMORY_HOTPLUG MEMORY_HOTREMOVE ZONE_DEVICE DAX FS_DAX CMA \
		COMPACTION MIGRATION KSM SPARSEMEM_VMEMMAP PAGE_REF_BENCH NILFS2_FS SWAP >"$dir/lab.config"
	configure arm64 "$out/src" "$dir"
	kbuild arm64 "$out/src" "$dir" mm/ fs/dax.o fs/nilfs2/ drivers/block/ >"$dir/build.log" 2>&1 ||
		build_failed "building for arm64 failed" "$dir/build.log"
	! grep -q 'warning:' "$dir/build.log" || build_failed "arm64 has warnings" "$dir/build.log"
	say "arm64: $(find "$dir/mm" "$dir/fs" "$dir/drivers" -name '*.o' | wc -l) objects, no warning"
	aarch64-linux-gnu-objdump -d --no-show-raw-insn "$dir/mm/page_ref_bench.o" |
		awk '/^[0-9a-f]+ </ { on = /<batch_/ } on' >"$out/arm64.s"
	say "arm64: tries and puts, as the benchmarks inline them, in $out/arm64.s"
}

arm64() {
	need_build
	need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu qemu-system-aarch64 qemu-system-arm
	prepare
	local cpu failed=()
	arm64_kernel
	for cpu in "${arm64_cpus[@]}"; do
		arm64_guest "$cpu" || failed+=("$cpu")
	done
	arm64_assembly
	((${#failed[@]} == 0)) || die "tests failed on ${failed[*]}, see $out/arm64-${failed[0]}.log"
	say "arm64: all passed on ${arm64_cpus[*]}"
}
