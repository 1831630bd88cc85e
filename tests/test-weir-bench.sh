#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command `weir bench`: what it runs, what it makes of the lines that come
# back, and how it fails.  The programs are ours: what they say is known.
#
# Environment: WEIR is the program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/..}/tests/kit.sh"

weir=$(absolute "${WEIR:-tools/weir}")
enter test-weir-bench
mkdir bin
WEIR_BENCH_DIR=$dir/bin
export WEIR_BENCH_DIR

# What a program writes whose figures are MEDIAN, that and a bit more.
lines()
{
	cat <<-END
	{"peer":"other","version":"1.2"}
	{"bench":"nop","case":"a | b","variant":"weir","unit":"ns","median":$1,"min":$1,"max":$1.9,"n":5,"ratio_to":"other","ratio":0.5,"samples":[$1,$1.1,$1,$1.9,$1],"others_cpu":0,"loadavg":1}
	{"bench":"nop","case":"rate","variant":"weir","unit":"op/s","median":$1,"min":$1,"max":$1,"n":1,"samples":[$1],"others_cpu":0,"loadavg":1}
	{"bench":"nop","case":"wait","variant":"weir","unit":"ns","count":10,"mean":110,"stddev":30,"p50":100,"p90":100,"p99":200,"p99.9":200,"p99.99":200,"max":200,"values":[100,200],"counts":[9,1],"others_cpu":0,"loadavg":1}
	{"bench":"nop","goal":"fast","where":"a, weir","at_most":50,"figure":$1,"met":false}
	END
}

# A program that says so, notes its arguments, and shows a table.
cat >bin/bench-nop <<'END'
#!/bin/sh
echo "$@" >>asked
for file; do :; done
cat lines >>"$file"
echo 'a table'
END
chmod 755 bin/bench-nop
lines 100 >lines

bench()
{
	want=$1
	shift
	expect "$want" "$weir" bench "$@"
}

t_runs_what_is_named()
{
	rm -f asked
	bench 0 nop --depth 3 --quick
	shows 'a table'
	shows '^fast .*<= *50 *100 *NO'
	grep -q '^--depth 3 --quick --json ' asked || wrong "$(cat asked)"
	bench 0 -q nop
	[ ! -s out ] || wrong "shown: $(cat out)"
}

t_refuses_what_makes_no_sense()
{
	bench 2 nap
	says_only "no benchmark 'nap'"
	bench 2 buf --depth 3
	says_only 'no choice of --depth'
	bench 2 --cores 9 --size 3
	says_only 'no benchmark has all'
	bench 2 --compare only-one
	says_only 'two files'
	bench 2 --compare --worse much a b
	says_only 'not a percentage'
	bench 2 --from x nop
	says_only 'runs nothing'
	bench 2 --format gif nop
	says_only 'svg or png'
	bench 2 --nonsense
}

t_says_what_failed()
{
	bench 1 buf
	says_only 'there is no .*bench-buf; WEIR_BENCH_DIR'
	printf '#!/bin/sh\nkill -9 $$\n' >bin/bench-copy
	chmod 755 bin/bench-copy
	bench 1 copy
	says 'ended by signal 9'
	bench 1 --from none --csv -
	says_only 'cannot read none'
	bench 1 --output /dev/null/x nop
	says_only 'cannot write'
	[ -w /dev/full ] || return 0
	bench 1 --from kept --csv /dev/full
	says_only 'cannot write /dev/full'
}

t_keeps_a_result()
{
	bench 0 -q nop --output kept
	grep -q '^{"machine":".*"kernel":"Linux ' kept || wrong "$(cat kept)"
	bench 0 --json --from kept
	cmp -s out kept || wrong 'other lines'
}

t_writes_a_table_for_others()
{
	bench 0 --from kept --csv -
	[ "$(wc -l <out)" = 4 ] || wrong "$(cat out)"
	shows '^"nop","a | b","weir","ns",100,100,100.9,5,"other",0.5,,,,,$'
	shows '^"nop","wait","weir","ns",100,,200,10,"",,100,100,200,200,200$'
	awk -F, 'NR > 1 && NF != 15 { exit 1 }' out || wrong 'ragged'
}

t_writes_latencies_in_the_known_form()
{
	bench 0 --from kept -q --hdr hdr
	f=hdr/nop-wait-weir.hgrm
	[ "$(awk 'NR == 3 { print $1, $2, $3, $4 }' $f)" = \
		'0.100 0.900000000000 9 10.00' ] || wrong "$(cat $f)"
	grep -q '^#\[Max     = *0.200, Total count    = *10\]$' $f ||
		wrong "$(cat $f)"
}

t_writes_a_page()
{
	bench 0 --from kept -q --report page.md
	grep -q '^| other | 1.2 |$' page.md || wrong 'no version'
	grep -q '^0 of 1 are met' page.md || wrong 'no goals'
	grep -qF '| a \| b | weir | 100 ns |' page.md || wrong 'no figure'
	grep -q '^| wait | weir | 0.1 | 0.1 | 0.2 ' page.md || wrong 'no latency'
}

t_plots()
{
	if ! command -v gnuplot >/dev/null; then
		bench 1 --from kept -q --plot plots
		says_only 'gnuplot is not installed'
		return
	fi
	mkdir -p sub
	bench 0 --from kept -q --plot sub/plots --report sub/page.md
	[ ! -s err ] || wrong "gnuplot said: $(cat err)"
	grep -q '<svg' sub/plots/nop-ns.svg || wrong 'no plot'
	grep -q '<svg' sub/plots/nop-latency-wait.svg || wrong 'no curve'
	grep -qF '](plots/nop-ns.svg)' sub/page.md || wrong 'no link'
	bench 0 --from kept -q --plot sub/plots --format png
	[ -s sub/plots/nop-ns.png ] || wrong 'no PNG'
}

t_compares()
{
	bench 0 --compare kept kept
	shows 'no difference seen'
	shows '^0 better, 0 worse, 1 without .*, 1 of too few samples$'
	lines 150 >other
	bench 0 --compare kept other
	shows '1.500 \[.*WORSE'
	bench 1 --compare --worse 10 kept other
	says_only '1 figures are worse by more than 10 %'
	bench 0 --compare --worse 60 kept other
	bench 0 --compare other kept
	shows '^1 better, 0 worse'
}

# Nothing that a file holds may do more than be left out.
t_survives_a_bad_file()
{
	for odd in '' '{' '{"bench"' '{"n":1e999,"median":1}' '[1,2]' \
		'{"samples":[1,2}' '{"a":"\u0041"}' "$(printf '{"a":"\001')" \
		'{"counts":[1,2,3],"values":[1]}' '{}x' '{"goal":1}' \
		'{"machine":7}' '{"a":{"b":1}}' '{"n":5,"median":-0}'; do
		{
			cat kept
			echo "$odd"
		} >spoilt
		bench 0 --from spoilt --report - --csv - --hdr bad-hdr
	done
	head -c 700 kept >spoilt
	bench 0 --from spoilt --csv -
	head -c 100000 /dev/urandom >spoilt
	bench 1 --from spoilt --csv -
	says_only 'holds no figures'
}

run t_runs_what_is_named
run t_refuses_what_makes_no_sense
run t_keeps_a_result
run t_says_what_failed
run t_writes_a_table_for_others
run t_writes_latencies_in_the_known_form
run t_writes_a_page
run t_plots
run t_compares
run t_survives_a_bad_file
echo "1..$n"
exit $bad
