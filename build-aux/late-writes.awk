# SPDX-License-Identifier: BSD-3-Clause
# Makes docs/late-writes.md from the lines of bench-late: rows of the same
# experiment, of many runs, are added up.  `make late-docs` calls it.
#
#	awk -v sum=1 -f late-writes.awk late.json >late-writes.json
#	awk -f late-writes.awk late-writes.json >late-writes.md
#
# The first adds up, and keeps what the page is made of.  Its result can be added
# to: late.json may begin with it.

# The member of the line that is called @key, "" if there is none.
function member(key,	at, rest)
{
	at = index($0, "\"" key "\":")
	if (!at)
		return ""
	rest = substr($0, at + length(key) + 3)
	if (substr(rest, 1, 1) == "\"") {
		rest = substr(rest, 2)
		return substr(rest, 1, index(rest, "\"") - 1)
	}
	match(rest, /^[^,}]*/)
	return substr(rest, 1, RLENGTH)
}

function bytes(n,	unit)
{
	for (unit = 1; n >= 1024 && n % 1024 == 0; unit++)
		n /= 1024
	return n " " substr("B  KiBMiBGiB", 3 * unit - 2, unit == 1 ? 1 : 3)
}

function duration(ns)
{
	if (ns == "")
		return ""
	ns += 0
	if (ns >= 1e9)
		return sprintf("%.2f s", ns / 1e9)
	if (ns >= 1e6)
		return sprintf("%.1f ms", ns / 1e6)
	return sprintf("%.0f us", ns / 1e3)
}

# A run begins with a line that names its version and machine; all runs of the
# same are one part.  A line that was kept says what its part had, and the rows
# behind it are of all parts.
function begin_run(	id, n, i, variant, date)
{
	id = member("weir") "|" member("kernel") "|" member("cpu") "|" \
		member("cpus")
	if (!(id in part_line)) {
		parts[++n_parts] = id
		part_line[id] = $0
		sub(/(,"endings":.*)?}$/, "", part_line[id])
		begun[id] = member("date")
	}
	if (member("date") < begun[id])
		begun[id] = member("date")
	date = member("last") ? member("last") : member("date")
	if (date > last[id])
		last[id] = date
	part_of_run = id
	if (member("endings") == "")
		return
	part_of_run = ""
	part_ours[id] += member("endings")
	part_peers[id] += member("of peers")
	n = split(member("load"), variant, ", ")
	for (i = 1; i <= n; i++)
		load_part["weir load " variant[i]] = id
}

function add_to_part()
{
	if (!part_of_run)
		return
	if (member("who") == "weir")
		part_ours[part_of_run] += member("tried")
	else
		part_peers[part_of_run] += member("tried")
}

# The variants of revokes under load that are of the part @id.
function loads(id,	i, text, variant)
{
	for (i = 1; i <= n_variants; i++) {
		variant = variants[i]
		if (load_part[variant] == id)
			text = text (text ? ", " : "") substr(variant, 11)
	}
	return text
}

function add_row(	key, size, sized)
{
	add_to_part()
	key = member("who") "|" member("version") "|" member("engine") "|" \
		member("backend") "|" member("ending")
	size = member("size") + 0
	sized = member("largest") ? member("largest") + 0 : size
	if (member("tried") + 0 == 0) {
		if (!(key in untried))
			skipped[++n_skipped] = key
		untried[key] = member("why")
		if (!((key, size) in untried_line))
			sizes[key] = sizes[key] (sizes[key] ? ", " : "") \
				bytes(size)
		keep(key SUBSEP size, $0)
		untried_line[key, size] = 1
		return
	}
	if (!(key in tried))
		rows[++n_rows] = key
	tried[key] += member("tried")
	late[key] += member("late")
	refused[key] += member("refused")
	crashed[key] += member("crashed")
	hung[key] += member("hung")
	over[key] += member("over")
	if (member("most") + 0 > most[key])
		most[key] = member("most") + 0
	if (member("worst_ns") + 0 > worst[key])
		worst[key] = member("worst_ns") + 0
	if (!least[key] || size < least[key])
		least[key] = size
	if (sized > largest[key])
		largest[key] = sized
	contract[key] = member("contract")
	timed_out[key] += member("timed_out")
	named[key] += member("named")
	all_timed_out += member("timed_out")
	all_named += member("named")
	if (member("who") == "weir") {
		ours += member("tried")
		ours_late += member("late")
		ours_over += member("over")
	}
}

# A line to be kept instead of an older one of the same @key.
function keep(key, line)
{
	if (!(key in kept_line))
		kept_keys[++n_kept] = key
	kept_line[key] = line
}

# Figures that are about as many revokes as a latency's count says.
function add_load(	what, line)
{
	line = $0
	sub(/"values":.*"others_cpu"/, "\"others_cpu\"", line)
	keep(member("case") "|" member("variant") "|" member("unit"), line)
	if (part_of_run)
		load_part[member("variant")] = part_of_run
	what = member("case")
	sub(/^revoke under load,? ?/, "", what)
	if (index($0, "\"p99\":")) {
		load[what, member("variant")] = member("count")
		p50[what, member("variant")] = member("p50")
		p99[what, member("variant")] = member("p99")
		max[what, member("variant")] = member("max")
	} else {
		load_us[what, member("variant")] = member("median")
		if (member("variant") !~ / rt$/)
			others = member("others_cpu")
	}
}

function add_goal(	key)
{
	if (member("goal") !~ /^revoke under load/)
		return
	key = member("goal") (member("where") ~ / rt$/ ? ", rt" : "")
	keep(key, $0)
	if (!(key in goal_met))
		goals[++n_goals] = key
	goal_met[key] = member("met") == "true" ? "met" : \
		member("met") == "false" ? "**not met**" : "not measured"
	goal_figure[key] = member("figure")
	goal_where[key] = member("where")
	goal_bound[key] = "at most " member("at_most")
}

BEGIN {
	n_variants = split("weir load uring,weir load ev,weir load uring rt," \
		"weir load ev rt", variants, ",")
}
/"machine":/ { begin_run() }
/"ending":/ { add_row() }
/"variant":"weir load / { add_load() }
/"note":"revoke under load/ {
	keep("note", $0)
	note = member("note")
	sub(/.*was/, "first rows were", note)
}
/"goal":/ { add_goal() }

function remarks(key,	text)
{
	text = contract[key]
	if (refused[key])
		text = text "; refused " refused[key] " of " tried[key]
	if (crashed[key])
		text = text "; **crashed** in " crashed[key]
	if (hung[key])
		text = text "; **hung** in " hung[key]
	return text
}

function range(key)
{
	if (least[key] == largest[key])
		return bytes(least[key])
	return bytes(least[key]) " to " bytes(largest[key])
}

function row(key,	part)
{
	split(key, part, "|")
	printf "| %s | %s | %s%s | %s | %s | %d%s | %s | %s | %s | %s |\n",
		part[1], part[2], part[3], part[4] ? ", " part[4] : "",
		part[5], range(key), tried[key],
		over[key] ? " (" over[key] " over)" : "",
		late[key] ? "**" late[key] "**" : 0,
		most[key] ? "**" most[key] "**" : 0, duration(worst[key]),
		remarks(key)
}

function table(mine,	i)
{
	print "| who | version | engine | ending | in flight | endings | " \
		"with late bytes | most late bytes | longest end | by its " \
		"documentation |"
	print "|---|---|---|---|---|---|---|---|---|---|"
	for (i = 1; i <= n_rows; i++)
		if ((rows[i] ~ /^weir\|/) == mine)
			row(rows[i])
}

# The rows that end with "rt" ran at a real-time priority.
function under_load(	i)
{
	print "| backend | revokes | told, p50 | told, p99 | told, longest | " \
		"end, p50 | end, p99 | end, longest | a slice of 1 MiB |"
	print "|---|---|---|---|---|---|---|---|---|"
	for (i = 1; i <= n_variants; i++)
		if (("", variants[i]) in load)
			printf "| %s | %d | %s | %s | %s | %s | %s | %s | %s |\n",
				substr(variants[i], 11), load["", variants[i]],
				duration(p50["told", variants[i]]),
				duration(p99["told", variants[i]]),
				duration(max["told", variants[i]]),
				duration(p50["", variants[i]]),
				duration(p99["", variants[i]]),
				duration(max["", variants[i]]),
				duration(load_us["a slice", variants[i]] * 1e3)
}

# A row as bench-late writes it, of all its sizes.
function kept(key,	part)
{
	split(key, part, "|")
	printf "{\"bench\":\"late\",\"ending\":\"%s\",\"who\":\"%s\"," \
		"\"version\":\"%s\",\"engine\":\"%s\",\"backend\":\"%s\"," \
		"\"size\":%.0f,\"largest\":%.0f,\"tried\":%.0f,\"late\":%.0f," \
		"\"most\":%.0f,\"worst_ns\":%.0f,\"refused\":%.0f,\"crashed\":%.0f," \
		"\"hung\":%.0f,\"over\":%.0f,\"timed_out\":%.0f,\"named\":%.0f," \
		"\"contract\":\"%s\",\"why\":\"\"}\n", part[5], part[1],
		part[2], part[3], part[4], least[key], largest[key],
		tried[key], late[key], most[key], worst[key], refused[key],
		crashed[key], hung[key], over[key], timed_out[key],
		named[key], contract[key]
}

# Where @id ran.
function place(id,	part)
{
	split(id, part, "|")
	return "weir " part[1] " on Linux " substr(part[2], 7) " (" part[3] \
		", " part[4] " CPUs)"
}

function list_parts(	i, id, what)
{
	for (i = 1; i <= n_parts; i++) {
		id = parts[i]
		what = part_ours[id] ? ", " part_ours[id] " endings of weir" : ""
		if (part_peers[id])
			what = what ", " part_peers[id] " of peers"
		if (loads(id))
			what = what ", revoke under load by " loads(id)
		printf "- %s: %s, begun %s%s\n",
			substr(what, 3), place(id), begun[id],
			last[id] == begun[id] ? "" : ", its last run " last[id]
	}
}

function keep_all(	i, id)
{
	for (i = 1; i <= n_parts; i++) {
		id = parts[i]
		printf "%s,\"endings\":%d,\"of peers\":%d,\"load\":\"%s\"," \
			"\"last\":\"%s\"}\n", part_line[id], part_ours[id],
			part_peers[id], loads(id), last[id]
	}
	for (i = 1; i <= n_kept; i++)
		print kept_line[kept_keys[i]]
	for (i = 1; i <= n_rows; i++)
		kept(rows[i])
}

END {
	if (sum) {
		keep_all()
		exit
	}
	print "# Late writes"
	print ""
	print "weir's own exceptions first. The end of a revoke, stop or drain " \
		"of exported memory covers jobs of importers whose operands " \
		"are bufs of the import. It covers none of these: pointers " \
		"into mapped pages that an importer uses by itself, also as " \
		"operands of raw memory or in weir_read(); programs that use " \
		"the descriptors without this library; children that an " \
		"importer has forked; and importers that are hostile, which " \
		"can write for as long as they have the pages, and can make " \
		"the exporter of the same memory not wait for another " \
		"importer. No process can take mapped pages from another " \
		"one: export memory that holds nothing else to those, and do " \
		"not use it again. A revoke that ends with -ETIMEDOUT or " \
		"-ECANCELED has not ended the access: its message names the " \
		"processes. An operation that the kernel does not let go of " \
		"stays in flight, and the destroy of its reactor is -EBUSY. " \
		"Where the kernel has no membarrier(2), importers pay for " \
		"fences, and the guarantee is the same. RDMA was measured " \
		"over soft-RoCE, where the kernel enforces what a card " \
		"does; no card was there."
	print ""
	printf "`weir bench late` measures the rest: a transfer is in flight, " \
		"and is ended at a random time. When the end is reported as " \
		"complete, the owner of the memory fills it with a pattern; " \
		"when nothing can be on its way any more, the bytes that are " \
		"not the pattern are counted. **Of %d endings of weir %s had " \
		"late bytes**, and each operation completed exactly once: the " \
		"benchmark ends with an error otherwise. In %d of them the " \
		"transfer was over before it was ended; these are marked.\n",
		ours, ours_late ? ours_late : "none", ours_over
	print ""
	print "This page is made by `make late-docs` from a kept result, " \
		"[late-writes.json](late-writes.json); nothing in its tables " \
		"is typed by hand. These parts are added up:"
	print ""
	list_parts()
	print ""
	print "## Peers"
	print ""
	print "Each ending is tried in two fresh processes (liburing and libuv: " \
		"in one). A child that crashes, or that hangs for 20 seconds, " \
		"is counted and named. An ending of libfabric and UCX counts " \
		"only if bytes had begun to arrive and the last had not. The " \
		"last column says in our words what the peer's documentation says; a row " \
		"\"outside of its contract\" shows what a program gets that " \
		"does not know when its transfers have ended, not a defect."
	print ""
	table(0)
	if (n_skipped) {
		print ""
		print "Not tried:"
		print ""
		for (i = 1; i <= n_skipped; i++) {
			split(skipped[i], part, "|")
			printf "- %s, %s, %s (%s): %s\n", part[1], part[3],
				part[5], sizes[skipped[i]], untried[skipped[i]]
		}
	}
	print ""
	print "## weir"
	print ""
	print "\"revoke\", \"stop\", \"drain\": another process writes to all of " \
		"the memory, again and again. \"killed\", \"exit\", " \
		"\"stopped\" (SIGSTOP, then SIGCONT): that process, in the " \
		"middle of a write, before a revoke. \"exporter exits\": the " \
		"memory that we read is of a process that exits; the time is " \
		"until we know. \"cancel\", \"deadline\": a job of our own. " \
		"\"recv\": a receive of a stream whose peer goes on sending. " \
		"\"destroy\": of a reactor with a read in flight. \"verbs\": a " \
		"peer has 8 writes in flight over a slow link, in a guest " \
		"whose processors are emulated, and some or none of them are " \
		"done."
	print ""
	table(1)
	print ""
	print "## Revoke under load"
	print ""
	print "Another process writes 16 MiB without a pause, by the cpu " \
		"engine; each of the two has a CPU, as far as others leave it; " \
		"\"told\" is when its watch of the import has ended. Other " \
		"programs used " others " CPUs of the machine meanwhile; that " \
		"and the scheduler are in all of these times" \
		(note ? "; the " note : "") ". Rows with \"rt\" ran at a " \
		"real-time priority (chrt -f 1), where other programs take " \
		"no CPU but for 50 ms in a second, by the kernel\047s limit: " \
		"these are the times of the library."
	print ""
	under_load()
	print ""
	printf "Of %d revokes with a deadline of 1 ms, while the importer was " \
		"stopped in the middle of a slice, all ended with -ETIMEDOUT; " \
		"the message of %d had the importer's pid.\n", all_timed_out, \
		all_named
	print ""
	print "| goal | bound | figure | | where |"
	print "|---|---|---|---|---|"
	for (i = 1; i <= n_goals; i++)
		printf "| %s | %s us | %s us | %s | %s |\n", goals[i],
			goal_bound[goals[i]], goal_figure[goals[i]] + 0,
			goal_met[goals[i]], goal_where[goals[i]]
}
