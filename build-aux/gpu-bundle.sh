#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# gpu-bundle.sh PROGRAM...: pack the tests and the benchmark of libweir-cuda, with
# libcmocka, into gpu-bundle.tar.gz, for a machine that has a GPU and no packages.
set -eu

dir=gpu-bundle
rm -rf $dir
mkdir $dir
for program; do
	if ldd "$program" | grep -qE 'lib(weir|uring|ev)'; then
		echo "gpu-bundle: $program needs libraries: configure as docs/cuda.md says" >&2
		exit 1
	fi
	cp "$program" $dir/
	ldd "$program" | sed -n 's/.*=> \(.*libcmocka[^ ]*\) .*/\1/p' |
		while read -r library; do cp -L "$library" $dir/; done
done
cat >$dir/run.sh <<'END'
#!/bin/sh
# Everything over the driver of this machine.
cd "$(dirname "$0")" || exit 1
LD_LIBRARY_PATH=$PWD WEIR_CUDA_LIBRARY=libcuda.so.1
export LD_LIBRARY_PATH WEIR_CUDA_LIBRARY
nvidia-smi --query-gpu=name,driver_version --format=csv
timeout 120 ./test-cuda-rules
timeout 300 ./test-cuda
timeout 300 ./test-cuda-page
timeout 300 ./test-cuda-share
timeout 300 ./test-conform-cuda
timeout 300 ./bench-cuda --reps 5 --dir /tmp
END
tar czf $dir.tar.gz $dir
rm -rf $dir
