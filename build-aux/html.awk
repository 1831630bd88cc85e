# SPDX-License-Identifier: BSD-3-Clause
#
# A text of this tree as HTML, or the part of it between <main> and </main>.
#
#	awk -f html.awk TEXT.md >PART.html
#	awk -v index_of=ADDRESS -f html.awk TEXT.md	rows of the search's index
#
# It knows the Markdown that is used here: headings, paragraphs, lists, tables, code
# in fences or indented, pictures, links, code, bold and italics in a line.

function escape(s)
{
	gsub(/&/, "\\&amp;", s)
	gsub(/</, "\\&lt;", s)
	gsub(/>/, "\\&gt;", s)
	return s
}

# As GitHub makes the anchor of a heading.
function anchor(s)
{
	s = tolower(s)
	gsub(/[`*]/, "", s)
	gsub(/\]\([^)]*\)/, "", s)
	gsub(/[^a-z0-9 _-]/, "", s)
	gsub(/ /, "-", s)
	return s
}

# Texts and sources have pages of their own; what is no file has none.
function address(to,    at, rest)
{
	at = index(to, "#")
	rest = at ? substr(to, at) : ""
	if (at)
		to = substr(to, 1, at - 1)
	if (to == "" || to ~ /^https?:/ || to ~ /\.svg$/)
		return to rest
	if (sub(/\.md$/, ".html", to))
		return to rest
	return to ~ /\/[^\/]*\.[a-z]+$|^[^\/]*\.[a-z]+$/ ? to ".html" rest : ""
}

# Code, pictures, links, bold and italics in a line.
function inline(s,    out, text, to)
{
	out = ""
	while (match(s, /`[^`]*`|!?\[([^][]|`[^`]*`)*\]\([^)]*\)|\*\*[^*]+\*\*|\*[A-Za-z][^*]*[A-Za-z]\*/)) {
		out = out escape(substr(s, 1, RSTART - 1))
		text = substr(s, RSTART, RLENGTH)
		s = substr(s, RSTART + RLENGTH)
		if (text ~ /^`/) {
			out = out "<code>" escape(substr(text, 2,
				length(text) - 2)) "</code>"
		} else if (text ~ /^\*\*/) {
			out = out "<b>" inline(substr(text, 3,
				length(text) - 4)) "</b>"
		} else if (text ~ /^\*/) {
			out = out "<i>" inline(substr(text, 2,
				length(text) - 2)) "</i>"
		} else {
			to = text
			sub(/.*\]\(/, "", to)
			sub(/\)$/, "", to)
			sub(/\]\([^)]*\)$/, "", text)
			if (text ~ /^!/)
				out = out "<img src=\"" to "\" alt=\"" \
					escape(substr(text, 3)) "\">"
			else if (address(to) == "")
				out = out inline(substr(text, 2))
			else
				out = out "<a href=\"" address(to) "\">" \
					inline(substr(text, 2)) "</a>"
		}
	}
	return out escape(s)
}

function put(s) { if (index_of == "") print s }

# Without a newline, which would be shown.
function begin_code() { if (index_of == "") printf "<pre><code>" }

# The end of a paragraph, a list, a table or indented code.
function end_block()
{
	if (para != "")
		put((in_item ? "" : "<p>") inline(para) (in_item ? "" : "</p>"))
	para = ""
	if (in_item)
		put("</li>")
	in_item = 0
	if (list != "")
		put("</" list ">")
	list = ""
	if (in_table)
		put("</tbody></table>")
	in_table = 0
	if (in_code)
		put("</code></pre>")
	in_code = 0
}

function row(line, cell,    n, c, i)
{
	gsub(/\\\|/, "\001", line)
	sub(/^\| */, "", line)
	sub(/ *\|$/, "", line)
	n = split(line, c, / *\| */)
	line = "<tr>"
	for (i = 1; i <= n; i++) {
		gsub(/\001/, "|", c[i])
		line = line "<" cell ">" inline(c[i]) "</" cell ">"
	}
	return line "</tr>"
}

in_fence {
	if (/^```/) {
		in_fence = 0
		put("</code></pre>")
	} else {
		put(escape($0))
	}
	next
}
/^```/ {
	end_block()
	in_fence = 1
	begin_code()
	next
}
/^<!--.*-->$/ { next }

/^#+ / {
	end_block()
	match($0, /^#+/)
	level = RLENGTH
	text = substr($0, level + 2)
	id = anchor(text)
	if (id in ids)
		id = id "-" ids[id]++
	else
		ids[id] = 1
	put("<h" level " id=\"" id "\">" inline(text) "</h" level ">")
	if (level == 1)
		title = text
	if (index_of != "" && level < 3) {
		gsub(/[`\\"]/, "", text)
		printf "[\"%s\", \"%s\", \"%s\"],\n", text,
			index_of (level > 1 ? "#" id : ""),
			(level > 1 ? title : "")
	}
	next
}

/^\|/ {
	if (!in_table) {
		end_block()
		in_table = 1
		# A head without a word is none.
		put("<table>" (/[^| ]/ ? "<thead>" row($0, "th") "</thead>" : "") \
			"<tbody>")
		next
	}
	if (!/^\|[-|: ]+\|$/)
		put(row($0, "td"))
	next
}

/^(-|[0-9]+\.) / && (list != "" || para == "") {
	kind = /^-/ ? "ul" : "ol"
	if (para != "")
		put(inline(para))
	para = ""
	if (in_item)
		put("</li>")
	if (list != kind) {
		in_item = 0
		end_block()
		put("<" kind ">")
		list = kind
	}
	put("<li>")
	in_item = 1
	sub(/^(-|[0-9]+\.) +/, "")
	para = $0
	next
}
in_item && /^  +[^ ]/ && para != "" {
	sub(/^ +/, "")
	para = para "\n" $0
	next
}

# A tab, or 4 blanks, and what is blank between such lines.
(/^(    |\t)/ && para == "") || (in_code && /^$/) {
	if (/^$/) {
		blanks++
		next
	}
	if (!in_code) {
		end_block()
		begin_code()
		in_code = 1
		blanks = 0
	}
	for (; blanks; blanks--)
		put("")
	sub(/^(    |\t)/, "")
	put(escape($0))
	next
}

/^$/ {
	if (!in_item)
		end_block()
	else
		loose = 1
	next
}
{
	if (in_code || in_table || (in_item && loose))
		end_block()
	loose = 0
	para = para (para == "" ? "" : "\n") $0
}
END { end_block() }
