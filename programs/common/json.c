/* SPDX-License-Identifier: CC0-1.0 */
/* Strings of JSON. */
#include "json.h"

/* The length of the UTF-8 character at @s, 0 if it is none. */
static int utf8_len(const unsigned char *s)
{
	int n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 :
		s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

void json_put_string(FILE *out, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	int n;

	putc('"', out);
	for (; *p; p += n ? n : 1) {
		n = utf8_len(p);
		if (n == 0)
			fprintf(out, "\\udc%02x", *p);
		else if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f)
			fprintf(out, "\\u%04x", *p);
		else
			fwrite(p, 1, (size_t)n, out);
	}
	putc('"', out);
}
