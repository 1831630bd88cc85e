# SPDX-License-Identifier: BSD-3-Clause
#
# Completion of command lines, made from the texts of --help in the sources, which
# are the one list of options.
#
#	awk -v shell=bash|zsh|fish -v program=NAME -f completion.awk SOURCE... >FILE
#
# A text begins with "Usage: NAME" or, for a subcommand, "Usage: NAME WORD".  A line
# of an option begins with blanks and a dash; after two blanks, or on the next line,
# is what it does.

# A line of a text in C, without what C needs.
function text_of(line)
{
	sub(/^[^"]*"/, "", line)
	sub(/(\\n)?"[^"]*$/, "", line)
	gsub(/" STRING\([A-Z]*\) "/, "", line)
	gsub(/\\n/, "", line)
	gsub(/\\"/, "\"", line)
	return line
}

/"Usage: / {
	line = text_of($0)
	split(line, word, " ")
	name = word[2] == "%s" ? "weir-sim" : word[2]
	command = name == "weir" && word[3] ~ /^[a-z]/ ? word[3] : ""
	if (name == program) {
		reading = 1
		if (command != "")
			commands[++n_commands] = command
	}
}
!reading { next }
/^}/ { reading = 0 }
!/^[ \t]*(puts\(|printf\()?"/ { next }
{
	line = text_of($0)
	if (line ~ /^ +-/)
		option(line)
	else if (wants_text && line ~ /^            +[^ ]/) {
		sub(/^ +/, "", line)
		does[n] = line
	}
	wants_text = n && does[n] == ""
	if (line !~ /^ /)
		wants_text = 0
}
/^".*;$/ { reading = 0 }

function option(line,    head)
{
	n++
	of[n] = command
	shorts[n] = longs[n] = ""
	sub(/^ +/, "", line)
	does[n] = ""
	if (match(line, /  +/)) {
		does[n] = substr(line, RSTART + RLENGTH)
		line = substr(line, 1, RSTART - 1)
	} else if (match(line, /^(-[A-Za-z], )*--[a-z-]+=[A-Z]+ [a-z]/)) {
		does[n] = substr(line, RLENGTH)
		line = substr(line, 1, RLENGTH - 2)
	}
	valued[n] = line ~ /[= ][A-Z\[]/ && line !~ /\[=/
	head = line
	while (match(head, /^-[A-Za-z0-9](, |$| |=)/)) {
		shorts[n] = shorts[n] " " substr(head, 1, 2)
		head = substr(head, RLENGTH + 1)
		if (line !~ /,/)
			break
	}
	if (match(head, /^--[a-z-]+/))
		longs[n] = substr(head, 1, RLENGTH)
	# The same option with another value is not another option.
	if ((of[n] longs[n] shorts[n]) in seen)
		n--
	else
		seen[of[n] longs[n] shorts[n]] = 1
}

# In single quotes; brackets end a description of zsh.
function plain(s)
{
	gsub(/[\[\]\\]/, "", s)
	gsub(/'/, "'\\''", s)
	return s
}

function words(of_command,    i, s)
{
	s = ""
	for (i = 1; i <= n; i++)
		if (of[i] == of_command)
			s = s shorts[i] (longs[i] == "" ? "" : " " longs[i] \
				(valued[i] && longs[i] != "" && program != "weir" && \
				 program != "weir-sim" ? "=" : ""))
	sub(/^ /, "", s)
	return s
}

function bash(    f, i)
{
	f = "_" program
	gsub(/-/, "_", f)
	print "# Made by completion.awk from the texts of --help."
	print f "()\n{"
	print "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=" quote(words(""))
	if (n_commands) {
		print "\tif [ \"$COMP_CWORD\" -gt 1 ]; then"
		print "\t\tcase ${COMP_WORDS[1]} in"
		for (i = 1; i <= n_commands; i++)
			print "\t\t" commands[i] ") words=" \
				quote(words(commands[i])) " ;;"
		print "\t\tesac"
		print "\telse"
		print "\t\twords=" quote(all_commands() " --help --version")
		print "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))"
		print "\t\treturn"
		print "\tfi"
	}
	print "\tcase $cur in"
	print "\t-*)"
	print "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))"
	print "\t\t[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace"
	print "\t\t;;"
	print "\tesac"
	print "}"
	print "complete -o default -F " f " " program
}

function quote(s) { return "'" s "'" }

function all_commands(    i, s)
{
	s = ""
	for (i = 1; i <= n_commands; i++)
		s = s (i > 1 ? " " : "") commands[i]
	return s
}

# The arguments of _arguments for the options of a command.
function zsh_options(of_command, indent,    i, j, names, k)
{
	for (i = 1; i <= n; i++) {
		if (of[i] != of_command)
			continue
		k = split(shorts[i] " " longs[i], names, " ")
		for (j = 1; j <= k; j++)
			printf "%s'%s%s[%s]%s' \\\n", indent, names[j],
				valued[i] ? (names[j] ~ /^--/ ? "=" : "+") : "",
				plain(does[i]),
				valued[i] ? ":value:_files" : ""
	}
	print indent "'*:file:_files'"
}

function zsh(    i)
{
	print "#compdef " program
	print "# Made by completion.awk from the texts of --help."
	if (!n_commands) {
		print "_arguments -s \\"
		zsh_options("", "\t")
		return
	}
	print "if (( CURRENT == 2 )); then"
	print "\tcompadd " all_commands() " --help --version"
	print "\treturn\nfi"
	print "case $words[2] in"
	for (i = 1; i <= n_commands; i++) {
		print commands[i] ")"
		print "\t_arguments -s \\"
		zsh_options(commands[i], "\t\t")
		print "\t;;"
	}
	print "esac"
}

function fish(    i, j, k, names, s)
{
	print "# Made by completion.awk from the texts of --help."
	if (n_commands)
		print "complete -c " program \
			" -f -n __fish_use_subcommand -a " \
			quote(all_commands())
	for (i = 1; i <= n; i++) {
		s = ""
		k = split(shorts[i] " " longs[i], names, " ")
		for (j = 1; j <= k; j++)
			s = s (names[j] ~ /^--/ ? " -l " substr(names[j], 3) : \
				" -s " substr(names[j], 2))
		print "complete -c " program \
			(of[i] == "" ? "" : \
			 " -n '__fish_seen_subcommand_from " of[i] "'") s \
			(valued[i] ? " -r" : "") " -d " \
			quote(plain(does[i]))
	}
}

END {
	if (!n) {
		print "completion.awk: no option of " program >"/dev/stderr"
		exit 1
	}
	if (shell == "bash")
		bash()
	else if (shell == "zsh")
		zsh()
	else
		fish()
}
