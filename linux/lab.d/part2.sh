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
