#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The words that words.txt lists are found nowhere in the repository.
dir=${srcdir:-.}

# All files of the repository, or of the tarball but for those of the autotools.
files()
{
	git ls-files 2>/dev/null || find [a-z]* -type f ! -name '*.log' \
		! -name '*.trs' ! -path 'build/*' ! -path '_build/*' \
		! -path 'autom4te.cache/*' ! -name '*.in' ! -name '*.m4' \
		! -name configure ! -name ltmain.sh ! -name 'config.*' -print
}

# All their lines, and their names, as FILE:LINE:TEXT.
text=$(mktemp) || exit 1
trap 'rm -f "$text"' EXIT
cd "$dir" || exit 1
list=tests/words.txt
files | grep -vE '^(tests/words.txt|LICENSE|LICENSES/.*|programs/LICENSE|tests/fuzz/corpus/.*)$' |
	tr '\n' '\0' | xargs -0 grep -IHn '' >"$text"
files | sed 's/.*/&:0:&/' >>"$text"

n=0
bad=0
while IFS= read -r line; do
	case $line in
	'#'* | '' | except*) continue ;;
	esac
	word=${line%% :: *}
	n=$((n + 1))
	found=$(grep -iE "(^|[^a-z])($word)([^a-z]|\$)" "$text")
	exceptions=$(sed -n "/^except /s/^except //p" "$list")
	found=$(printf '%s\n' "$found" | while IFS= read -r hit; do
		[ "$hit" ] || continue
		printf '%s\n' "$exceptions" | (
			while IFS= read -r except; do
				# shellcheck disable=SC2254 # It is a pattern.
				case ${hit%%:*} in
				${except%% :: *}) ;;
				*) continue ;;
				esac
				! printf '%s\n' "${hit#*:*:}" |
					grep -qiE "${except##* :: }" || exit 0
			done
			exit 1) || printf '%s\n' "$hit"
	done)
	if [ -z "$found" ]; then
		echo "ok $n - '$word' is not used; the term is ${line##* :: }"
	else
		echo "not ok $n - '$word' is not used; the term is ${line##* :: }"
		printf '%s\n' "$found" | head -n 20 | sed 's/^/# /'
		bad=1
	fi
done <"$list"
echo "1..$n"
exit $bad
