# SPDX-License-Identifier: BSD-3-Clause
# The blocks of code in a document or in the comments of a header, as one C file.
#
#	awk -f snippets.awk FILE >OUTPUT.c
#
# A block is indented by four blanks (.md) or by a tab (comments), or fenced by
# ```c; it is code if a line ends with ; or { or }.  A block that begins with a
# declaration of a function, a struct or #include stands by itself, and any other
# becomes the body of a function; "..." is what the reader has there.  What the
# blocks name is declared in tests/support/snippets.h.

function strip(line)
{
	if (header)
		sub(/^ \*\t/, "", line)
	else if (!fenced)
		sub(/^    /, "", line)
	return line
}

function is_top(line)
{
	return line ~ /^(static|const struct|struct [a-z_]+ \{|#include|typedef|enum [a-z_]+ \{)/ &&
		line !~ /^static [^(]*=/
}

# Whether the lines from @i on, up to a blank one, have an end of a statement.
function is_code(i,    text)
{
	text = ""
	for (; i <= n && block[i] != ""; i++)
		text = text block[i] "\n"
	return text ~ /[;{}][ \t]*(\/[\/*][^\n]*)?[ \t]*\n/
}

# What stands by itself goes to @top, all else of a block into one function.
function flush_block(    text, i, all, part, in_top, in_code, depth, body, c)
{
	all = ""
	for (i = 1; i <= n; i++)
		all = all block[i] "\n"
	if (all !~ /[;{}][ \t]*(\/[\/*][^\n]*)?[ \t]*\n/ || all ~ /int main\(/ ||
	    all ~ /(^|\n)#define / || block[1] ~ /^(cc|make|\$) /) {
		n = 0
		return
	}
	body = ""
	in_top = depth = 0
	for (i = 1; i <= n; i++) {
		text = block[i]
		if (depth == 0 && (i == 1 || block[i - 1] == "")) {
			in_top = is_top(text)
			in_code = is_code(i)
		}
		if (!in_code)
			continue
		c = text
		depth += gsub(/\{/, "", c) - gsub(/\}/, "", c)
		gsub(/\.\.\.;?/, "", text)
		sub(/<weir-nbd\/plugin.h>/, "\"programs/block/plugin.h\"", text)
		part = sprintf("#line %d \"%s\"\n%s\n", first + i - 1, name, text)
		if (in_top)
			printf "%s", part
		else
			body = body part
	}
	if (body != "")
		printf "static void block_%d(void)\n{\n%s}\n", first, body
	n = 0
}

FNR == 1 {
	header = FILENAME ~ /\.h$/
	name = FILENAME
	print "#include \"tests/support/snippets.h\""
}
!header && /^```c$/ { fenced = 1; next }
!header && fenced && /^```$/ { flush_block(); fenced = 0; next }
{
	inside = header ? /^ \*\t/ : fenced || /^    /
	# A blank line does not end a block that goes on behind it.
	if (!inside && n && (header ? /^ \*$/ : /^$/)) {
		blank = 1
		next
	}
	if (!inside && n)
		flush_block()
	if (inside) {
		if (!n)
			first = FNR
		else if (blank)
			block[++n] = ""
		block[++n] = strip($0)
	}
	blank = 0
}
END { flush_block() }
