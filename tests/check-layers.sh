#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# base <- reactor <- mem <- dma <- rdma, sim: a directory includes only what is to
# its left, and includes it as "layer/file.h" or <weir/x.h>.  The core, which is
# the first four, names nothing of the others.  Programs, examples and tools see
# public headers only.  And each test has a name of its own.
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

for layer in rdma sim; do
	found "$layer/ includes only $(echo "$below" | tr '|' ' ') $layer" \
		"$(quoted /dev/null "$dir/$layer"/*.[ch] |
		   grep -vE "\"(config\.h\"|($below|$layer)/)")"
done
found 'the core includes no header of rdma-core, RDMA or simulated worlds' \
	"$(grep -nE '^#include <(infiniband|rdma|weir/(rdma|sim|conn|message|srq))' \
		/dev/null "$dir"/base/*.[ch] "$dir"/reactor/*.[ch] \
		"$dir"/reactor/*/*.[ch] "$dir"/mem/*.[ch] "$dir"/mem/*/*.[ch] \
		"$dir"/dma/*.[ch] "$dir"/dma/*/*.[ch])"
found 'the core has no name of RDMA or simulated worlds' \
	"$(grep -nE '\<(sim|verbs|ibv|conn|srq)_[a-z]|->simulated' \
		/dev/null "$dir"/base/*.[ch] "$dir"/reactor/*.[ch] \
		"$dir"/reactor/*/*.[ch] "$dir"/mem/*.[ch] "$dir"/mem/*/*.[ch] \
		"$dir"/dma/*.[ch] "$dir"/dma/*/*.[ch])"
found 'public headers of the core include none of the others' \
	"$(grep -nE '^#include <weir/(rdma|sim)/' "$dir"/include/weir/*.h)"

found 'public headers include no internal ones' \
	"$(quoted /dev/null "$dir"/include/weir/*.h "$dir"/include/weir/*/*.h)"
# Theirs may include each other.
found 'examples include no internal headers' \
	"$(quoted /dev/null "$dir"/examples/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|rdma|sim|tests)/)')"

found 'programs include no internal headers' \
	"$(quoted /dev/null "$dir"/programs/*/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|rdma|sim|tests)/)')"

found 'tools include no internal headers' \
	"$(quoted /dev/null "$dir"/tools/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|rdma|sim|tests)/)')"

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
