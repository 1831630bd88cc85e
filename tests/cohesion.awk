# SPDX-License-Identifier: BSD-3-Clause
#
# How object files hang together:
#
#	for o in ...; do nm -g $o | sed "s|^|$o |"; done | awk -v max=N -f cohesion.awk
#
# Prints each group of more than max files that need each other, and each that is
# of more than one folder, with its size; then "one-use N": how many internal
# names are global for one other file.

$(NF - 1) == "U" { uses[$1, $NF] = 1 }
$(NF - 1) ~ /^[TDBRVC]$/ { home[$NF] = $1 }

function folder(o) { sub(/\/[^\/]*$/, "", o); return o }

# Files that nothing needs, or that need nothing, are in no cycle.
function trim(	again, i, o)
{
	do {
		again = 0
		for (o in file) {
			if (n_in[o] && n_out[o])
				continue
			again = 1
			for (i in file) {
				if ((o, i) in edge) {
					delete edge[o, i]
					n_in[i]--
				}
				if ((i, o) in edge) {
					delete edge[i, o]
					n_out[i]--
				}
			}
			delete file[o]
		}
	} while (again)
}

END {
	for (k in uses) {
		split(k, part, SUBSEP)
		from = part[1]
		name = part[2]
		if (!(name in home) || home[name] == from)
			continue
		users[name]++
		to = home[name]
		file[from] = file[to] = 1
		if (!((from, to) in edge)) {
			edge[from, to] = 1
			n_out[from]++
			n_in[to]++
		}
	}
	for (name in users)
		one_use += users[name] == 1 && name !~ /^weir_/
	trim()
	for (k in file)
		for (i in file)
			if ((i, k) in edge)
				for (j in file)
					if ((k, j) in edge)
						edge[i, j] = 1
	for (i in file) {
		if (i in seen || !((i, i) in edge))
			continue
		n = 0
		list = ""
		split("", folders)
		n_folders = 0
		for (j in file) {
			if (!((i, j) in edge && (j, i) in edge))
				continue
			seen[j] = 1
			n++
			list = list " " j
			if (!(folder(j) in folders)) {
				folders[folder(j)] = 1
				n_folders++
			}
		}
		if (n > max || n_folders > 1)
			print "cycle of " n ":" list
	}
	print "one-use " one_use + 0
}
