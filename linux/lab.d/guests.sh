# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of the lab that runs guests in QEMU. Sourced by `lab`.

# The selftests of mm that need no module, no device and no network (map_populate has a
# socket), end by themselves, and do not depend on how fast the guest is (khugepaged -s;
# hugetlb_fault_after_madv spins for minutes), with the arguments that the kernel's run_vmtests.sh has for them.
selftests=(compaction_test cow droppable guard-regions gup_longterm
	'gup_test -u -n 1' 'gup_test -u -n -1' 'gup_test -a -n 1' 'gup_test -a -n -1' 'gup_test -ct -F 0x1 0 19 0x1000'
	hugetlb-madvise hugetlb-mmap hugetlb-mremap hugetlb-shm hugetlb-soft-offline
	hugetlb_madv_vs_map khugepaged 'khugepaged all:shmem'
	'khugepaged -c 4 mthp_khugepaged:anon' ksm_functional_tests 'ksm_tests -M -p 10'
	'ksm_tests -U' 'ksm_tests -Z -p 10 -z 0' 'ksm_tests -Z -p 10 -z 1' 'ksm_tests -N -m 1'
	'ksm_tests -N -m 0' madv_populate map_fixed_noreplace mdwe_test
	memfd_secret memory-failure merge 'migration -t private_anon' 'migration -t shared_anon'
	'migration -t private_anon_thp' mkdirty mlock-random-test mlock2-tests mrelease_test
	mremap_dontunmap mremap_test mseal_test pagemap_ioctl
	prctl_thp_disable process_madv rmap soft-dirty split_huge_page_test thuge-gen
	'transhuge-stress -d 5' 'uffd-stress anon 20 16' 'uffd-stress shmem 20 16'
	'uffd-stress shmem-private 20 16' 'uffd-unit-tests -f minor' 'uffd-unit-tests -f move'
	'uffd-unit-tests -f poison' 'uffd-unit-tests -f sigbus' uffd-wp-mremap)

# Those that take a minute and more when they are emulated. `all` leaves them out.
slow_selftests=(folio_split_race_test uffd-unit-tests)

# guest_kernel VARIANT CONFIG...: a kernel for QEMU in qemu-VARIANT
guest_kernel() {
	local variant=$1 dir=$out/qemu-$1 file like=off
	shift
	if [[ $variant == count-* ]]; then like=count-off; fi
	begin_as "$dir" "$out/qemu-$like"
	{
		for file in "$@"; do cat "$here/configs/$file.config"; done
		case $variant in
		*off) ;;
		count-*) option_of "${variant#count-}" ;;
		*) option_of all ;;
		esac
		# There is something to look for only with the options on.
		if [[ $variant == deep-all || $variant == hvo ]]; then echo CONFIG_MIGRATE_ENTRY_COUNT_DEBUG=y; fi
	} >"$dir/lab.config"
	build_kernel x86_64 "$dir" bzImage
}

# guest_selftest DIR NAME TO: builds one.
guest_selftest() {
	local name=$2 sources=("$2.c" vm_util.c hugepage_settings.c)
	[[ $name != uffd* ]] || sources+=(uffd-common.c)
	# From there, since one makes a file beside __FILE__.
	cd "$1" || return
	gcc -O2 -static -w -D_GNU_SOURCE= -I"$out/guest-headers" \
		-I"$out/src/tools/testing/selftests" -I"$out/src" -I"$out/src/tools/include" \
		-isystem "$out/guest-headers/usr/include" \
		-o "$3" "${sources[@]}" -lnuma -lcap -lpthread -lrt -lm
}

# The selftests, linked statically, with the guest's init program around them.
guest_files() {
	local root=$out/guest command name mm=$out/src/tools/testing/selftests/mm skipped=()
	local selftests=("${selftests[@]}" "${slow_selftests[@]}")
	rm -rf "$root"
	mkdir -p "$root/selftests" "$out/guest-headers"
	kbuild x86_64 "$out/src" "$out/guest-headers" \
		INSTALL_HDR_PATH="$out/guest-headers/usr" headers_install >/dev/null 2>&1 ||
		die "the kernel's headers cannot be installed"
	touch "$out/guest-headers/local_config.h_gen"
	say "qemu: building the selftests"
	for command in "${selftests[@]}"; do echo "./$command" >>"$root/selftests.list"; done
	# As many at a time as the kernels have jobs.
	for name in $(printf '%s\n' "${selftests[@]%% *}" | sort -u); do
		if (($(jobs -rp | wc -l) >= jobs)); then wait -n || true; fi
		guest_selftest "$mm" "$name" "$root/selftests/$name" >"$out/guest-$name.log" 2>&1 &
	done
	wait
	for name in "${selftests[@]%% *}"; do
		[[ -x $root/selftests/$name ]] || skipped+=("$name")
	done
	# The whole list is built, or the kernel's tree or this machine is not what it was.
	((${#skipped[@]} == 0)) || die "selftests that do not build: ${skipped[*]}, see $out/guest-NAME.log"
	guest_init "$root"
}

# guest_pack FILE [FOLDER]: what is in the guests.
guest_pack() { (cd "${2:-$out/guest}" && find . | cpio --quiet -o -H newc) >"$1"; }

# guest_init FOLDER: their init program.
guest_init() { gcc -O2 -Wall -Werror -static -o "$1/init" "$here/lab.d/guest.c"; }

# What the guests' kernels are built with, and run by.
need_guest() {
	need qemu-system-x86_64 qemu-system-x86 gcc gcc
	need_libelf
}

# What their programs are.
need_static_libraries() {
	need cpio cpio gcc gcc
	local library
	for library in numa cap; do
		echo 'int main(void) { return 0; }' |
			gcc -static -x c -o /dev/null - "-l$library" 2>/dev/null ||
			die "lib$library is missing: apt-get install lib$library-dev"
	done
}

# guest_boot VARIANT LOG SECONDS ARGS...: the serial console goes to LOG. Takes the place
# of the shell that it is called in.
guest_boot() {
	local variant=$1 log=$2 limit=$3
	shift 3
	# Without ACPI the kernel finds one processor in each socket. The selftest of migration
	# leaves two out. Pages are not cleared and copied by string instructions, which are
	# emulated byte by byte, and have four levels of tables.
	local cpus=${processors:-3}
	exec timeout --foreground -s KILL "$limit" qemu-system-x86_64 -accel "${accelerator:-tcg,thread=multi}" \
		-cpu max,erms=off,fsrm=off,la57=off -smp "$cpus,sockets=$cpus,cores=1,threads=1" \
		-m "${memory:-3G}" -nodefaults -display none -serial stdio -no-reboot \
		-kernel "$out/qemu-$variant/arch/x86/boot/bzImage" "$@" </dev/null >"$log" 2>&1
}

# guest_start VARIANT: runs the selftests beside what is done next. With the options on,
# ranges are freed merged, which is the form that 7.3 does not have. One guest at a time: a
# processor of it that waits for another spins, and two guests have more than there are.
guests=()
guest_start() {
	local mode=''
	((${#guests[@]} == 0)) || wait "${guests[-1]}" || true
	if [[ $1 == all ]]; then mode=free_contig=merged; fi
	say "qemu: running $1, in the background"
	guest_boot "$1" "$out/qemu-$1.log" 3600 -initrd "$out/guest.cpio" \
		-append "console=ttyS0 quiet numa=fake=2 reboot=t panic=-1 brd.rd_size=65536 log_buf_len=4M lab_engine=$1 lab_seconds=900 $mode" &
	guests+=($!)
}

# qemu [KERNEL CONFIG...]: emulated, so that it works is all that it shows: no time is
# evidence. Most selftests keep one processor busy, so the next kernel, another one at the
# end, is built meanwhile.
qemu() {
	need_guest
	need_static_libraries
	prepare
	guest_files
	guest_pack "$out/guest.cpio"
	local variant failed=0
	trap 'kill "${guests[@]}" 2>/dev/null || true' EXIT
	for variant in off all; do
		guest_kernel "$variant" qemu
		guest_start "$variant"
	done
	(($# == 0)) || guest_kernel "$@"
	wait "${guests[@]}" || true
	trap - EXIT
	for variant in off all; do
		say "qemu: results of $variant"
		python3 "$here/lab.d/ktap.py" guest "$out/qemu-$variant.log" >"$out/qemu-$variant.results" ||
			failed=1
		{ grep -aE '^(GUEST|MBIND|SWAPCACHE|SELFTEST)' "$out/qemu-$variant.log" ||
			tail -n 15 "$out/qemu-$variant.log"; } | sed 's/^/        /'
	done
	python3 "$here/lab.d/ktap.py" compare "$out/qemu-off.results" "$out/qemu-all.results" || failed=1
	((failed == 0)) || die "the guests failed, see $out/qemu-off.log and $out/qemu-all.log"
	say "qemu: no new failure with the options on"
}

# The stress tests of the series under the race detector.
kcsan() {
	need_guest
	prepare
	guest_kernel kcsan qemu kcsan
	local files glob log=$out/kcsan.log
	mapfile -t files < <(patched)
	python3 "$here/lab.d/touched.py" "$tree" "$out/src" "$out/qemu-kcsan" "${files[@]}" >"$out/kcsan.ours" ||
		die "no function of the series was found"
	: >"$log"
	for glob in 'migrate_entry_count*' free_contig 'filemap_short_read*' 'page_ref*'; do
		say "kcsan: running $glob"
		(guest_boot kcsan "$out/kcsan-one.log" 1200 \
			-append "console=ttyS0 reboot=t panic=-1 page_owner=on kunit.filter_glob=$glob kunit_shutdown=reboot") || true
		grep -aqE '^ {4,}ok ' "$out/kcsan-one.log" || die "$glob: no case has passed, see $out/kcsan-one.log"
		! grep -aq 'a race needs two processors' "$out/kcsan-one.log" ||
			die "the guest has one processor, see $out/kcsan-one.log"
		! grep -aqE 'allocation profiling is (not supported|disabled)|page_owner is disabled' "$out/kcsan-one.log" ||
			die "the guest has no allocation tags, or no page owners, see $out/kcsan-one.log"
		must_end "$out/kcsan-one.log" 'reboot: Restarting system' 'the guest'
		cat "$out/kcsan-one.log" >>"$log"
	done
	python3 "$here/lab.d/ktap.py" kcsan "$log" "$out/kcsan.ours" || die "kcsan failed"
	say "kcsan: no race in what the series changes"
}

# The suite of the users of the reference count where huge pages share the struct pages of their tails,
# with lockdep; and in the same kernel that of migration, with huge pages.
hvo() {
	need_guest
	need cpio cpio
	prepare
	guest_kernel hvo qemu hvo
	local suite case log failed=0 swap_case=saturated_page_of_the_swap_cache_is_found
	for suite in page_ref_users migrate_entry_count filemap_short_read; do
		log=$out/hvo-$suite.log
		say "hvo: running $suite"
		(guest_boot hvo "$log" 1200 \
			-append "console=ttyS0 reboot=t panic=-1 hugepages=16 kunit.filter_glob=$suite kunit_shutdown=reboot") || true
		must_end "$log" 'reboot: Restarting system' 'the guest'
		python3 "$here/lab.d/ktap.py" summary "$log" || failed=1
	done
	# With swap space, which a program gives the kernel. A case that was skipped once is not run again.
	say "hvo: running $swap_case"
	log=$out/hvo-swap.log
	mkdir -p "$out/hvo-guest"
	guest_init "$out/hvo-guest"
	guest_pack "$out/hvo-guest.cpio" "$out/hvo-guest"
	(guest_boot hvo "$log" 1200 -initrd "$out/hvo-guest.cpio" \
		-append "console=ttyS0 reboot=t panic=-1 brd.rd_size=65536 kunit.autorun=0 kunit.filter_glob=page_ref_users.$swap_case lab_suite=page_ref_users lab_no_moves=1") || true
	must_end "$log" '^GUEST done' 'the guest'
	python3 "$here/lab.d/ktap.py" summary "$log" || failed=1
	grep -aqE "^ {4,}(not )?ok [0-9]+ $swap_case.?\$" "$log" || die "$swap_case was not run, see $log"
	for case in late_step_of_a_put_meets_a_shared_tail failed_try_leaves_a_shared_tail_alone \
		folio_is_optimised_with_cpus_locked entry_for_a_pmd_is_restored copied-original-split \
		part_of_an_entry_for_a_pmd_is_unmapped undone_migration_restores_entries_for_a_pmd \
		a_folio_ends_where_it_ends a_poisoned_page_of_a_large_folio_is_not_touched; do
		cat "$out"/hvo-{page_ref_users,migrate_entry_count,filemap_short_read}.log |
			grep -aqE "^ {4,}(not )?ok [0-9]+ $case.?\$" || die "$case was not run, see $out/hvo-*.log"
	done
	((failed == 0)) || die "tests failed"
	say "hvo: all passed"
}

# mutants_in_guest NAME...: as in user-mode Linux, in the kernel of `hvo`.
mutants_in_guest() {
	local dir=$out/qemu-hvo work=$out/mutants name glob globs
	need_guest
	guest_kernel hvo qemu hvo
	globs=$(suites_of_mutants "$@")
	for glob in $globs; do
		say "mutants: the whole kernel in QEMU, $glob"
		mutant_in_guest "$work/whole.log" "$glob"
		python3 "$here/lab.d/ktap.py" summary "$work/whole.log" ||
			die "the whole kernel does not pass, see $work/whole.log"
	done
	break_sources "$dir"
	for name in "$@"; do
		glob=$(python3 "$here/lab.d/mutate.py" apply "$name" "$out/src" "$work/header.h")
		kbuild x86_64 "$out/src" "$dir" bzImage >"$dir/mutant.log" 2>&1 || build_failed "$name does not build" "$dir/mutant.log"
		say "mutant: $name"
		mutant_in_guest "$work/$name.log" "$glob"
		count_mutant "$name"
	done
	mend_sources
	guest_kernel hvo qemu hvo
}

# mutant_in_guest LOG SUITES
mutant_in_guest() {
	(guest_boot hvo "$1.whole" 300 \
		-append "console=ttyS0 reboot=t panic=-1 kunit.filter_glob=$2 kunit_shutdown=reboot") || true
	head -c 3000000 "$1.whole" >"$1"
	rm "$1.whole"
}
