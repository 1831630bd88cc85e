#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The pages of `make html` in a browser: they are searched, have their pictures, and fit
# the width of a phone.  What it looks like is in tests/check-browser.d/*.png.
. "${srcdir:-.}/tests/support/check.sh"
out=$PWD/tests/check-browser.d

command -v mandoc >/dev/null || { skips 'pages in a browser' 'no mandoc'; report; }
command -v chromium >/dev/null ||
	{ skips 'pages in a browser' 'there is no chromium'; report; }

AWK=${AWK:-awk} sh "$dir/build-aux/html.sh" "$dir" docs/man "$out" >/dev/null &&
	cp "$dir/tests/browser.html" "$out" || exit 1

# browse PAGE OPTIONS...
browse()
{
	page=$1
	shift
	timeout 300 chromium --headless --no-sandbox --disable-gpu \
		--user-data-dir="$out/profile" --virtual-time-budget=100000000 \
		"$@" "file://$out/$page" 2>"$out/said"
}

# shot NAME PAGE OPTIONS...: why there is no picture of it.
shot()
{
	name=$1
	shift
	rm -f "$out/$name.png"
	browse "$@" --hide-scrollbars --screenshot="$out/$name.png" >/dev/null
	[ "$(wc -c <"$out/$name.png")" -gt 20000 ] ||
		{ echo 'no picture'; cat "$out/said"; }
}

browse browser.html --allow-file-access-from-files --dump-dom >"$out/seen"
grep -q '^<pre id="out">.*SEEN [1-9]\|^SEEN [1-9]' "$out/seen" ||
	{ cat "$out/said" >&2; exit 1; }
holds 'no page is wider than a phone' "$(sed 's/^<pre id="out">//' "$out/seen" |
	grep '^WIDE')"
holds 'each picture is shown' "$(sed 's/^<pre id="out">//' "$out/seen" |
	grep '^MISSING')"
for name in doca_mmap_create ibv_reg_mr uv_fs_read spdk_memory_domain_create; do
	holds "the search finds $name" "$(browse "index.html#$name" --dump-dom |
		grep -q '<li><a href="man/' || echo "nothing, of $name")"
done
holds 'README.png' "$(shot README README.html --window-size=1280,3000)"
holds 'phone.png' "$(shot phone man/weir_read.3.html --window-size=420,900)"
holds 'dark.png' "$(shot dark 'index.html#buf' --window-size=1000,900 \
	--blink-settings=preferredColorScheme=0)"
rm -rf "$out/profile" "$out/man"
report
