# SPDX-License-Identifier: BSD-3-Clause
#
# Man pages from the comments of the public headers.
#
#	awk -v out=DIR -v version=V -v date=D -v examples=FILE -v root=DIR \
#		-f recreates.awk -f man3.awk include/weir/*.h
#	awk -v list=1 ...	names of functions only
#
# A page for each function that is declared with WEIR_API, static inline
# function and macro with parameters, if a comment stands directly before it.
# What the comment's paragraphs begin with says where they go:
#
#	Returns ...          RETURN VALUE, with its list of errnos
#	Completes ...        COMPLETION
#	Any thread, Call on, The owner's thread  CONTEXT
#	Re-creates ...       NOTES
#	anything else        DESCRIPTION, and its first message the NAME
#
# The NAME has also the names of other systems that the function re-creates, so
# that apropos(1) finds the page by them.  Each struct, callback and enum has a
# page that leads to the one where it stands.  FILE says which pages have EXAMPLES,
# and from which files and functions below root.
#
# Callbacks, structs and constants that a function uses come with its page.
# The opening comment of a header is the OVERVIEW of its first WEIR_API function.
# What the opening comment of a header says of "All of them" completes the pages
# of that header's functions that start an operation: those with an op parameter
# and no "Returns" of their own.  A header that shares "the conditions of" another
# one has that one's.  A header without either has none: no page takes a section
# from a header that happened to be read before.
#
# Plain awk: mawk, gawk and busybox run it.

FNR == 1 {
	header = FILENAME
	sub(/.*include\//, "", header)
	state = "code"
	comment = ""
	n_preambles = 0
}

# Comments: the text of the last one, without its frame.
state == "code" && /^\/\*/ {
	comment = ""
	if (/\*\/[ \t]*$/) {
		comment = $0
		gsub(/^\/\*[ \t]*|[ \t]*\*\/[ \t]*$/, "", comment)
		comment = comment "\n"
		next
	}
	line = $0
	sub(/^\/\*[ \t]?/, "", line)
	if (line != "")
		comment = line "\n"
	state = "comment"
	next
}

state == "comment" {
	line = $0
	if (line ~ /\*\//) {
		state = "code"
		if (!n_preambles++) {
			overview[header] = comment
			read_preamble(comment)
		}
		next
	}
	sub(/^ \* ?/, "", line)
	comment = comment line "\n"
	next
}

# Declarations: from their first line to the ; or { or end of the macro.
state == "code" && /^(WEIR_API|static inline) / {
	decl = ""
	state = "function"
}
state == "code" && /^typedef / {
	decl = ""
	state = "typedef"
}
state == "code" && /^struct [a-z_0-9]+ \{/ {
	decl = ""
	state = "struct"
}

state == "function" {
	decl = decl $0 "\n"
	if (/;[ \t]*$/ || /^\{/) {
		end_function()
		state = "code"
		comment = ""
	}
	next
}
state == "typedef" {
	decl = decl $0 "\n"
	if (/;[ \t]*$/) {
		name = first_name(decl)
		typedef_text[name] = decl
		typedef_doc[name] = comment
		type_header[name] = header
		state = "code"
		comment = ""
	}
	next
}
state == "struct" {
	decl = decl $0 "\n"
	if (/^\};/) {
		struct_text[$0 = second_word(decl)] = decl
		struct_doc[$0] = comment
		type_header[$0] = header
		state = "code"
		comment = ""
	}
	next
}

# An enum is a group of constants, and goes with whoever takes it, too.
state == "code" && /^enum weir_[a-z_]+ \{$/ {
	n_groups++
	group_doc[n_groups] = comment
	group_text[n_groups] = ""
	group_of[$2] = n_groups
	type_header[$2] = header
	comment = ""
	state = "enum"
}
state == "enum" {
	group_text[n_groups] = group_text[n_groups] $0 "\n"
	if (match($0, /WEIR_[A-Z0-9_]+/))
		group_of[substr($0, RSTART, RLENGTH)] = n_groups
	if (/^\};/)
		state = "code"
	next
}

# Constants: those that follow each other belong together.
state == "code" && /^#define WEIR_[A-Z0-9_]+[ \t]/ {
	if (!in_group) {
		n_groups++
		group_doc[n_groups] = comment
		group_text[n_groups] = ""
		in_group = 1
		comment = ""
	}
	group_text[n_groups] = group_text[n_groups] $0 "\n"
	group_of[$2] = n_groups
	next
}
{ in_group = 0 }

state == "code" && /^#define weir_[a-z_0-9]+\(/ && comment != "" {
	name = $0
	sub(/^#define /, "", name)
	decl = name
	sub(/\(.*/, "", name)
	sub(/\).*/, ")", decl)
	add_page(name, decl, "macro")
	comment = ""
	next
}

# An object whose members are the library's.
state == "code" && /^struct weir_[a-z_0-9]+;$/ {
	name = $2
	sub(/;/, "", name)
	if (!(name in type_header))
		type_header[name] = header
}

# A comment belongs to what follows it at once, not to the next but one.
state == "code" && NF { comment = "" }

END {
	if (list)
		exit 0
	if (examples != "")
		read_examples()
	for (p = 1; p <= n_pages; p++)
		write_page(p)
	for (name in type_header)
		write_alias(name)
	if (failed)
		exit 1
}

# Which functions of which file are the example of a page.
function read_examples(    line, word, n)
{
	while ((getline line < examples) > 0) {
		n = split(line, word, " ")
		if (n < 3 || word[1] == "#")
			continue
		example_file[word[1]] = word[2]
		sub(/^[^ ]+ +[^ ]+ +/, "", line)
		example_functions[word[1]] = line
	}
	close(examples)
}

# The functions and objects of the example of page @name, as they stand in their
# file.
function example(name,    file, want, n, i, line, text, last, inside, found)
{
	file = root "/" example_file[name]
	n = split(example_functions[name], want, " ")
	text = ""
	for (i = 1; i <= n; i++) {
		last = ""
		inside = found = 0
		while ((getline line < file) > 0) {
			if (!inside && line ~ /^[a-z]/ && line !~ /;$/ &&
			    (index(line, " " want[i] "(") ||
			     index(line, "*" want[i] "(") ||
			     index(line, " " want[i] " = {")))
				inside = found = 1
			if (inside)
				last = last line "\n"
			if (line ~ /^}/)
				inside = 0
		}
		close(file)
		if (!found) {
			print "man3.awk: there is no " want[i] "() in " file
			failed = 1
		}
		text = text (i > 1 ? "\n" : "") last
	}
	return "The program is\n.IR " example_file[name] " .\n" verbatim(text)
}

# Notes that page @p shows the type @name: one of the same header is better.
function shows(name, p)
{
	if (!(name in shown_on) || (page_header[p] == type_header[name] &&
	    page_header[shown_on[name]] != type_header[name]))
		shown_on[name] = p
}

# A page that leads to the one on which the type @name stands: one that shows it,
# that of the function which makes one, the first of its header, or the first of
# its folder.
function write_alias(name,    makes, n, i, to, file, folder)
{
	if (name in is_page)
		return
	to = has_overview[type_header[name]]
	folder = type_header[name]
	sub(/[^\/]*$/, "", folder)
	for (i = 1; to == "" && i <= n_pages; i++)
		if (index(page_header[i], folder) == 1)
			to = page_name[i]
	if (name in shown_on) {
		to = page_name[shown_on[name]]
	} else {
		n = split("register alloc open create", makes, " ")
		for (i = 1; i <= n; i++)
			if ((name "_" makes[i]) in is_page)
				to = name "_" makes[i]
	}
	if (to == "")
		return
	file = out "/" name ".3"
	printf ".so man3/%s.3\n", to >file
	close(file)
}

function second_word(s,    w)
{
	split(s, w, /[ \t\n]+/)
	return w[2]
}

# The name that is declared: the last word before the first bracket.
function first_name(s)
{
	sub(/\(.*/, "", s)
	sub(/[ \t\n]*$/, "", s)
	sub(/.*[ \t\n*]/, "", s)
	return s
}

function end_function(    name, kind)
{
	name = first_name(decl)
	if (decl ~ /^WEIR_API/ && !(header in has_overview))
		has_overview[header] = name
	if (decl ~ /^WEIR_API/ && list)
		print name
	kind = decl ~ /^static inline / ? "inline" : "function"
	sub(/^(WEIR_API|static inline) /, "", decl)
	sub(/\n\{.*/, ";\n", decl)
	if (comment != "")
		add_page(name, decl, kind)
}

function add_page(name, text, kind)
{
	n_pages++
	page_name[n_pages] = name
	is_page[name] = 1
	page_decl[n_pages] = text
	page_kind[n_pages] = kind
	page_doc[n_pages] = comment
	page_header[n_pages] = header
	of_header[header] = of_header[header] " " name
}

# The paragraphs of an opening comment that hold for all operations.
function read_preamble(text,    par, n, i, s)
{
	n = split(text, par, /\n\n+/)
	for (i = 1; i <= n; i++) {
		if (par[i] ~ /All of them return/) {
			s = par[i]
			sub(/.*All of them return/, "Returns", s)
			if (par[i + 1] ~ /^ +-E/)
				s = s "\n" par[++i]
			shared_returns[header] = s
		}
		if (par[i] ~ /All of them are called/) {
			s = par[i]
			sub(/^.*All of them are called/, "Call", s)
			sub(/, never[ \n]+block[ \n]+and[ \n]+never[ \n]+allocate\./,
				".  Never blocks, never allocates.", s)
			shared_context[header] = s
		}
		if (match(par[i], /share the conditions of[ \n]+<weir\/[a-z_]+\.h>/)) {
			s = substr(par[i], RSTART, RLENGTH)
			gsub(/.*<|>/, "", s)
			conditions_of[header] = s
		}
	}
}

# What the opening comment of page @p's header, or of the header whose conditions
# it shares, says of all operations.
function shared(texts, p,    h)
{
	h = page_header[p]
	return texts[h in conditions_of ? conditions_of[h] : h]
}

# Sections of the page being written, each the roff text of its paragraphs.
function write_page(p,    file, doc, par, n, i, first, starts, type)
{
	split("", sec)
	doc = page_doc[p]
	type = page_decl[p]
	starts = type ~ /struct weir_op \*op[,)]/ && type !~ /weir_op_/

	n = split(doc, par, /\n\n+/)
	first = message(par[1])
	for (i = 1; i <= n; i++)
		place(par[i])
	complete(p, starts, first, type)

	file = out "/" page_name[p] ".3"
	head(file, p, first)
	synopsis(file, p)
	put(file, "DESCRIPTION", sec["description"])
	put(file, "COMPLETION", sec["completion"])
	put(file, "RETURN VALUE", sec["returns"])
	put(file, "CONTEXT", sec["context"])
	if (has_overview[page_header[p]] == page_name[p])
		put(file, "OVERVIEW", paragraphs(overview[page_header[p]]))
	types(file, p)
	if (page_name[p] in example_file)
		put(file, "EXAMPLES", example(page_name[p]))
	put(file, "NOTES", sec["notes"])
	see_also(file, p)
	close(file)
}

# Sort one paragraph of a comment into its section.
function place(text,    at)
{
	sub(/\n+$/, "", text)
	if (text == "")
		return
	if (text ~ /^Re-creates /)
		add("notes", text)
	else if (text ~ /^Completes and returns as /) {
		add("completion", text)
		sub(/^Completes and returns/, "Returns", text)
		add("returns", text)
	} else if (text ~ /^Completes /)
		add("completion", text)
	else if (text ~ /^(Any thread|Call on|The owner's thread)/)
		add("context", text)
	else if (text ~ /^Returns /) {
		at = match(text, /\.  (Call on|Any thread)/)
		if (at) {
			add("context", substr(text, at + 3))
			text = substr(text, 1, at)
		}
		add("returns", text)
	} else
		add("description", text)
}

function add(name, text)
{
	raw[name] = text
	text = roff(text)
	sec[name] = sec[name] (sec[name] == "" || text ~ /^\.[IT]P/ ? "" : ".PP\n") text
}

# What a comment need not say: shared conditions, nothing returned, a value
# that is the subject of its first message.
function complete(p, starts, first, type,    also)
{
	if (starts && sec["returns"] ~ /^Returns also/) {
		also = sec["returns"]
		sec["returns"] = ""
		add("returns", shared(shared_returns, p))
		sub(/^Returns also\n?/, "", also)
		sec["returns"] = sec["returns"] also
	}
	if (starts && sec["returns"] == "" && sec["completion"] != "")
		add("returns", shared(shared_returns, p))
	if (starts && sec["context"] == "")
		add("context", shared(shared_context, p))
	# What is inline and says nothing only writes to what it is given.
	if (page_kind[p] != "function" && sec["context"] == "")
		add("context", "Any thread.  Never blocks, never allocates.")
	if (sec["returns"] != "")
		return
	if (page_kind[p] == "macro" || (type !~ /^void [^*]/ &&
	    first ~ /^(@|(The|A|An|Whether|Why|One|What|How|Bytes|Number) )/))
		add("returns", "Returns " lower(first) ".")
	else if (type ~ /^void [^*]/)
		add("returns", "Nothing: it cannot fail.")
}

# The first message of a paragraph, on one line, without its full stop.
function message(text,    at)
{
	gsub(/[ \t]*\n[ \t]*/, " ", text)
	sub(/ $/, "", text)
	# Two spaces end a message, and so does the end of the line; a line
	# that ended with a full stop has only one now.
	at = match(text, /\.( |$)/)
	if (at)
		text = substr(text, 1, at - 1)
	sub(/:$/, "", text)
	return text
}

function lower(s)
{
	if (s ~ /^[A-Z][a-z]/ || s ~ /^A /)
		s = tolower(substr(s, 1, 1)) substr(s, 2)
	return s
}

function head(file, p, first,    name, lib)
{
	name = page_name[p]
	printf ".\\\" Made by man3.awk from <%s>.\n", page_header[p] >file
	printf ".TH %s 3 \"%s\" \"weir %s\" \"weir\"\n", toupper(name), date,
		version >file
	first = lower(first)
	gsub(/[@*]/, "", first)
	printf ".SH NAME\n%s \\- %s\n", name, escape(summary(first,
		others(p))) >file
	lib = "weir" library_of(page_header[p])
	printf ".SH LIBRARY\n%s (lib%s, \\-l%s)\n", lib, lib, lib >file
}

# The message @first and the names @theirs in one line, of which apropos(1) keeps
# 149 characters: the message is cut where it pauses, or else at a blank.
function summary(first, theirs,    most)
{
	most = 149 - length(theirs)
	if (length(first) > most) {
		first = substr(first, 1, most - 4)
		if (match(first, /[:;,] [^:;,]*$/) && RSTART > 15)
			first = substr(first, 1, RSTART - 1)
		else
			sub(/ [^ ]*$/, " ...", first)
	}
	return first theirs
}

# The names of other systems for page @p, in brackets.
function others(p,    text, names, n, i, s, seen)
{
	split("", seen)
	text = recreated(page_doc[p])
	if (has_overview[page_header[p]] == page_name[p])
		text = text " " recreated(overview[page_header[p]])
	n = names_in(text, names)
	s = ""
	for (i = 1; i <= n; i++) {
		sub(/\(\)/, "", names[i])
		if (!(names[i] in seen))
			s = s (s == "" ? "" : ", ") names[i]
		seen[names[i]] = 1
	}
	return s == "" ? "" : " (" s ")"
}

function synopsis(file, p,    d, pre)
{
	printf ".SH SYNOPSIS\n.nf\n\\fB#include <%s>\\fP\n", page_header[p] >file
	printf ".PP\n%s.fi\n", declaration(page_decl[p]) >file
}

# A declaration: bold, the names of its parameters in italics, continued lines
# moved to where the bracket is now.
function declaration(text,    line, n, i, s, indent)
{
	n = split(text, line, /\n/)
	s = ""
	for (i = 1; i <= n; i++) {
		if (line[i] == "")
			continue
		if (i == 1) {
			indent = index(line[i], "(")
		} else {
			sub(/^[ \t]+/, "", line[i])
			line[i] = sprintf("%" indent "s%s", "", line[i])
		}
		s = s "\\fB" parameters(escape(line[i])) "\\fP\n"
	}
	return s
}

function parameters(s,    done, word, at)
{
	done = ""
	while (at = match(s, /[a-z_0-9]+[,)]/)) {
		word = substr(s, RSTART, RLENGTH - 1)
		done = done substr(s, 1, RSTART - 1)
		# "(*fn)(...)" names a parameter; "void)" is none.
		if (word == "void")
			done = done word
		else
			done = done "\\fI" word "\\fB"
		done = done substr(s, RSTART + RLENGTH - 1, 1)
		s = substr(s, RSTART + RLENGTH)
	}
	return done s
}

function put(file, title, text)
{
	if (text != "")
		printf ".SH %s\n%s", title, text >file
}

# The structs, callbacks and constants that go with function @p.
function types(file, p,    all, name, t, seen, more)
{
	split("", seen)
	all = more = page_decl[p]
	t = 0
	while (match(all, /struct weir_[a-z_]+/)) {
		name = substr(all, RSTART + 7, RLENGTH - 7)
		all = substr(all, RSTART + RLENGTH)
		if (!(name in struct_text) || name in seen ||
		    ((name == "weir_op" || name == "weir_job") &&
		     page_name[p] != name "_init"))
			continue
		seen[name] = 1
		shows(name, p)
		if (!t++)
			printf ".SH STRUCTURES\n" >file
		printf "%s.PP\n%s", paragraphs(struct_doc[name]),
			verbatim(struct_text[name]) >file
		more = more struct_text[name]
	}

	t = 0
	while (match(more, /weir_[a-z_]+_fn/)) {
		name = substr(more, RSTART, RLENGTH)
		more = substr(more, RSTART + RLENGTH)
		if (!(name in typedef_text) || name in seen)
			continue
		seen[name] = 1
		shows(name, p)
		printf "%s", t++ ? ".PP\n" : ".SH CALLBACKS\n" >file
		printf ".nf\n%s.fi\n.PP\n%s", declaration(typedef_text[name]),
			paragraphs(typedef_doc[name]) >file
	}
	constants(file, p)
}

# The groups of constants whose members the comment names.
function constants(file, p,    all, name, g, t, seen)
{
	split("", seen)
	all = page_decl[p] page_doc[p]
	if (has_overview[page_header[p]] == page_name[p])
		all = all overview[page_header[p]]
	t = 0
	while (match(all, /(WEIR_[A-Z0-9_]+|enum weir_[a-z_]+)/)) {
		name = substr(all, RSTART, RLENGTH)
		all = substr(all, RSTART + RLENGTH)
		sub(/^enum /, "", name)
		g = group_of[name]
		if (!g || g in seen || name ~ /^WEIR_(API|VERSION)/)
			continue
		seen[g] = 1
		if (name in type_header)
			shows(name, p)
		if (!t++)
			printf ".SH CONSTANTS\n" >file
		else
			printf ".PP\n" >file
		printf "%s.PP\n%s", paragraphs(group_doc[g]),
			verbatim(group_text[g]) >file
	}
}

function see_also(file, p,    name, n, i, s, max)
{
	n = split(of_header[page_header[p]], name, " ")
	s = ""
	for (i = 1; i <= n; i++)
		if (name[i] != page_name[p])
			s = s ".BR " name[i] " (3),\n"
	printf ".SH SEE ALSO\n%s.BR weir (7)\n", s >file
}

# What the library of a header has behind its name.
function library_of(header)
{
	if (header ~ /^weir\/(conn|message|srq)\.h/)
		return "\\-rdma"
	if (header !~ /^weir\/[a-z]+\// || header ~ /^weir\/host\//)
		return ""
	sub(/^weir\//, "", header)
	sub(/\/.*/, "", header)
	return "\\-" header
}

# Several paragraphs to roff.
function paragraphs(text,    par, n, i, s, one)
{
	s = ""
	n = split(text, par, /\n\n+/)
	for (i = 1; i <= n; i++) {
		sub(/\n+$/, "", par[i])
		if (par[i] == "")
			continue
		one = roff(par[i])
		s = s (s == "" || one ~ /^\.[IT]P/ ? "" : ".PP\n") one
	}
	return s
}

# One paragraph: text, then perhaps a list of errnos or of other items; or a
# picture or an example, which are indented by a tab.
function roff(text,    line, n, i, s, prose, item)
{
	n = split(text, line, /\n/)
	s = ""
	prose = ""
	item = 0
	for (i = 1; i <= n; i++) {
		if (line[i] ~ /^\t/) {
			s = s flow(prose) verbatim(substr(line[i], 2) "\n")
			prose = ""
		} else if (line[i] ~ /^ +-(E[A-Z0-9]| )/ ||
		    line[i] ~ /^ +(another|other errnos)  /) {
			s = s flow(prose)
			prose = ""
			s = s list_item(line[i])
			sub(/^ +(-(E[A-Z0-9]+(, -E[A-Z0-9]+)*)?|another|other errnos) */,
				"", line[i])
			prose = line[i]
			item = 1
		} else {
			# Indented no more than the item: the list is over.
			if (item && line[i] !~ /^   /) {
				s = s flow(prose) ".PP\n"
				prose = ""
				item = 0
			}
			sub(/^[ \t]+/, "", line[i])
			prose = prose (prose == "" ? "" : "\n") line[i]
		}
	}
	gsub(/\.EE\n\.EX\n/, "", s)
	return s flow(prose)
}

function list_item(s,    tag)
{
	sub(/^ +/, "", s)
	if (s ~ /^- /)
		return ".IP \\(bu 3\n"
	if (match(s, /^[a-z]+( errnos)?/))
		return ".TP\n" substr(s, 1, RLENGTH) "\n"
	match(s, /^-E[A-Z0-9]+(, -E[A-Z0-9]+)*/)
	tag = substr(s, 1, RLENGTH)
	return ".TP\n" inline(tag) "\n"
}

# Running text: a line of roff for each message or line.
function flow(text,    line, n, i, s)
{
	gsub(/\.  /, ".\n", text)
	n = split(text, line, /\n/)
	s = ""
	for (i = 1; i <= n; i++)
		if (line[i] != "")
			s = s inline(line[i]) "\n"
	return s
}

function verbatim(text,    line, n, i, s)
{
	n = split(text, line, /\n/)
	s = ".EX\n"
	for (i = 1; i < n; i++)
		s = s escape(untab(line[i])) "\n"
	return s ".EE\n"
}

function untab(s,    at, r)
{
	r = ""
	while (at = index(s, "\t")) {
		r = r substr(s, 1, at - 1)
		s = substr(s, at + 1)
		do
			r = r " "
		while (length(r) % 8)
	}
	return r s
}

# No character of @s means anything to roff.
function escape(s)
{
	gsub(/\\/, "\\e", s)
	if (s ~ /^[.']/)
		s = "\\&" s
	return s
}

# Names in a line of text: parameters in italics, functions, constants, errnos
# and members in bold.
function inline(s,    r, word, before)
{
	r = ""
	before = ""
	s = escape(s)
	while (match(s, /@[a-z_][a-z_0-9]*|-E[A-Z0-9][A-Z0-9]+|-?[a-z_][a-z_0-9]*\([^ ()]*\)|WEIR_[A-Z_0-9]+|<weir\/[a-z_]+\.h>|\.[a-z_]+_?[a-z]+/)) {
		r = r substr(s, 1, RSTART - 1)
		before = substr(r, length(r))
		word = substr(s, RSTART, RLENGTH)
		s = substr(s, RSTART + RLENGTH)
		r = r dress(word, before)
	}
	return r s
}

function dress(word, before,    name)
{
	if (word ~ /^@/)
		return "\\fI" substr(word, 2) "\\fP"
	if (word ~ /^-E/)
		return "\\fB\\" word "\\fP"
	if (word ~ /^\./)	# A member, not the end of a message.
		return before ~ /[a-z0-9A-Z)]/ ? word : "\\fB" word "\\fP"
	if (word ~ /\(/) {
		name = word
		sub(/\(.*/, "", name)
		if (word ~ /^weir_/)
			return "\\fB" name "\\fP(3)"
		sub(/^[^(]*/, "", word)
		return word ~ /^\([1-9]\)$/ ? "\\fB" name "\\fP" word : \
			name word
	}
	return "\\fB" word "\\fP"
}
