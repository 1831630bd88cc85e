# SPDX-License-Identifier: BSD-3-Clause
# Whether generated man pages say what their headers say.
#
#	awk -v include=DIR -f man-agrees.awk weir_*.3
#
# It reads the headers anew and shares no code with build-aux/man3.awk.  Of each
# page:
#   - an errno under RETURN VALUE is in the function's own comment, or in the
#     opening comment of its header or of the one whose conditions that shares;
#   - an errno of a list in the function's own comment is on the page;
#   - the thread under CONTEXT is one that those comments name;
#   - a promise not to block or allocate is in those comments, and one in the
#     function's own comment is on the page.
# Prints a line for each that is not so.

FNR == 1 {
	if (page)
		judge()
	page = FILENAME
	sub(/.*\//, "", page)
	sub(/\.3$/, "", page)
	header = $0
	sub(/.*</, "", header)
	sub(/>.*/, "", header)
	returns = context = ""
	section = ""
}
/^\.SH / { section = $0 }
section == ".SH RETURN VALUE" { returns = returns $0 "\n" }
section == ".SH CONTEXT" && !/^\.SH/ { context = context " " $0 }
END { judge() }

# The opening comment of header @h, and in own[] the comments of its functions.
function read(h,    line, text, inside, opening, rest)
{
	while ((getline line < (include "/" h)) > 0) {
		if (line ~ /^\/\* SPDX/)
			continue
		if (line ~ /^\/\*/) {
			inside = 1
			text = ""
		}
		if (inside) {
			text = text line "\n"
			if (line ~ /\*\//) {
				inside = 0
				if (opening == "")
					opening = text
			}
			continue
		}
		if (match(line, /^(static inline|#define) .*weir_[a-z_0-9]+\(/)) {
			match(line, /weir_[a-z_0-9]+\(/)
			is_inline[substr(line, RSTART, RLENGTH - 1)] = 1
		}
		rest = line
		if (rest ~ /^(WEIR_API|static inline|#define) / &&
		    match(rest, /weir_[a-z_0-9]+\(/))
			own[substr(rest, RSTART, RLENGTH - 1)] = text
		else if (line ~ /^(WEIR_API|static inline) /) {
			# The name is on the next line.
			if ((getline rest < (include "/" h)) > 0 &&
			    match(rest, /weir_[a-z_0-9]+\(/))
				own[substr(rest, RSTART, RLENGTH - 1)] = text
		}
		if (line !~ /^$/)
			text = line ~ /^(WEIR_API|static inline) / ? text : ""
	}
	close(include "/" h)
	opening_of[h] = opening
	if (match(opening, /share the conditions of[ \n*]+<weir\/[a-z_]+\.h>/)) {
		rest = substr(opening, RSTART, RLENGTH)
		gsub(/.*<|>/, "", rest)
		if (!(rest in opening_of))
			read(rest)
		opening_of[h] = opening_of[h] opening_of[rest]
	}
}

# The errnos in @s, each after a blank.
function errnos(s,    all)
{
	all = ""
	while (match(s, /-E[A-Z0-9]+/)) {
		all = all " " substr(s, RSTART, RLENGTH)
		s = substr(s, RSTART + RLENGTH)
	}
	return all
}

# Those that begin an item of a list in the comment @s.
function errnos_listed(s,    line, n, i, all)
{
	all = ""
	n = split(s, line, /\n/)
	for (i = 1; i <= n; i++)
		if (match(line[i], /^ \* +-E[A-Z0-9]+(, -E[A-Z0-9]+)*/))
			all = all errnos(substr(line[i], RSTART, RLENGTH))
	return all
}

function has(list, e) { return index(list " ", " " e " ") }

function say(what) { print page ": " what }

function plain(s)
{
	gsub(/\\f[BIRP]|\\&|@/, "", s)
	gsub(/\\-/, "-", s)
	gsub(/[ \n*]+/, " ", s)
	return s
}

function judge(    mine, shared, all, list, e, n, i)
{
	if (!(header in opening_of))
		read(header)
	mine = own[page]
	shared = opening_of[header]
	if (mine == "") {
		say("its comment is not found in " header)
		return
	}
	all = errnos(mine shared)
	n = split(errnos(plain(returns)), e, " ")
	for (i = 1; i <= n; i++)
		if (!has(all, e[i]))
			say(e[i] " is neither in its comment nor in " \
				"the opening one of " header)

	# Only items of lists: a text may speak of another function's.
	n = split(errnos_listed(mine), e, " ")
	for (i = 1; i <= n; i++)
		if (!has(errnos(plain(page_text())), e[i]))
			say(e[i] " of its comment is not on the page")

	# What it takes from an opening comment it takes whole.
	if (plain(returns) ~ /-E/ && (mine !~ /eturns / || mine ~ /Returns also/))
		list = errnos_listed(shared)
	else
		list = ""
	n = split(list, e, " ")
	for (i = 1; i <= n; i++)
		if (!has(errnos(plain(returns)), e[i]))
			say(e[i] " of all of its header's is not on the page")

	mine = plain(mine)
	shared = plain(shared)
	context = plain(context)
	if (match(context, /(on|by|The) (the )?[a-z]+('s)? thread|Any thread/) &&
	    !index(tolower(mine shared), tolower(substr(context, RSTART,
	    RLENGTH))) && !(page in is_inline))
		say("the context is not the header's: " context)
	if (context ~ /[Nn]ever allocates/ && (mine shared) !~ /allocate/ &&
	    !(page in is_inline))
		say("it never allocates, which the header does not say")
	if (mine ~ /[Nn]ever blocks/ && context !~ /[Nn]ever blocks/)
		say("the comment says that it never blocks, the page does not")
	if (mine ~ /never allocates/ && page_text() !~ /never allocates/)
		say("the comment says that it never allocates, " \
			"the page does not")
}

# The whole page, once more.
function page_text(    path, line, text)
{
	path = pages "/" page ".3"
	text = ""
	while ((getline line < path) > 0)
		text = text line "\n"
	close(path)
	return plain(text)
}
