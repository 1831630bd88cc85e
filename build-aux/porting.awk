# SPDX-License-Identifier: BSD-3-Clause
#
# docs/porting.md anew, with its tables made from the headers.
#
#	awk -f recreates.awk -f porting.awk docs/porting.md HEADER... >NEW
#
# A line of the page
#
#	<!-- calls: REGULAR EXPRESSION -->
#
# is followed by a table of the names that match, as the comments of the headers
# have them in paragraphs that begin with "Re-creates" (see man3.awk): each with
# the function of weir, and with what those comments add.  The table ends before
# the next heading.  All else is copied.

FNR == NR { page[++n_lines] = $0; next }

FNR == 1 {
	header = FILENAME
	sub(/.*include\//, "", header)
	comment = ""
	opening = ""
	state = ""
}
/^\/\*/ { comment = ""; state = "comment" }
state == "comment" {
	line = $0
	sub(/^ ?\/?\*+\/? ?/, "", line)
	comment = comment line "\n"
	if (/\*\//) {
		state = ""
		if (!(header in opening_read) && comment !~ /^SPDX/) {
			opening_read[header] = 1
			opening = comment
		}
	}
	next
}
/^(WEIR_API|static inline) / || (/^#define weir_/ && comment != "") {
	state = "function"
	decl = ""
}
state == "function" {
	decl = decl " " $0
	if (match(decl, /weir_[a-z0-9_]+\(/)) {
		name = substr(decl, RSTART, RLENGTH - 1)
		state = ""
		# What the whole header re-creates leads to its first function.
		if (opening != "" && decl ~ /WEIR_API/) {
			recreates(opening)
			opening = ""
		}
		recreates(comment)
		comment = ""
	}
	next
}

# A row for each name in what @text says, with what it says beside the names.
function recreates(text,    rest, par, names, n, i)
{
	par = recreated(text)
	n = names_in(par, names)
	rest = par
	gsub(/[A-Za-z][A-Za-z0-9_]*_[A-Za-z0-9_]*(\(\))?/, "", rest)
	gsub(/ and /, "", rest)
	gsub(/, ?/, "", rest)
	if (rest == "" || rest == "and ")
		par = ""
	for (i = 1; i <= n; i++) {
		n_rows++
		theirs[n_rows] = names[i]
		ours[n_rows] = name
		where[n_rows] = header
		more[n_rows] = par
	}
}

function table(pattern,    i, key, done)
{
	print "| theirs | weir | header | note |"
	print "|---|---|---|---|"
	split("", done)
	for (i = 1; i <= n_rows; i++) {
		key = theirs[i] " " ours[i]
		if (theirs[i] !~ "^(" pattern ")" || key in done)
			continue
		done[key] = 1
		printf "| `%s` | `%s()` | `<%s>` | %s |\n", theirs[i], ours[i],
			where[i], more[i] | "LC_ALL=C sort"
	}
	close("LC_ALL=C sort")
	print ""
}

END {
	for (i = 1; i <= n_lines; i++) {
		if (page[i] ~ /^## /)
			skip = 0
		if (skip)
			continue
		print page[i]
		if (match(page[i], /^<!-- calls: .* -->$/)) {
			print ""
			pattern = substr(page[i], 13, length(page[i]) - 16)
			fflush()
			table(pattern)
			skip = 1
		}
	}
}
