#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command `weir bench`: what it runs, what it makes of the lines that come
# back, and how it fails.  The programs are ours: what they say is known.
#
# Environment: WEIR is the program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

weir=$(absolute "${WEIR:-tools/weir}")
top=$(absolute "${srcdir:-$(dirname "$0")/../..}")
readme=$top/bench/README.md
bench_cp=$(absolute "${BENCH_CP:-bench/bench-cp}")
enter test-weir-bench
mkdir bin
WEIR_BENCH_DIR=$dir/bin
export WEIR_BENCH_DIR

# What a program writes whose figures are MEDIAN, that and a bit more.
lines()
{
	cat <<-END
	{"peer":"other","version":"1.2"}
	{"missing":"third","package":"libthird-dev"}
	{"bench":"nop","case":"a | b","variant":"weir","unit":"ns","median":$1,"min":$1,"max":$1.9,"n":5,"ratio_to":"other","ratio":0.5,"samples":[$1,$1.1,$1,$1.9,$1],"others_cpu":0,"loadavg":1}
	{"bench":"nop","case":"a | b","variant":"other","unit":"ns","median":200,"min":200,"max":200,"n":1,"samples":[200],"others_cpu":0,"loadavg":1}
	{"bench":"nop","case":"rate","variant":"weir","unit":"op/s","median":$1,"min":$1,"max":$1,"n":1,"samples":[$1],"others_cpu":0,"loadavg":1}
	{"bench":"nop","case":"wait","variant":"weir","unit":"ns","count":10,"mean":110,"stddev":30,"p50":100,"p90":100,"p99":200,"p99.9":200,"p99.99":200,"max":200,"values":[100,200],"counts":[9,1],"others_cpu":0,"loadavg":1}
	{"bench":"nop","goal":"fast","where":"a, weir","at_most":50,"figure":$1,"met":false}
	END
}

# Program bench-$1 does $2.
program()
{
	printf '#!/bin/sh\n%s\n' "$2" >"bin/bench-$1"
	chmod 755 "bin/bench-$1"
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
	bench 0 nop --limit 2.5
	grep -q '^--limit=2.5 --json ' asked || wrong "$(cat asked)"
	bench 0 -q nop
	[ ! -s out ] || wrong "shown: $(cat out)"
}

t_refuses_what_makes_no_sense()
{
	bench 2 nap
	says_only "no benchmark 'nap'"
	bench 2 --nap
	says_only "^weir: bench: unrecognized option '--nap'"
	bench 2 buf --depth 3
	says_only 'no choice of --depth'
	bench 2 --cores 9 --size 3
	says_only 'no benchmark has all'
	bench 2 --compare only-one
	says_only 'two files'
	bench 2 --compare --worse much a b
	says_only 'not a percentage'
	bench 2 echo --depth 3 --cores 2 --size 4K
	says_only 'echo has no choice of --size'
	bench 2 --from x nop
	says_only 'runs nothing'
	bench 2 --from x --output y
	says_only 'omit --output'
	for page in - page .md page.svg; do
		bench 2 --report $page nop
		says_only "report $page: the name must end with .md"
	done
	bench 2 --resume nop
	says_only '--resume goes on with the file of --output'
	bench 2 --limit soon nop
	says_only 'not a number of seconds'
	for reps in x '' 0 -1 3x 100 1e3; do
		bench 2 nop --reps "$reps"
		says_only "reps $reps: not a number from 1 to 99"
	done
	bench 2 nop --noise loud
	says_only 'not a number of CPUs'
	bench 2 --nonsense
}

# As the programs themselves do.
t_programs_refuse_what_makes_no_sense()
{
	for reps in x 0 3x 100; do
		expect 2 "$bench_cp" --reps "$reps"
		says_only "reps $reps: not a number from 1 to 99"
	done
	expect 2 "$bench_cp" --limit soon
	says_only 'limit soon: not a number'
	expect 2 "$bench_cp" --noise x
	says_only 'noise x: not a number'
}

# A program that is to be measured is looked for beside weir; without it there
# is no result, and that is a failure.
t_finds_what_is_beside_weir()
{
	ln -sf "$bench_cp" bin/bench-cp
	mkdir -p beside
	expect 1 env PATH=/usr/bin:/bin "$weir" bench cp --quick
	says '^weir-cp is neither beside weir nor'
	printf '#!/bin/sh\n' >beside/weir-cp
	chmod 755 beside/weir-cp
	WEIR_BIN_DIR=$dir/beside "$bench_cp" --quick --only nothing >out 2>err ||
		wrong "not found in WEIR_BIN_DIR: $(cat err)"
	grep -qi nan out && wrong "shows nan: $(cat out)"
	program buf 'for f; do :; done; echo "$WEIR_BIN_DIR" >bin-dir
		sed s/nop/buf/ lines >>"$f"'
	bench 0 buf -q
	rm bin/bench-buf bin/bench-cp
	[ -x "$(cat bin-dir)/weir" ] || [ -x "$(cat bin-dir)/lt-weir" ] ||
		wrong "not the directory of weir: $(cat bin-dir)"
}

t_says_what_failed()
{
	bench 1 buf
	says_only 'bench-buf is not there; WEIR_BENCH_DIR'
	program copy 'kill -9 $$'
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

# Somebody who started us does not care about children; we do.
t_waits_where_children_are_ignored()
{
	env --ignore-signal=CHLD true 2>/dev/null || return 0
	expect 0 env --ignore-signal=CHLD "$weir" bench nop
	shows 'a table'
}

# It is the end of what it has started, too, and not of those after it.
t_ends_what_hangs()
{
	program copy 'sleep 100 & echo $! >child; wait'
	bench 1 copy nop --limit 0.1 --output hung --report page.md
	says_only 'bench-copy was ended after 1 s'
	shows '^fast '
	grep -q '^| copy | was ended after 1 s |$' page.md || wrong 'no row'
	[ "$(ps -o stat= -p "$(cat child)" | grep -c '^[^Z]')" = 0 ] ||
		wrong 'its child lives'
}

t_resumes()
{
	rm -f asked
	bench 1 copy nop --limit 0.1 --output hung --resume
	[ ! -f asked ] || wrong 'nop ran again'
	program copy true
	bench 0 copy nop --output hung --resume --report page.md
	[ ! -f asked ] || wrong 'nop ran again'
	grep -q 'was ended' page.md && wrong 'not measured'
	program copy 'exit 1'
	bench 0 copy nop --output hung --resume
	bench 1 copy nop --output hung
	bench 0 nop --output fresh --resume
	shows '^fast '
	bench 1 nop --output fresh --resume --reps 3
	says_only "begun with the options 'none', not '--reps 3'"
	sed 's/"weir":"[^"]*"/"weir":"0.0"/' fresh >old
	bench 1 nop --output old --resume
	says_only "is of weir '0.0'"
}

# In a git tree; a tarball has only the version.
t_says_of_which_commit_figures_are()
{
	commit=
	[ ! -e "$top/.git" ] ||
		commit=$(git -C "$top" describe --always --abbrev=12)
	version=$("$weir" --version | sed 's/^weir //')
	bench 0 nop --output of
	grep -q "\"weir\":\"$version${commit:+ ($commit\(-dirty\)*)}\"" of ||
		wrong "not of $version $commit"
}

# What is there of a program that failed, or was cut off with us, is measured
# again, and stands there once.
t_resumes_with_what_is_whole()
{
	program copy 'for f; do :; done; sed s/nop/copy/ lines >>"$f"; exit 1'
	bench 1 copy --output torn
	bench 1 --from torn --csv -
	says_only 'holds no figures'
	rm bin/bench-copy
	sed -i '$d' torn
	bench 0 --from torn --csv -
	program copy 'for f; do :; done; sed s/nop/copy/ lines >>"$f"'
	bench 0 copy --output torn --resume --csv table
	[ "$(grep -c '"rate"' torn)" = 2 ] || wrong 'no two runs'
	[ "$(grep -c '"copy"' table)" = 4 ] || wrong "doubled: $(cat table)"
	bench 0 copy --output torn --resume --report page.md
	grep -q '^0 of 1 goals are met' page.md || wrong 'a goal twice'
	cat kept kept >twice
	bench 0 --from twice --csv -
	[ "$(wc -l <out)" = 5 ] || wrong "$(cat out)"
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
	[ "$(wc -l <out)" = 5 ] || wrong "$(cat out)"
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
	figures=page/figures.md
	grep -q '^| other | 1.2 |$' $figures || wrong 'no version'
	grep -q '^0 of 1 goals are met' page.md || wrong 'no goals'
	grep -q '^- missed: \*\*fast\*\*: 100, not at most 50 (a, weir)$' page.md ||
		wrong 'not missed, or with a reason'
	grep -q '| \*\*no\*\* |' $figures || wrong 'not missed in the tables'
	grep -q '^| third | libthird-dev |$' page.md || wrong 'none missing'
	grep -q '^## Not measured' page.md && wrong 'not measured'
	grep -qF '| a \| b, ns | weir: 100 | other: 200, ratio 2 |  |' page.md ||
		wrong 'no case'
	grep -q '^Without figures: buf, ' page.md || wrong 'nothing left out'
	bench 0 --from kept -q --report page.md --reasons why.md
	grep -qF '(a, weir): [why](why.md#nop)' page.md || wrong 'no reason'
	grep -qF '| a \| b | weir | 100 ns |' $figures || wrong 'no figure'
	grep -q '^| wait | weir | 0.1 | 0.1 | 0.2 ' $figures || wrong 'no latency'
	grep -q '^| of which | .*may use .*quota ' $figures || wrong 'no quota'
	for link in $(sed -n 's/.*](\([a-z/.-]*\)[#)].*/\1/p' page.md |
			grep -v '^why'); do
		[ -s "$link" ] || wrong "a dead link: $link"
	done
	mkdir -p sub
	bench 0 --from kept -q --report "$dir/sub/inner.md"
	grep -qF '](inner/nop.svg)' sub/inner.md || wrong 'no way from there'
	[ -s sub/inner/nop.svg ] || wrong 'no picture there'
	grep -qF '](../inner.md)' sub/inner/figures.md || wrong 'no way back'
}

# Each program has a section, some of which begin with a number.
t_page_has_no_control_bytes()
{
	for name in $("$weir" bench --list | awk '{ print $1 }'); do
		sed "s/\"nop\"/\"$name\"/" lines
	done >all
	bench 0 --from all -q --report page.md
	grep -q '^256 MiB registered' page/figures.md || wrong 'no register'
	! LC_ALL=C grep -q '[[:cntrl:]]' page.md page/* ||
		wrong "$(LC_ALL=C grep '[[:cntrl:]]' page.md page/* | cat -v)"
}

# Nobody may take for measured, or for quiet, what was not.
t_says_what_the_figures_lack()
{
	program copy 'for f; do :; done
		echo "{\"bench\":\"copy\",\"note\":\"no device\"}" >>"$f"'
	sed 's/"loadavg":1/&,"n_noisy":3/' lines >noisy
	cat >>noisy <<-END
	{"bench":"nop","goal":"faster","where":"a, other","at_least":5,"figure":null,"met":null}
	{"bench":"nop","note":"one CPU only"}
	END
	program echo 'for f; do :; done; cat noisy >>"$f"'
	bench 0 copy echo --report page.md
	shows '^faster .* - *not measured$'
	cat page.md page/figures.md >both
	for row in '| copy | measured nothing\.  Note: no device\. |' \
		'| .*faster | at least 5 |  | not measured | a, other |' \
		'| a .* other | 200 ns | 200 .. 200 (of 1) |' \
		'0 of 2 goals are met, 1 are not measured\.' \
		'Medians of 5 .* disturbed 3 repetitions\.  Note: one CPU only\.'
	do
		grep -q "^$row" both || wrong "no $row in $(cat both)"
	done
}

# The figure of case $1 and variant $2 in echo: $3 ns, or in the unit $4.
took()
{
	printf '{"bench":"echo","case":"%s","variant":"%s","unit":"%s",' \
		"$1" "$2" "${4-ns}"
	printf '"median":%s,"min":%s,"max":%s,"n":5}\n' "$3" "$3" "$3"
}

# In echo, weir uring is what chooses nothing, liburing is bare, libuv is not.
t_draws_cases()
{
	{
		took one libuv 400
		took one liburing 200
		took one 'weir ev' 800
		took one 'weir uring' 100
		took one 'weir, two cores' 10
		took two libuv 10 op/s
		took two 'weir uring' 50 op/s
		took none 'weir uring' 50
		took zero 'weir uring' 0
		took zero libuv 0
		echo '{"bench":"echo","goal":"g","where":"one, weir ev / libuv","at_most":1,"figure":2,"met":false}'
		echo '{"bench":"echo","goal":"h","where":"one, libuv / weir uring","at_least":2,"figure":4,"met":true}'
	} >kinds
	bench 0 --from kinds -q --report drawn.md
	grep '<text' drawn/echo.svg | sed 's/<[^>]*>//g' | tail -n +11 >labels
	for bar in 'weir uring 2.00 100' 'liburing 1.00 200' 'libuv 0.50 400' \
		'weir ev 0.25 800' 'weir uring 5.00 50' 'libuv 1.00 10'; do
		printf '%s\n' "$bar"
	done >bars
	# shellcheck disable=SC2046 # Words.
	[ "$(echo $(grep -A 99 '^one, ns' labels | sed '/^[a-z]*, /d'))" = \
		"$(echo $(cat bars))" ] || wrong "$(cat labels)"
	[ "$(grep -c 'rect class="weir"' drawn/echo.svg)" = 4 ] || wrong 'weir'
	[ "$(grep -c 'rect class="bare"' drawn/echo.svg)" = 2 ] || wrong 'bare'
	[ "$(grep -c 'class="cut"' drawn/echo.svg)" = 1 ] || wrong 'none is cut'
	# Of an axis to 3: 0.25 * 2 and 2 / 2, and the key's.
	[ "$(sed -n 's/.*class="goal" d="M\([0-9]*\).*/\1/p' drawn/echo.svg |
		paste -s -d ' ')" = '625 373 281' ] ||
		wrong "goals: $(grep goal drawn/echo.svg)"
	grep -qF '| one, ns | weir uring: 100 | libuv: 400, ratio 4 | liburing: 200, ratio 2 |' \
		drawn.md || wrong 'no case'
	grep -q 'weir uring beside libuv; bare: liburing<' drawn/overview.svg ||
		wrong 'no row'
}

t_draws_latencies()
{
	for v in 'weir uring' 'weir ev' libuv; do
		printf '{"bench":"echo","case":"64 connections","variant":"%s",' "$v"
		echo '"unit":"ns","count":9,"p50":1e3,"p90":2e3,"p99":5e3,"p99.9":1e4,"p99.99":2e4,"max":3e4}'
	done >late.json
	took one weir 1 >>late.json
	bench 0 --from late.json -q --report late.md
	[ "$(grep -c '<polyline' late/echo-latency.svg)" = 2 ] || wrong 'no two'
	grep -qF '](late/echo-latency.svg)' late.md && wrong 'without a case'
	took one libuv 2 >>late.json
	bench 0 --from late.json -q --report late.md
	grep -qF '](late/echo-latency.svg)' late.md || wrong 'no link'
}

# What is wrong with the pictures in $1.
unfit()
{
	for svg in "$1"/*.svg; do
		sed -n '1s/.* width="\([0-9]*\)" height="\([0-9]*\)".*/\1 \2/p' \
			"$svg" | {
			read -r width height
			[ "${width:-901}" -le 900 ] && [ "$height" -le 700 ] ||
				echo "$svg: $width x $height"
		}
		grep -qE '[" ML,]-?(nan|inf)' "$svg" && echo "$svg: no number"
		[ "$(head -c 5 "$svg")" = '<svg ' ] &&
			[ "$(tail -n 1 "$svg")" = '</svg>' ] ||
			echo "$svg: cut off"
	done
}

# However many cases and variants there are.
t_pictures_are_small()
{
	for i in $(seq 30); do
		for v in weir $(seq 20); do
			took "case <$i>" "$v &" "$i"
		done
	done >many.json
	bench 0 --from many.json -q --report many.md
	grep -q 'case &#60;1&#62;, ns' many/echo.svg || wrong 'not escaped'
	[ -z "$(unfit many)" ] || wrong "$(unfit many)"
	for name in $("$weir" bench --list | awk '{ print $1 }'); do
		sed "s/\"nop\"/\"$name\"/" lines
	done >named.json
	bench 0 --from named.json -q --report named.md
	[ -z "$(unfit named)" ] || wrong "$(unfit named)"
}

# docs/performance.md, its pictures and its tables are those of the kept result.
t_page_of_the_source_is_current()
{
	mkdir -p made
	bench 0 --from "$top/docs/performance.json" -q \
		--reasons ../bench/README.md --report made/performance.md
	diff -r made/performance.md "$top/docs/performance.md" >differs &&
		diff -r made/performance "$top/docs/performance" >>differs ||
		wrong "make bench-docs: $(head -n 20 differs)"
	[ -z "$(unfit "$top/docs/performance")" ] ||
		wrong "$(unfit "$top/docs/performance")"
	for picture in made/performance/*.svg; do
		grep -qF "](performance/${picture##*/})" made/performance.md ||
			wrong "$picture is not shown"
	done
}

t_compares()
{
	bench 0 --compare kept kept
	shows 'no difference seen'
	shows '^0 better, 0 worse, 1 without .*, 2 not judged$'
	{
		lines 150
		grep '"ran"' kept | tail -n 1
	} >other
	bench 0 --compare kept other
	shows '1.500 \[.*WORSE'
	bench 1 --compare --worse 10 kept other
	says_only '1 figures are worse by more than 10 %'
	bench 0 --compare --worse 60 kept other
	bench 0 --compare other kept
	shows '^1 better, 0 worse'
	lines 0 >zero
	bench 0 --compare --worse 1 zero kept
	shows '^0 better, 0 worse, .* 3 not judged$'
}

# Both sides of a file in which weir takes $1 and its peer $2.
beside()
{
	for pair in "weir $1" "other $2"; do
		v=${pair#* }
		printf '{"bench":"nop","case":"c","variant":"%s","unit":"ns",' \
			"${pair% *}"
		[ "${pair% *}" = other ] || printf '"ratio_to":"other",'
		printf '"median":%s,"n":5,' "$v"
		printf '"samples":[%s,%s,%s,%s,%s]}\n' "$v" "$v" "$v" "$v" "$v"
	done
}

# What slows both down is the machine; what slows one down is not.
t_compares_beside_a_peer()
{
	beside 100 200 >before
	beside 120 240 >busy
	beside 100 150 >slower
	bench 0 --compare --worse 5 before busy
	shows '^nop .* weir  *0.5  *0.5 x other  *1.000 .*no difference seen$'
	shows '^nop .* other  *200  *240 ns .*not judged$'
	bench 1 --compare --worse 5 before slower
	shows '^nop .* weir  *0.5  *0.6667 x other  *1.333 .*WORSE$'
	grep other before | sed 's/other/weir run/' >ours
	sed 's/"ratio_to":"other"/"ratio_to":"weir run"/' before >>ours
	bench 0 --compare ours ours
	shows '^nop .* weir  *100  *100 ns '
}

# What is not there cannot be as good as it was.
t_compares_what_is_missing()
{
	grep -v '"rate"' kept >less
	bench 0 --compare kept less
	shows ', 1 in the first only$'
	bench 1 --compare --worse 5 kept less
	says_only '1 figures are in the first only; one is nop, rate, weir,'
	{
		cat kept
		echo '{"ran":"copy","ended":"ok","seconds":1}'
	} >added
	bench 1 --compare --worse 5 added kept
	says_only 'copy did not run to its end in the second'
	bench 0 --compare added kept
	bench 0 --compare --worse 5 kept added
}

# A hundred figures of five samples each, around $2 and within 10 % mostly; seed $1.
sample()
{
	awk -v x="$1" -v mid="$2" '
	function next_one(k, sum) {
		for (k = 0; k < 6; k++) {
			x = (x * 16807) % 2147483647
			sum += x / 2147483647
		}
		return mid * (1 + (sum - 3) / 15)
	}
	BEGIN {
		for (i = 0; i < 20; i++)
			next_one()
		for (i = 0; i < 100; i++) {
			list = ""
			for (k = 0; k < 5; k++)
				list = list (k ? "," : "") (v[k] = next_one())
			for (k = 0; k < 5; k++) {
				below = 0
				for (j = 0; j < 5; j++)
					below += v[j] < v[k]
				if (below == 2)
					median = v[k]
			}
			printf "{\"bench\":\"nop\",\"case\":\"%d\"," \
				"\"variant\":\"weir\",\"unit\":\"ns\"," \
				"\"median\":%g,\"n\":5,\"samples\":[%s]}\n",
				i, median, list
		}
	}'
}

# In how many lines $1 is within the bounds.
holds()
{
	sed -n 's/.*\[\([0-9.]*\) \.\. \([0-9.]*\)\].*/\1 \2/p' out |
		awk -v r="$1" '$1 <= r && r <= $2 { n++ } END { print n + 0 }'
}

# What one run and another of the same give is the same in most cases, and what
# takes more is seen: the bounds are no wider and no narrower than they should.
t_tells_whose_draws_differ()
{
	sample 1 100 >before
	sample 2 100 >same
	sample 3 115 >slower
	bench 0 --compare before same
	[ "$(holds 1)" -ge 88 ] || wrong "$(holds 1) of 100 hold 1"
	[ "$(grep -c 'no difference seen$' out)" -ge 88 ] || wrong "$(cat out)"
	bench 0 --compare before slower
	[ "$(holds 1.15)" -ge 88 ] || wrong "$(holds 1.15) of 100 hold 1.15"
	[ "$(grep -c 'WORSE$' out)" -ge 80 ] || wrong "$(cat out)"
}

# Each of them has a place that says why its goals are not met.
t_has_reasons()
{
	bench 0 --list
	while read -r name rest; do
		case "$name $rest" in
		'name measures'*|channel*|pipe*|rdma*) continue ;;
		esac
		grep -q -e "^### $name\$" -e "name=\"$name\"" "$readme" ||
			wrong "none for $name"
	done <out
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
		bench 0 --from spoilt --report bad.md --csv - --hdr bad-hdr
	done
	esc=$(printf '\033')
	sed "s/\"rate\"/\"${esc}[2J\"/" kept >spoilt
	bench 0 --from spoilt --csv -
	! grep -q "$esc" out || wrong 'a file speaks to the terminal'
	says 'skipped 1 lines of spoilt'
	{
		grep -m 1 samples kept
		grep -m 2 samples kept | tail -n 1 | head -c 20
	} >spoilt
	bench 0 --from spoilt --csv -
	head -c 100000 /dev/urandom >spoilt
	bench 1 --from spoilt --csv -
	says_only 'holds no figures'
	head -c 20000000 /dev/zero >spoilt
	bench 1 --compare kept spoilt
	says_only 'cannot read spoilt: File too large'
}

run t_runs_what_is_named
run t_refuses_what_makes_no_sense
run t_programs_refuse_what_makes_no_sense
run t_finds_what_is_beside_weir
run t_keeps_a_result
run t_says_what_failed
run t_waits_where_children_are_ignored
run t_ends_what_hangs
run t_resumes
run t_says_of_which_commit_figures_are
run t_resumes_with_what_is_whole
run t_writes_a_table_for_others
run t_writes_latencies_in_the_known_form
run t_writes_a_page
run t_page_has_no_control_bytes
run t_says_what_the_figures_lack
run t_draws_cases
run t_draws_latencies
run t_pictures_are_small
run t_page_of_the_source_is_current
run t_compares
run t_compares_beside_a_peer
run t_compares_what_is_missing
run t_tells_whose_draws_differ
run t_has_reasons
run t_survives_a_bad_file
echo "1..$n"
exit $bad
