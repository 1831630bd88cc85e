#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The pages of `make html`: every link leads somewhere, every page and text is there,
# is closed, and is found by the index.
. "${srcdir:-.}/tests/support/check.sh"
out=$PWD/tests/check-html.d
trap 'rm -rf "$out"' EXIT

if ! command -v mandoc >/dev/null; then
	skips 'pages are made' 'no mandoc'
	report
fi
holds 'pages are made' \
	"$(AWK=${AWK:-awk} sh "$dir/build-aux/html.sh" "$dir" docs/man "$out" 2>&1)"
cd "$out" || exit 1

# Links that lead to no file, or to no place of it.
dead_links()
{
	find . -name '*.html' | sort | sed 's,^\./,,' | xargs grep -oE \
		' (id|href|src)="[^"]*"' /dev/null | ${AWK:-awk} -F'[:"]' '
		function norm(path,    n, part, i, out, depth) {
			n = split(path, part, "/")
			depth = 0
			for (i = 1; i <= n; i++)
				if (part[i] == "..")
					depth--
				else if (part[i] != "." && part[i] != "")
					out[++depth] = part[i]
			path = ""
			for (i = 1; i <= depth; i++)
				path = path (i > 1 ? "/" : "") out[i]
			return path
		}
		{
			file = $1
			value = substr($0, index($0, "=\"") + 2)
			sub(/"$/, "", value)
			if ($2 ~ / id=/) {
				place[file "#" value] = 1
			} else if (value !~ /^(https?|mailto):/) {
				at = index(value, "#")
				to = at ? substr(value, 1, at - 1) : value
				folder = file
				sub(/[^\/]*$/, "", folder)
				to = to == "" ? file : norm(folder to)
				links[++n] = file ": " value
				target[n] = to (at ? substr(value, at) : "")
			}
		}
		END {
			for (i = 1; i <= n; i++) {
				split(target[i], t, "#")
				if ((t[1] in known) == 0)
					known[t[1]] = (getline line <t[1]) > 0
				close(t[1])
				if (!known[t[1]] || (target[i] ~ /#/ &&
				    t[1] ~ /html$/ && !(target[i] in place)))
					print links[i]
			}
			if (n < 1000)
				print "only " n " links"
		}'
}

# Pages whose lists, tables and code do not end.
unclosed()
{
	find . -name '*.html' ! -path './man/*' | while read -r page; do
		for tag in ul ol li table pre code p b a h2; do
			open=$(grep -oE "<$tag( [^>]*)?>" "$page" | wc -l)
			close=$(grep -oF "</$tag>" "$page" | wc -l)
			[ "$open" = "$close" ] || echo "$page: $tag"
		done
	done
}

holds 'every link leads somewhere' "$(dead_links)"
holds 'every element ends' "$(unclosed)"
holds 'the index has every page, with its other names' "$(
	for what in '"weir_read(3)", "man/weir_read.3.html"' io_uring_prep_read \
		doca_mmap_create '"weir_reactor_opts(3)"' \
		'"Getting started", "docs/tutorial-start.html"'
	do
		grep -qF "$what" index.js || echo "$what"
	done)"
report
