# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of the lab that takes its time: `lab deep`. Sourced by `lab`.

# The selftests that are about what the series changes, and hotplug's, under KASAN and lockdep,
# where everything takes several times as long. Without compaction_test, which locks four fifths of the memory
# that is free as it begins, and is killed if some of that is pulled out.
deep_selftests=('mem-on-off-test -r 10' cow gup_longterm 'gup_test -u -n 1' 'gup_test -u -n -1'
	'gup_test -a -n 1' 'gup_test -ct -F 0x1 0 19 0x1000' hugetlb-madvise hugetlb-mmap hugetlb-mremap hugetlb-shm
	hugetlb-soft-offline hugetlb_madv_vs_map ksm_functional_tests 'ksm_tests -M -p 10' 'ksm_tests -N -m 1'
	'ksm_tests -U' madv_populate memory-failure 'migration -t private_anon' 'migration -t shared_anon'
	'migration -t private_anon_thp' mlock-random-test mremap_dontunmap mremap_test process_madv rmap
	split_huge_page_test 'transhuge-stress -d 5' 'uffd-unit-tests -f minor' 'uffd-unit-tests -f move')

# Broken variants of the series that the random caller, or the kernel under it, has to notice: what
# is wrong with them is in a path that no suite has to call on purpose.
deep_mutants=(read-beyond-size read-unchecked entry-copies-uncounted)

# What is in the guests besides the selftests of mm. That of hotplug is a script.
deep_files() {
	local root=$out/guest seed=$1
	say "deep: building the random caller"
	gcc -O2 -Wall -Werror -static -isystem "$out/guest-headers/usr/include" -o "$root/selftests/random" "$here/lab.d/random.c"
	cp "$(command -v busybox)" "$root/selftests/busybox"
	{
		printf '#!/selftests/busybox sh\nUID=0\n'
		tail -n +2 "$out/src/tools/testing/selftests/memory-hotplug/mem-on-off-test.sh"
	} >"$root/selftests/mem-on-off-test"
	chmod +x "$root/selftests/mem-on-off-test"
	{
		printf './%s\n' "${deep_selftests[@]}"
		echo "./random $seed $deep_seconds 6 calm"
		echo "./random $((seed + 1)) $deep_seconds 6 faults"
	} >"$root/selftests.list"
}

# deep_boot VARIANT LOG SECONDS INITRD ARGUMENT...: with memory that is plugged in and out while it runs, from
# the line on that plug_after says, if it does.
plug_after=
deep_boot() {
	local variant=$1 log=$2 limit=$3 initrd=$4 plug failed=0
	# shellcheck disable=SC2034 # of guest_boot
	local memory=3G,maxmem=5G
	shift 4
	rm -f "$out/deep.qmp"
	(guest_boot "$variant" "$log" "$limit" -initrd "$initrd" \
		-object memory-backend-ram,id=pluggable,size=1G \
		-device virtio-mem-pci,id=plug,memdev=pluggable,requested-size=0 \
		-qmp "unix:$out/deep.qmp,server=on,wait=off" \
		-append "console=ttyS0 quiet numa=fake=2 movablecore=1G memhp_default_state=online_movable reboot=t panic=-1 brd.rd_size=65536 log_buf_len=4M kunit.enable=0 lab_seconds=$((deep_seconds + 200)) $*") &
	guests+=($!)
	python3 "$here/lab.d/hotplug.py" "$out/deep.qmp" ${plug_after:+"$log" "$plug_after"} >"$log.plug" 2>&1 &
	plug=$!
	wait "${guests[-1]}" || failed=1
	wait "$plug" || failed=1
	sed 's/^/        /' "$log.plug"
	return "$failed"
}

# The suites of the series, and what the kernel says meanwhile.
deep_suites() {
	local variant=$1 log=$out/$1-suites.log
	say "deep: the suites, $variant"
	(guest_boot "$variant" "$log" 2400 \
		-append "console=ttyS0 numa=fake=2 reboot=t panic=-1 hugepages=16 page_owner=on kunit_shutdown=reboot") || true
	must_end "$log" 'reboot: Restarting system' 'the guest'
	python3 "$here/lab.d/ktap.py" results "$log" >"$out/$variant-suites.results" || return 1
	python3 "$here/lab.d/ktap.py" summary "$log"
}

deep_guest() {
	local variant=$1 log=$out/$1.log failed=0
	say "deep: the selftests and the random caller, $variant"
	# The selftest of hotplug wants blocks that nobody else takes offline meanwhile; cow, huge pages that can move.
	plug_after='SELFTEST cow' deep_boot "$variant" "$log" 5400 "$out/guest.cpio" "lab_engine=$variant" || failed=1
	python3 "$here/lab.d/ktap.py" deep "$log" >"$out/$variant.results" || failed=1
	{ grep -aE '^(GUEST|MBIND|SWAPCACHE|SELFTEST|SAYS)' "$log" || tail -n 15 "$log"; } | sed 's/^/        /'
	return "$failed"
}

# deep_random LOG: the random caller alone; what it found is in there.
deep_random() {
	deep_boot deep-all "$1" 1200 "$out/deep-mutant.cpio" lab_no_moves=1 oops=panic page_poison=1 || true
}

# The random caller in kernels that are broken on purpose.
deep_broken() {
	local mutate=$here/lab.d/mutate.py dir=$out/qemu-deep-all name log survived=0 names=() one list
	list=$(python3 "$mutate" list-in-place)
	for name in $list; do
		for one in "${deep_mutants[@]}"; do
			# shellcheck disable=SC2053 # a pattern is meant
			if [[ $only == '*' && $name == "$one" ]] || [[ $only != '*' && $name == $only ]]; then
				names+=("$name")
				break
			fi
		done
	done
	((${#names[@]})) || die "no mutant is called $only: python3 $mutate list"
	echo "./random $deep_seed $deep_seconds 6 calm" >"$out/guest/selftests.list"
	guest_pack "$out/deep-mutant.cpio"
	# What is noticed is the mutant's fault, then. Without --only it has just passed.
	if [[ $only != '*' ]]; then
		say "deep: the whole kernel"
		deep_random "$out/deep-whole.log"
		python3 "$here/lab.d/ktap.py" whole "$out/deep-whole.log" ||
			die "the whole kernel does not pass, see $out/deep-whole.log"
	fi
	break_sources "$dir"
	trap 'make_whole; kill "${guests[@]}" 2>/dev/null || true' EXIT
	for name in "${names[@]}"; do
		log=$out/deep-$name.log
		python3 "$mutate" apply "$name" "$out/src" "$out/mutants/header.h" >/dev/null
		kbuild x86_64 "$out/src" "$dir" bzImage >"$dir/mutant.log" 2>&1 || build_failed "$name does not build" "$dir/mutant.log"
		say "deep: mutant $name"
		deep_random "$log"
		python3 "$here/lab.d/ktap.py" noticed "$log" || survived=$((survived + 1))
		make_whole
	done
	mend_sources
	((survived == 0)) || die "mutants that survived the random caller: $survived"
	say "deep: all ${#names[@]} mutants were noticed"
}

# Everything that takes long: see the usage.
deep() {
	need_guest
	need_static_libraries
	need busybox busybox-static python3 python3
	prepare
	local variant failed=0
	# The first is no program to build.
	# shellcheck disable=SC2034 # of guest_files
	local selftests=("${deep_selftests[@]:1}") slow_selftests=()
	trap 'kill "${guests[@]}" 2>/dev/null || true' EXIT
	guest_files
	deep_files "$deep_seed"
	guest_pack "$out/guest.cpio"
	for variant in deep-off deep-all; do
		guest_kernel "$variant" qemu hvo deep
		if [[ $only == '*' ]]; then
			deep_suites "$variant" || failed=1
			deep_guest "$variant" || failed=1
		fi
	done
	if [[ $only == '*' ]]; then
		python3 "$here/lab.d/ktap.py" compare "$out/deep-off-suites.results" "$out/deep-all-suites.results" || failed=1
		python3 "$here/lab.d/ktap.py" compare "$out/deep-off.results" "$out/deep-all.results" || failed=1
	fi
	((failed == 0)) || die "the guests failed, see $out/deep-*.log"
	deep_broken
	if [[ $only == '*' ]]; then
		hvo
		kcsan
	fi
	say "deep: done in $(((SECONDS - begin + 59) / 60)) minutes"
}
