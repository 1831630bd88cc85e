#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# base <- reactor <- mem <- dma: a directory includes only what is to its left,
# and includes it as "layer/file.h" or <weir/x.h>.  Programs, examples and tools
# see public headers only.  And each test has a name of its own.
dir=${srcdir:-.}
n=0
bad=0

# found WHAT TEXT: WHAT holds if TEXT, the lines that break it, is empty.
found()
{
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		echo "$2" | sed 's/^/# /'
		bad=1
	fi
}

quoted() { grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" 2>/dev/null; }

below=
for layer in base reactor mem dma; do
	below="$below${below:+|}$layer"
	found "$layer/ includes only $(echo "$below" | tr '|' ' ')" \
		"$(quoted /dev/null "$dir/$layer"/*.[ch] "$dir/$layer"/*/*.[ch] |
		   grep -vE "\"(config\.h\"|($below)/)")"
done

found 'public headers include no internal ones' \
	"$(quoted /dev/null "$dir"/include/weir/*.h)"
# Theirs may include each other.
found 'examples include no internal headers' \
	"$(quoted /dev/null "$dir"/examples/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|tests)/)')"

found 'programs include no internal headers' \
	"$(quoted /dev/null "$dir"/programs/*/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|tests)/)')"

found 'tools include no internal headers' \
	"$(quoted /dev/null "$dir"/tools/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|tests)/)')"

# A header of a higher layer is out of reach too, even if it is public.
found 'reactor/ does not know the headers of mem and dma' \
	"$(grep -nE '^#include <weir/(device|domain|mmap|inventory|buf|pool|segment|engine|job|chain|pipeline|route)\.h>' \
		/dev/null "$dir"/base/*.[ch] "$dir"/reactor/*.[ch] "$dir"/reactor/*/*.[ch] 2>/dev/null)"

# automake would make one log of both, and run one of them.
found 'no script has the name of a test program' \
	"$(for script in "$dir"/tests/test-*.sh; do
		ls "${script%.sh}.c" 2>/dev/null
	done)"
echo "1..$n"
exit $bad
