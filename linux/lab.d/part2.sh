# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of the lab that concerns migration and contiguous frees. Sourced by `lab`.

# part2_bench_boot VARIANT DIR: the lines of the benchmarks of part 2. They need more
# memory, since a thousand children have their own pages and page tables, and boots
# of their own, so that those of part 1 stay what they were.
part2_bench_boot() {
	local variant=$1 dir=$2 what=(migrate_entry_count_bench.run=1)
	if [[ $variant == off ]]; then what+=(free_contig_bench.run=1); fi
	memory=2G boot "$dir" "$out/bench2-$variant.log" 900 "${what[@]}" \
		migrate_entry_count_bench.seconds_ms="$round_ms" \
		migrate_entry_count_bench.rounds="$rounds" \
		free_contig_bench.seconds_ms="$round_ms" free_contig_bench.rounds="$rounds"
	sed -n 's/.*PAGEWELL-BENCH \({.*}\).*/\1/p' "$out/bench2-$variant.log"
}

# What part 2 adds to the boots of a variant.
part2_bench() {
	case $1 in
	off | entry-count) part2_bench_boot "$@" ;;
	esac
}

# The selftests of mm that need no module, no device and no network (map_populate has a
# socket), end by themselves, and do not depend on how fast the guest is (khugepaged -s),
# with the arguments that the kernel's run_vmtests.sh has for them.
selftests=(compaction_test cow droppable folio_split_race_test guard-regions gup_longterm
	'gup_test -u -n 1' 'gup_test -u -n -1' 'gup_test -a -n 1' 'gup_test -a -n -1' 'gup_test -ct -F 0x1 0 19 0x1000'
	hugetlb-madvise hugetlb-mmap hugetlb-mremap hugetlb-shm hugetlb-soft-offline
	hugetlb_fault_after_madv hugetlb_madv_vs_map khugepaged 'khugepaged all:shmem'
	'khugepaged -c 4 mthp_khugepaged:anon' ksm_functional_tests 'ksm_tests -M -p 10'
	'ksm_tests -U' 'ksm_tests -Z -p 10 -z 0' 'ksm_tests -Z -p 10 -z 1' 'ksm_tests -N -m 1'
	'ksm_tests -N -m 0' madv_populate map_fixed_noreplace mdwe_test
	memfd_secret memory-failure merge migration mkdirty mlock-random-test mlock2-tests mrelease_test
	mremap_dontunmap mremap_test mseal_test pagemap_ioctl
	prctl_thp_disable process_madv rmap soft-dirty split_huge_page_test thuge-gen
	'transhuge-stress -d 20' 'uffd-stress anon 20 16' 'uffd-stress shmem 20 16'
	'uffd-stress shmem-private 20 16' uffd-unit-tests uffd-wp-mremap)

# guest_kernel VARIANT CONFIG...: a kernel for QEMU in qemu-VARIANT
guest_kernel() {
	local variant=$1 dir=$out/qemu-$1 file option cc=gcc
	shift
	mkdir -p "$dir"
	if command -v ccache >/dev/null; then cc='ccache gcc'; fi
	{
		for file in "$@"; do cat "$here/configs/$file.config"; done
		[[ $variant == off ]] || option_of all
	} >"$dir/lab.config"
	local make=(make -s -C "$out/src" ARCH=x86_64 O="$dir" CC="$cc" HOSTCC="$cc" -j"$jobs")
	if ! cmp -s "$dir/lab.config" "$dir/lab.config.used"; then
		"${make[@]}" KCONFIG_ALLCONFIG="$dir/lab.config" allnoconfig >"$dir/build.log" 2>&1 ||
			{ tail -n 20 "$dir/build.log" >&2; die "configuring qemu-$variant failed"; }
		cp "$dir/lab.config" "$dir/lab.config.used"
	fi
	say "qemu: building $variant"
	"${make[@]}" bzImage >"$dir/build.log" 2>&1 ||
		{ grep -m 20 -E 'error|Error' "$dir/build.log" >&2; die "building qemu-$variant failed, see $dir/build.log"; }
	[[ $variant == off ]] || for option in $(option_of all); do
		grep -qx "$option" "$dir/.config" || die "qemu-$variant: $option did not stick"
	done
}

# The selftests, linked statically, with the guest's init program around them.
guest_files() {
	local root=$out/guest command name mm=$out/src/tools/testing/selftests/mm skipped=()
	need_static_libraries
	rm -rf "$root"
	mkdir -p "$root/selftests" "$out/guest-headers"
	make -s -C "$out/src" ARCH=x86_64 O="$out/guest-headers" \
		INSTALL_HDR_PATH="$out/guest-headers/usr" headers_install >/dev/null 2>&1 ||
		die "the kernel's headers cannot be installed"
	touch "$out/guest-headers/local_config.h_gen"
	say "qemu: building the selftests"
	for command in "${selftests[@]}"; do
		name=${command%% *}
		if [[ ! -x $root/selftests/$name ]]; then
			local sources=("$name.c" vm_util.c hugepage_settings.c)
			[[ $name != uffd* ]] || sources+=(uffd-common.c)
			# From there, since one makes a file beside __FILE__.
			(cd "$mm" && gcc -O2 -static -w -D_GNU_SOURCE= -I"$out/guest-headers" \
				-I"$out/src/tools/testing/selftests" -I"$out/src" -I"$out/src/tools/include" \
				-isystem "$out/guest-headers/usr/include" \
				-o "$root/selftests/$name" "${sources[@]}" -lnuma -lcap -lpthread -lrt -lm) \
				>"$out/guest-$name.log" 2>&1 || { skipped+=("$name"); continue; }
		fi
		echo "./$command" >>"$root/selftests.list"
	done
	# The whole list is built, or the kernel's tree or this machine is not what it was.
	((${#skipped[@]} == 0)) || die "selftests that do not build: ${skipped[*]}, see $out/guest-NAME.log"
	gcc -O2 -Wall -Werror -static -o "$root/init" "$here/lab.d/guest.c"
	(cd "$root" && find . | cpio --quiet -o -H newc) >"$out/guest.cpio"
}

need_static_libraries() {
	local library
	for library in numa cap; do
		echo 'int main(void) { return 0; }' |
			gcc -static -x c -o /dev/null - "-l$library" 2>/dev/null ||
			die "lib$library is missing: apt-get install lib$library-dev"
	done
}

# guest_boot VARIANT LOG SECONDS ARGS...: the serial console goes to LOG
guest_boot() {
	local variant=$1 log=$2 limit=$3
	shift 3
	# Two sockets: without ACPI the kernel finds one processor in each.
	timeout -s KILL "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max \
		-smp 2,sockets=2,cores=1,threads=1 \
		-m "${memory:-3G}" -nodefaults -display none -serial stdio -no-reboot \
		-kernel "$out/qemu-$variant/arch/x86/boot/bzImage" "$@" </dev/null >"$log" 2>&1 || true
}

# Emulated, so that it works is all that it shows: no time is evidence. Most selftests
# keep one processor busy, so the two guests run beside each other.
qemu() {
	need qemu-system-x86_64 qemu-system-x86 cpio cpio gcc gcc
	prepare
	guest_files
	local variant failed=0
	for variant in off all; do guest_kernel "$variant" qemu; done
	say "qemu: running off and all"
	for variant in off all; do
		guest_boot "$variant" "$out/qemu-$variant.log" 3600 -initrd "$out/guest.cpio" \
			-append "console=ttyS0 quiet numa=fake=2 reboot=t panic=-1 brd.rd_size=65536 lab_engine=$variant lab_seconds=900" &
	done
	wait
	for variant in off all; do
		say "qemu: results of $variant"
		python3 "$here/lab.d/ktap.py" guest "$out/qemu-$variant.log" >"$out/qemu-$variant.results" ||
			failed=1
		grep -aE '^(GUEST|MBIND|SELFTEST)' "$out/qemu-$variant.log" | sed 's/^/        /'
	done
	python3 "$here/lab.d/ktap.py" compare "$out/qemu-off.results" "$out/qemu-all.results" || failed=1
	((failed == 0)) || die "the guests failed"
	say "qemu: no new failure with the options on"
}

# The stress tests of the series under the race detector.
kcsan() {
	need qemu-system-x86_64 qemu-system-x86
	prepare
	guest_kernel kcsan qemu kcsan
	local glob log=$out/kcsan.log
	: >"$log"
	for glob in 'migrate_entry_count*' free_contig 'filemap_short_read*' 'page_ref*'; do
		say "kcsan: running $glob"
		guest_boot kcsan "$out/kcsan-one.log" 1200 \
			-append "console=ttyS0 reboot=t panic=-1 kunit.filter_glob=$glob kunit_shutdown=reboot"
		! grep -aq 'a race needs two processors' "$out/kcsan-one.log" ||
			die "the guest has one processor, see $out/kcsan-one.log"
		grep -aq 'reboot: Restarting system' "$out/kcsan-one.log" ||
			{ tail -n 15 "$out/kcsan-one.log" >&2; die "the guest did not reach its end, see $out/kcsan-one.log"; }
		cat "$out/kcsan-one.log" >>"$log"
	done
	# The functions of the series' own files, but for the copies of inline ones.
	nm "$out"/qemu-kcsan/mm/{page_ref_lock_bit,filemap_short_read,free_contig,tests/*_kunit}.o |
		awk '$2 ~ /^[tT]$/ && $3 !~ /[.]/ { print $3 }' | sort -u >"$out/kcsan.ours"
	python3 "$here/lab.d/ktap.py" kcsan "$log" "$out/kcsan.ours" || die "kcsan failed"
	say "kcsan: no race in what the series changes"
}
