#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The static probes that docs/tracing.md lists are in the library, and no others; and
# the scripts for bpftrace use no others.
. "${srcdir:-.}/tests/support/check.sh"
lib=.libs/libweir.so

listed()
{
	sed -n 's/^| `weir:\([a-z_]*\)`.*/\1/p' "$dir/docs/tracing.md" | sort
}

found()
{
	readelf -n $lib | sed -n 's/^ *Name: \([a-z_]*\)$/\1/p' | sort -u
}

# Probes of the script $1 that are not among $2.
unknown()
{
	sed -n 's/^usdt:libweir\.so\.0:weir:\([a-z_]*\).*/\1/p' "$1" | sort -u |
		while read -r probe; do
			echo "$2" | grep -qx "$probe" || echo "$probe"
		done
	grep -q '^usdt:' "$1" || echo 'it has none'
}

# Arguments in the script $1 that its probes do not have, by docs/tracing.md.
without_argument()
{
	sed -n 's/^| `weir:\([a-z_]*\)` |.*| \(.*\) |$/\1,\2/p' \
		"$dir/docs/tracing.md" | ${AWK:-awk} -F, '
		FNR == NR { args[$1] = NF - 1; next }
		/^usdt:/ {
			probe = $0
			sub(/^usdt:[^:]*:weir:/, "", probe)
			sub(/[^a-z_].*/, "", probe)
		}
		/^(BEGIN|END|profile)/ { probe = "" }
		probe != "" {
			line = $0
			while (match(line, /arg[0-9]/)) {
				if (substr(line, RSTART + 3, 1) >= args[probe])
					print probe ": " substr(line, RSTART, 4)
				line = substr(line, RSTART + 4)
			}
		}' - "$1"
}

if ! grep -q '^#define HAVE_SDT 1' config.h; then
	skips 'probes are there' 'built without sys/sdt.h'
elif [ ! -e $lib ] || ! command -v readelf >/dev/null; then
	skips 'probes are there' 'no shared library, or no readelf'
else
	holds 'the library has the probes of docs/tracing.md' \
		"$([ "$(listed)" = "$(found)" ] || found)"
	for script in "$dir"/tools/bpftrace/*.bt; do
		holds "the probes of ${script##*/} are in the library" \
			"$(unknown "$script" "$(found)")"
	done
fi
for script in "$dir"/tools/bpftrace/*.bt; do
	holds "the probes of ${script##*/} have its arguments" \
		"$(without_argument "$script")"
done
report
