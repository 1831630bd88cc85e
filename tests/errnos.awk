# SPDX-License-Identifier: BSD-3-Clause
#
# The errnos that man pages document, one on each line:
#
#	weir_pool_create returns -EINVAL
#	weir_read completes -EIO
#
#	awk -f errnos.awk weir_*.3
#
# The pages are made by build-aux/man3.awk from the headers, so that what an
# opening comment says of "All of them" counts for each of its functions.  All
# errnos under RETURN VALUE and COMPLETION count.
#
# Plain awk: mawk, gawk and busybox run it.

FNR == 1 {
	page = FILENAME
	sub(/.*\//, "", page)
	sub(/\.3$/, "", page)
}
/^\.SH / {
	verb = ""
	if ($0 == ".SH RETURN VALUE")
		verb = "returns"
	if ($0 == ".SH COMPLETION")
		verb = "completes"
	next
}
verb != "" {
	line = $0
	gsub(/\\-/, "-", line)
	while (match(line, /-E[A-Z0-9]+/)) {
		pair = page " " verb " " substr(line, RSTART, RLENGTH)
		if (!(pair in seen))
			print pair
		seen[pair] = 1
		line = substr(line, RSTART + RLENGTH)
	}
}
