# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of the lab that has tools read the series. Sourced by `lab`.
#
# A tool reads the files that the series is about, in the tree and with the series applied:
# what it says of both is 7.3's.

# What was left out, since a tool is missing. skipped_without TOOL PACKAGE WHAT: is it?
left_out=()
skipped_without() {
	! command -v "$1" >/dev/null || return 1
	say "static: $3 skipped, $1 is missing (apt-get install $2)"
	left_out+=("$3")
}

# touched DIR [PATTERN]: the sources that the series is about, as far as DIR has them.
touched() {
	local file
	patched | while read -r file; do
		# shellcheck disable=SC2053 # a pattern is meant
		if [[ $file == ${2:-*.[ch]} && -f $1/$file ]]; then echo "$file"; fi
	done
}

# kernel_doc DIR LOG: what it says of files in DIR, whose names it reads. It ends with 0 whatever it says.
kernel_doc() {
	(cd "$1" && PYTHONDONTWRITEBYTECODE=1 xargs -d '\n' python3 "$tree/scripts/kernel-doc" -none -Wall) >"$2" 2>&1 ||
		{ tail -n 15 "$2" >&2; return 1; }
}

# check_docs SRC: kernel-doc, which is quick, so `check` has it.
check_docs() {
	local work dir name=without failed=''
	work=$(mktemp -d)
	# It has to say something where there is something to be said.
	printf '/**\n * f() - a parameter is not described\n */\nvoid f(int canary)\n{\n}\n' >"$work/canary.c"
	if ! kernel_doc "$work" "$work/log" <<<canary.c || ! grep -q 'canary.*not described' "$work/log"; then
		failed="kernel-doc does not notice a parameter that is not described"
	fi
	for dir in "$tree" "$1"; do
		[[ -n $failed ]] || touched "$dir" | kernel_doc "$dir" "$work/$name" || failed="kernel-doc does not run"
		name=with
	done
	[[ -n $failed ]] || python3 "$here/lab.d/messages.py" new "$work/without" "$tree" "$work/with" "$1" ||
		failed="kernel-doc has something new to say"
	rm -rf "$work"
	[[ -z $failed ]] || die "$failed"
	say "kernel-doc: nothing about the series"
}

static_style() {
	need perl perl
	local log=$out/static/checkpatch.log patch
	while read -r patch; do
		# By a relative name, which is what a message begins with.
		(cd "$tree" && perl scripts/checkpatch.pl --strict --terse --show-types --no-summary "$patch") || true
	done < <(series) >"$log" 2>&1
	python3 "$here/lab.d/messages.py" style "$log" "$here/lab.d/checkpatch.list" ||
		die "checkpatch says other things than lab.d/checkpatch.list has, see $log"
	say "static: checkpatch says what lab.d/checkpatch.list has"
}

# static_configure ARCH SRC DIR CONFIG...
static_configure() {
	local arch=$1 src=$2 dir=$3 file
	shift 3
	mkdir -p "$dir"
	for file in "$@"; do cat "$here/configs/$file.config"; done >"$dir/lab.config"
	if [[ $arch != i386 ]]; then option_of all "$src" >>"$dir/lab.config"; fi
	configure "$arch" "$src" "$dir"
	kbuild "$arch" "$src" "$dir" prepare >"$dir/build.log" 2>&1 ||
		build_failed "preparing $(basename "$dir") failed" "$dir/build.log"
}

# static_objects SRC: those of the C files of the series, as far as SRC has them.
static_objects() {
	mapfile -t objects < <(touched "$1" '*.c' | sed 's/\.c$/.o/')
	((${#objects[@]})) || die "the series is about no file of $1"
}

# static_new NAME: what that tool says with the series, and not without.
static_new() {
	python3 "$here/lab.d/messages.py" new "$out/static/$1-without.log" "$tree" "$out/static/$1-with.log" "$out/src" ||
		die "$1 has something new to say, see $out/static/$1-with.log"
	say "static: $1 has nothing about the series"
}

# Every C file of the series is compiled with W=1, and so is what it was before.
static_warnings() {
	local name=without src dir objects log
	need_libelf
	for src in "$tree" "$out/src"; do
		dir=$out/static/$name
		log=$out/static/W=1-$name.log
		static_configure x86_64 "$src" "$dir" qemu static
		[[ $src == "$tree" ]] || need_config "$dir"
		static_objects "$src"
		say "static: ${#objects[@]} objects with W=1, $name the series"
		(cd "$dir" && rm -f "${objects[@]}")
		kbuild x86_64 "$src" "$dir" W=1 "${objects[@]}" >"$log" 2>&1 ||
			build_failed "building $name the series with W=1 failed" "$log"
		name=with
	done
	static_new W=1
}

# And sparse reads them, of which Debian's knows no __typeof_unqual__(), nor that the length of a string is a
# constant, which every module's description wants. By the same command they are not compiled again.
static_sparse() {
	local name=without src objects log check="sparse -D__typeof_unqual__=__typeof__ '-D__builtin_strlen(s)=(sizeof(s)-1)'"
	! skipped_without sparse sparse sparse || return 0
	for src in "$tree" "$out/src"; do
		log=$out/static/sparse-$name.log
		static_objects "$src"
		say "static: sparse, $name the series"
		kbuild x86_64 "$src" "$out/static/$name" W=1 C=2 CHECK="$check -fmax-warnings=unlimited" "${objects[@]}" \
			>"$log" 2>&1 || build_failed "sparse failed" "$log"
		name=with
	done
	static_new sparse
}

# 32 bits, where the frozen bit is all that there is of the series.
static_i386() {
	local dir=$out/static/i386
	static_configure i386 "$out/src" "$dir" i386
	need_config "$dir"
	say "static: building mm and nilfs2 for i386"
	kbuild i386 "$out/src" "$dir" mm/ fs/nilfs2/ >"$dir/build.log" 2>&1 ||
		build_failed "building for i386 failed" "$dir/build.log"
	! grep -q 'warning:' "$dir/build.log" || build_failed "i386 has warnings" "$dir/build.log"
	say "static: $(find "$dir/mm" "$dir/fs" -name '*.o' | wc -l) objects for i386, no warning"
}

# The scripts that have OCaml in them.
coccinelle_ocaml=(scripts/coccinelle/api/check_bq27xxx_data.cocci scripts/coccinelle/null/badzero.cocci)

# coccinelle_on DIR LOG SCRIPT...: as the tree's scripts/coccicheck does it, but for the
# touched files alone.
coccinelle_on() {
	local dir=$1 log=$2 script words
	shift 2
	for script in "$@"; do
		echo "SCRIPT $script"
		mapfile -t words < <(sed -nE 's,^// *Options: *,,p' "$tree/$script" | tr -s ' ' '\n' | sed '/^$/d')
		timeout 300 spatch -D report --no-show-diff --very-quiet --cocci-file "$tree/$script" \
			"${words[@]}" --dir "$dir" -I "$out/src/include" -I "$out/src/include/uapi" \
			--jobs "$jobs" --chunksize 1 2>&1 ||
			echo "FAILED $script"
	done >"$log"
}

static_coccinelle() {
	! skipped_without spatch coccinelle coccinelle || return 0
	local work=$out/static/coccinelle scripts=() saying file name src version requires
	version=$(spatch --version | awk 'NR == 1 { print $3 }')
	rm -rf "$work"
	for name in without with; do
		src=$tree
		[[ $name == without ]] || src=$out/src
		touched "$src" | while read -r file; do
			mkdir -p "$work/$name/$(dirname "$file")"
			cp "$src/$file" "$work/$name/$file"
		done
	done
	while read -r file; do
		requires=$(sed -nE 's,^// *Requires: *,,p' "$tree/$file")
		# A sum with PAGEREF_FROZEN is what is meant: failed tries add to it.
		[[ $file != */orplus.cocci ]] || continue
		if grep -q 'virtual[[:space:]]*report' "$tree/$file" &&
			{ [[ -z $requires ]] || printf '%s\n' "$requires" "$version" | sort -CV; }; then
			scripts+=("$file")
		fi
	done < <(cd "$tree" && find scripts/coccinelle -name '*.cocci' | sort)
	((${#scripts[@]})) || die "$tree has no script of coccinelle's"
	say "static: ${#scripts[@]} scripts of coccinelle"
	coccinelle_on "$work/with" "$work/with.log" "${scripts[@]}"
	# Only those that had something to say are asked what they say without the series.
	mapfile -t saying < <(awk '/^SCRIPT / { script = $2; next }
		/:[0-9]+/ || tolower($0) ~ /warning|error/ { print script }' "$work/with.log" | sort -u)
	coccinelle_on "$work/without" "$work/without.log" "${saying[@]}"
	while read -r _ file; do
		[[ " ${coccinelle_ocaml[*]} " == *" $file "* ]] || die "$file of coccinelle does not run, see $work/with*.log"
		say "static: $file skipped, which wants a compiler of OCaml"
		left_out+=("$file")
	done < <(cat "$work/with.log" "$work/without.log" | grep '^FAILED' | sort -u)
	python3 "$here/lab.d/messages.py" new "$work/without.log" "$work/without" "$work/with.log" "$work/with" ||
		die "coccinelle has something new to say, see $work/with.log"
	say "static: coccinelle has nothing about the series"
}

# The parts of the kernel's documentation that have comments of the series in them.
static_html() {
	! skipped_without sphinx-build python3-sphinx htmldocs || return 0
	local name=without src log
	for src in "$tree" "$out/src"; do
		say "static: htmldocs, $name the series"
		log=$out/static/htmldocs-$name.log
		rm -rf "$out/static/html-$name"
		mkdir -p "$out/static/html-$name"
		PYTHONDONTWRITEBYTECODE=1 make -s -C "$src" O="$out/static/html-$name" SPHINXDIRS='mm core-api' \
			htmldocs >"$log" 2>&1 || build_failed "htmldocs failed" "$log"
		name=with
	done
	static_new htmldocs
	rm -rf "$out"/static/html-with{,out}
}

static() {
	need_build
	need_clean_tree
	prepare
	mkdir -p "$out/static"
	static_style
	check_docs "$out/src"
	static_warnings
	static_sparse
	static_i386
	static_coccinelle
	static_html
	local skipped=''
	((${#left_out[@]} == 0)) || printf -v skipped ', %s' "${left_out[@]}"
	say "static: nothing new${skipped/#,/; skipped:}"
}
