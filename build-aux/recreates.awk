# SPDX-License-Identifier: BSD-3-Clause
#
# What the comment of a header says that a function re-creates: for man3.awk and
# porting.awk, which are run with this file.

# The paragraph that begins with "Re-creates", without that word and on one line;
# empty if there is none, or if it says that nothing is re-created.
function recreated(text,    par)
{
	if (!match(text, /Re-creates[ \n]/))
		return ""
	par = substr(text, RSTART + RLENGTH)
	sub(/\n\n.*/, "", par)
	gsub(/[ \n]+/, " ", par)
	sub(/\. [A-Z].*/, ".", par)
	sub(/\.? ?$/, "", par)
	return par ~ /^nothing/ ? "" : par
}

# Sets names[1..] to the names of other systems in such a paragraph; returns how
# many there are.  A name that the paragraph abbreviates is none.
function names_in(par, names,    n, word)
{
	n = 0
	while (match(par, /[A-Za-z][A-Za-z0-9_]*_[A-Za-z0-9_]*(\(\))?/)) {
		word = substr(par, RSTART, RLENGTH)
		par = substr(par, RSTART + RLENGTH)
		if (word !~ /_$/)
			names[++n] = word
	}
	return n
}
