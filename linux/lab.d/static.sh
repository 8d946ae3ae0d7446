# shellcheck shell=bash disable=SC2154 # variables of lab
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of the lab that has tools read the series. Sourced by `lab`.
#
# A tool reads the files that the series is about, in the tree and with the series applied:
# what it says of both is 7.3's.

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
	{
		static_make "$arch" "$src" "$dir" KCONFIG_ALLCONFIG="$dir/lab.config" allnoconfig &&
			static_make "$arch" "$src" "$dir" prepare
	} >"$dir/build.log" 2>&1 || build_failed "configuring $(basename "$dir") failed" "$dir/build.log"
}

# static_make ARCH SRC DIR ARGS...
static_make() {
	local arch=$1 src=$2 dir=$3 cc=gcc
	shift 3
	if command -v ccache >/dev/null; then cc='ccache gcc'; fi
	PYTHONDONTWRITEBYTECODE=1 make -s -C "$src" ARCH="$arch" O="$dir" CC="$cc" HOSTCC="$cc" -j"$jobs" "$@"
}

# Every C file of the series is compiled with W=1, and so is what it was before.
static_warnings() {
	local name=without src dir objects log
	need_guest
	for src in "$tree" "$out/src"; do
		dir=$out/static/$name
		log=$out/static/w1-$name.log
		static_configure x86_64 "$src" "$dir" qemu static
		[[ $src == "$tree" ]] || need_config "$dir"
		mapfile -t objects < <(touched "$src" '*.c' | sed 's/\.c$/.o/')
		say "static: ${#objects[@]} objects with W=1, $name the series"
		(cd "$dir" && rm -f "${objects[@]}")
		static_make x86_64 "$src" "$dir" W=1 "${objects[@]}" >"$log" 2>&1 ||
			build_failed "building $name the series with W=1 failed" "$log"
		name=with
	done
	python3 "$here/lab.d/messages.py" new "$out/static/w1-without.log" "$tree" "$log" "$out/src" ||
		die "W=1 has something new to say, see $log"
	say "static: W=1 has nothing about the series"
}

# 32 bits, where the lock bit is all that there is of the series.
static_i386() {
	local dir=$out/static/i386
	static_configure i386 "$out/src" "$dir" i386
	need_config "$dir"
	say "static: building mm and nilfs2 for i386"
	static_make i386 "$out/src" "$dir" mm/ fs/nilfs2/ >"$dir/build.log" 2>&1 ||
		build_failed "building for i386 failed" "$dir/build.log"
	! grep -q 'warning:' "$dir/build.log" || build_failed "i386 has warnings" "$dir/build.log"
	say "static: $(find "$dir/mm" "$dir/fs" -name '*.o' | wc -l) objects for i386, no warning"
}

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
	command -v spatch >/dev/null ||
		{ say "static: coccinelle skipped, it is missing (apt-get install coccinelle)"; return; }
	local work=$out/static/coccinelle scripts=() saying failed file name src version requires
	version=$(spatch --version | awk 'NR == 1 { print $3 }')
	rm -rf "$work"
	for name in without with; do
		src=$tree
		[[ $name == without ]] || src=$out/src
		while read -r file; do
			mkdir -p "$work/$name/$(dirname "$file")"
			cp "$src/$file" "$work/$name/$file"
		done < <(touched "$src")
	done
	while read -r file; do
		requires=$(sed -nE 's,^// *Requires: *,,p' "$tree/$file")
		# A sum with the lock bit is what is meant: the word has a count below it.
		[[ $file != */orplus.cocci ]] || continue
		if grep -q 'virtual[[:space:]]*report' "$tree/$file" &&
			{ [[ -z $requires ]] || printf '%s\n' "$requires" "$version" | sort -CV; }; then
			scripts+=("$file")
		fi
	done < <(cd "$tree" && find scripts/coccinelle -name '*.cocci' | sort)
	say "static: ${#scripts[@]} scripts of coccinelle"
	coccinelle_on "$work/with" "$work/with.log" "${scripts[@]}"
	failed=$(grep -c '^FAILED' "$work/with.log" || true)
	grep '^FAILED' "$work/with.log" | sed 's/^/        /' || true
	((failed < ${#scripts[@]})) || die "coccinelle does not run, see $work/with.log"
	# Only those that had something to say are asked what they say without the series.
	mapfile -t saying < <(awk '/^SCRIPT / { script = $2 } /:[0-9]+/ { print script }' "$work/with.log" | sort -u)
	coccinelle_on "$work/without" "$work/without.log" "${saying[@]}"
	python3 "$here/lab.d/messages.py" new "$work/without.log" "$work/without" "$work/with.log" "$work/with" ||
		die "coccinelle has something new to say, see $work/with.log"
	say "static: coccinelle has nothing about the series ($failed of ${#scripts[@]} scripts did not run)"
}

# The parts of the kernel's documentation that have comments of the series in them.
static_html() {
	command -v sphinx-build >/dev/null ||
		{ say "static: htmldocs skipped, sphinx-build is missing (apt-get install python3-sphinx)"; return; }
	local name=without src log
	for src in "$tree" "$out/src"; do
		say "static: htmldocs, $name the series"
		log=$out/static/html-$name.log
		rm -rf "$out/static/html-$name"
		mkdir -p "$out/static/html-$name"
		PYTHONDONTWRITEBYTECODE=1 make -s -C "$src" O="$out/static/html-$name" SPHINXDIRS='mm core-api' \
			htmldocs >"$log" 2>&1 || build_failed "htmldocs failed" "$log"
		name=with
	done
	python3 "$here/lab.d/messages.py" new "$out/static/html-without.log" "$tree" "$log" "$out/src" ||
		die "htmldocs has something new to say, see $log"
	rm -rf "$out"/static/html-with{,out}
	say "static: htmldocs of mm and core-api has nothing about the series"
}

static() {
	need_build
	need_clean_tree
	prepare
	mkdir -p "$out/static"
	static_style
	check_docs "$out/src"
	static_warnings
	static_i386
	static_coccinelle
	static_html
	say "static: nothing new"
}
