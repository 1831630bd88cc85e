#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The example that loads tensors, over the mock of the driver: what it loads is
# verified, and bad files are refused.  TAP.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
example=examples/40-safetensors
WEIR_CUDA_LIBRARY=$PWD/tests/.libs/mock-cuda.so
export WEIR_CUDA_LIBRARY
[ -e "$WEIR_CUDA_LIBRARY" ] || {
	echo '1..0 # SKIP there is no mock'
	exit 77
}
n=0
bad=0

result()
{
	n=$((n + 1))
	echo "$1 $n - $2"
	[ "$1" = ok ] || bad=1
}

# says STATUS TEXT TITLE ARGUMENT...
says()
{
	status=$1
	text=$2
	title=$3
	shift 3
	said=$("$example" "$@" 2>&1)
	if [ $? = "$status" ] && echo "$said" | grep -qF "$text"; then
		result ok "$title"
	else
		result 'not ok' "$title"
		echo "$said" | sed 's/^/# /'
	fi
}

# file NAME HEADER BYTES: its length is below 256.
file()
{
	printf "\\$(printf %o ${#2})\\0\\0\\0\\0\\0\\0\\0%s" "$2" >"$dir/$1"
	head -c "$3" /dev/zero >>"$dir/$1"
}

one='"dtype":"U8","shape":[9],"data_offsets"'
file good "{\"a\":{$one:[0,5]},\"b\":{$one:[5,9]}}" 9
file empty '{}' 0
file hole "{\"a\":{$one:[0,4]},\"b\":{$one:[5,9]}}" 9
file beyond "{\"a\":{$one:[0,10]}}" 9
file backwards "{\"a\":{$one:[9,0]}}" 9
file short "{\"a\":{$one:[0,9]}}" 8
file letters "{\"a\":{$one:[0,x]}}" 9
printf '\377\377\377\377\377\377\377\377{}' >"$dir/huge"
printf '\3\0' >"$dir/cut"

says 0 'in the memory of cuda0' 'a file of its own is loaded'
says 0 '2 tensors, 9 bytes, verified in the memory of cuda1' \
	'two tensors are loaded into the second GPU' "$dir/good" cuda1
says 1 'there is no device cuda9' 'a device that is not there is refused' \
	"$dir/good" cuda9
for name in hole beyond backwards short letters huge cut; do
	says 1 'no file of safetensors' "$name: is refused" "$dir/$name"
done
says 1 'No such file' 'a file that is not there is refused' "$dir/none"
WEIR_CUDA_LIBRARY=/nonexistent
says 0 'this process: no GPU' 'without a driver it is loaded all the same' "$dir/good"
echo "1..$n"
exit $bad
