#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# html.sh SRCDIR MANDIR DIR
#
# All pages and texts as HTML, in DIR: texts where they are in the tree, man pages in
# DIR/man, and DIR/index.html, which searches them without a server.  MANDIR has the
# pages that are made from headers.  Needs mandoc.
# shellcheck disable=SC2012,SC2086 # A list of names without blanks.
set -eu
[ $# = 3 ] || {
	echo 'usage: html.sh SRCDIR MANDIR DIR' >&2
	exit 2
}
src=$(cd "$1" && pwd)
man=$(cd "$2" && pwd)
rm -rf "$3"
mkdir -p "$3/man"
dir=$(cd "$3" && pwd)
LC_ALL=C
export LC_ALL
: "${AWK:=awk}"

# page ROOT TITLE: the frame around standard input; ROOT leads to DIR.
page()
{
	cat <<end
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$2</title>
<link rel="stylesheet" href="$1style.css">
<nav><a href="$1index.html">search</a> <a href="$1README.html">weir</a>
<a href="$1docs/tutorial-start.html">start</a>
<a href="$1docs/porting.html">porting</a>
<a href="$1man/weir.7.html">weir(7)</a></nav>
<main>
end
	cat
	echo '</main>'
	echo '</html>'
}

# The way from the file $1 of the tree back to its root.
root_of() { echo "$1" | sed 's,[^/]*/,../,g; s,[^/]*$,,'; }

cp "$src/docs/html/style.css" "$src/docs/html/search.js" "$dir"
cd "$src"
texts=$(ls ./*.md ./*/README.md docs/*.md docs/internals/*.md docs/performance/*.md \
	programs/*/README.md tests/vm/README.md | sed 's,^\./,,')

echo 'const pages = [' >"$dir/index.js"
for text in $texts; do
	to=${text%.md}.html
	mkdir -p "$dir/$(dirname "$to")"
	title=$(sed -n 's/^# //p;T;q' "$text" | tr -d '`')
	$AWK -f build-aux/html.awk "$text" | page "$(root_of "$text")" "$title" \
		>"$dir/$to"
	$AWK -v index_of="$to" -f build-aux/html.awk "$text" >>"$dir/index.js"
done

# What they lead to: pictures as they are, and sources.
grep -oE '\]\([^)#: ]+' $texts | sed 's/\](//' | sort -u |
	while IFS=: read -r text link; do
		echo "$(dirname "$text")/$link"
	done | sed ':a;s,[^/.][^/]*/\.\./,,;ta;s,^\./,,;s,/\./,/,g' | sort -u |
	while read -r file; do
		[ -f "$file" ] || continue
		mkdir -p "$dir/$(dirname "$file")"
		case $file in
		*.md) ;;
		*.svg) cp "$file" "$dir/$file" ;;
		*.*)
			{
				printf '<pre><code>'
				sed 's/&/\&amp;/g; s/</\&lt;/g' "$file"
				echo '</code></pre>'
			} | page "$(root_of "$file")" "$file" >"$dir/$file.html"
			;;
		esac
	done

# Names of pages of weir become links.
cross='s,<b>\(weir[-_a-z0-9]*\)</b>(\([137]\)),<a href="\1.\2.html">\1</a>(\2),g'
# A page that only leads to another is found by its name.
for file in "$man"/weir_*.3 docs/man/*.[17]; do
	name=${file##*/}
	to=$(sed -n 's,^\.so man3/,,p;q' "$file")
	if [ -z "$to" ]; then
		mandoc -T html -O fragment "$file" | sed "$cross" |
			page ../ "$name" >"$dir/man/$name.html"
		to=$name
		what=$(sed -n '/^\.SH NAME/{n;s/.* \\- //;p;q}' "$file" |
			sed 's/\\-/-/g; s/\\[&fBIRP]*//g; s/"//g')
	else
		what="see ${to%.*}"
	fi
	printf '["%s(%s)", "man/%s.html", "%s"],\n' "${name%.*}" \
		"${name##*.}" "$to" "$what" >>"$dir/index.js"
done
echo '];' >>"$dir/index.js"

page '' 'weir: search' >"$dir/index.html" <<'end'
<h1>weir</h1>
<p>Functions, types, guides, and names of DOCA, SPDK, DPDK, verbs, libuv and liburing:</p>
<input type="search" id="search" autofocus placeholder="doca_mmap_create, timer, backpressure">
<ul id="found"></ul>
<p>Or read <a href="README.html">what weir is</a>, or
<a href="docs/tutorial-start.html">getting started</a>.</p>
<script src="index.js"></script>
<script src="search.js"></script>
end
