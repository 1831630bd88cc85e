#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# base <- reactor <- mem <- dma <- accel, sim: a directory includes only what is to
# its left, and includes it as "layer/file.h" or <weir/x.h>.  The core, which is
# the first four, names nothing of the others.  Programs, examples and tools see
# public headers only.  And each test has a name of its own.
. "${srcdir:-.}/tests/support/check.sh"

quoted() { grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" 2>/dev/null; }

below=
for layer in base reactor mem dma; do
	below="$below${below:+|}$layer"
	holds "$layer/ includes only $(echo "$below" | tr '|' ' ')" \
		"$(quoted /dev/null "$dir/$layer"/*.[ch] "$dir/$layer"/*/*.[ch] |
		   grep -vE "\"(config\.h\"|($below)/)")"
done

# A provider needs nothing that is not public.
holds 'fabric/ includes only fabric' \
	"$(quoted /dev/null "$dir"/fabric/*.[ch] | grep -vE '"fabric/')"
holds 'nvme/ includes only nvme' \
	"$(quoted /dev/null "$dir"/nvme/*.[ch] | grep -vE '"nvme/')"
holds 'cuda/ includes only cuda' \
	"$(quoted /dev/null "$dir"/cuda/*.[ch] | grep -vE '"cuda/')"
holds 'resolve/ includes only base resolve' \
	"$(quoted /dev/null "$dir"/resolve/*.[ch] |
	   grep -vE '"(base|resolve)/')"
holds 'rdma/ includes only base rdma' \
	"$(quoted /dev/null "$dir"/rdma/*.[ch] | grep -vE '"(base|rdma)/')"
holds 'tls/ includes only base tls' \
	"$(quoted /dev/null "$dir"/tls/*.[ch] | grep -vE '"(base|tls)/')"
for layer in accel sim; do
	holds "$layer/ includes only $(echo "$below" | tr '|' ' ') $layer" \
		"$(quoted /dev/null "$dir/$layer"/*.[ch] |
		   grep -vE "\"(config\.h\"|($below|$layer)/)")"
done
holds 'the core includes no header of rdma-core, RDMA or simulated worlds' \
	"$(grep -nE '^#include <(infiniband|rdma|weir/(accel|cuda|fabric|nvme|rdma|resolve|sim|tls|conn|message|srq))' \
		/dev/null "$dir"/base/*.[ch] "$dir"/reactor/*.[ch] \
		"$dir"/reactor/*/*.[ch] "$dir"/mem/*.[ch] "$dir"/mem/*/*.[ch] \
		"$dir"/dma/*.[ch] "$dir"/dma/*/*.[ch])"
holds 'the core has no name of RDMA or simulated worlds' \
	"$(grep -nE '\<(cuda|sim|verbs|ibv|conn|srq)_[a-z]|->simulated' \
		/dev/null "$dir"/base/*.[ch] "$dir"/reactor/*.[ch] \
		"$dir"/reactor/*/*.[ch] "$dir"/mem/*.[ch] "$dir"/mem/*/*.[ch] \
		"$dir"/dma/*.[ch] "$dir"/dma/*/*.[ch])"
holds 'public headers of the core include none of the others' \
	"$(grep -nE '^#include <weir/(accel|cuda|fabric|nvme|rdma|resolve|sim|tls)/' "$dir"/include/weir/*.h)"

holds 'public headers include no internal ones' \
	"$(quoted /dev/null "$dir"/include/weir/*.h "$dir"/include/weir/*/*.h)"
# Theirs may include each other.
holds 'examples include no internal headers' \
	"$(quoted /dev/null "$dir"/examples/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|accel|cuda|fabric|nvme|rdma|resolve|sim|tls|tests)/)')"

holds 'programs include no internal headers' \
	"$(quoted /dev/null "$dir"/programs/*/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|accel|cuda|fabric|nvme|rdma|resolve|sim|tls|tests)/)')"

holds 'tools include no internal headers' \
	"$(quoted /dev/null "$dir"/tools/*.[ch] |
	   grep -E '"(config\.h"|(base|reactor|mem|dma|accel|cuda|fabric|nvme|rdma|resolve|sim|tls|tests)/)')"

# A header of a higher layer is out of reach too, even if it is public.
holds 'reactor/ does not know the headers of mem and dma' \
	"$(grep -nE '^#include <weir/(device|domain|mmap|inventory|buf|pool|segment|engine|job|chain|pipeline|route)\.h>' \
		/dev/null "$dir"/base/*.[ch] "$dir"/reactor/*.[ch] "$dir"/reactor/*/*.[ch] 2>/dev/null)"

# automake would make one log of both, and run one of them.
holds 'no script has the name of a test program' \
	"$(for script in "$dir"/tests/*/test-*.sh; do
		ls "${script%.sh}.c" 2>/dev/null
	done)"
report
