/* SPDX-License-Identifier: BSD-3-Clause */

#include <inttypes.h>
#include <stdio.h>

#include "json.h"

/* The length of the UTF-8 character at @s; 0: it is none. */
static int utf8_len(const unsigned char *s)
{
	int n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 :
		s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
	int i;

	for (i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/* A byte that is not UTF-8 becomes a lone surrogate from U+DC80 on, as in
 * Python. */
static void put_string(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	int n;

	putchar('"');
	for (; *p; p += n ? n : 1) {
		n = utf8_len(p);
		if (n == 0)
			printf("\\udc%02x", *p);
		else if (*p == '"' || *p == '\\')
			printf("\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f)
			printf("\\u%04x", *p);
		else
			fwrite(p, 1, (size_t)n, stdout);
	}
	putchar('"');
}

/* Write the separator and the key before a value. */
static void lead(struct json *j, const char *key)
{
	int i;

	if (j->begun)
		putchar(',');
	if (j->depth)
		putchar('\n');
	for (i = 0; i < j->depth; i++)
		fputs("  ", stdout);
	if (key) {
		put_string(key);
		fputs(": ", stdout);
	}
	j->begun = true;
}

void json_open(struct json *j, const char *key, char bracket)
{
	lead(j, key);
	putchar(bracket);
	j->depth++;
	j->begun = false;
}

void json_close(struct json *j, char bracket)
{
	int i;

	j->depth--;
	if (j->begun)
		putchar('\n');
	for (i = 0; j->begun && i < j->depth; i++)
		fputs("  ", stdout);
	putchar(bracket);
	j->begun = true;
	if (!j->depth)
		putchar('\n');
}

void json_string(struct json *j, const char *key, const char *s)
{
	lead(j, key);
	if (s)
		put_string(s);
	else
		fputs("null", stdout);
}

void json_number(struct json *j, const char *key, uint64_t n)
{
	lead(j, key);
	printf("%" PRIu64, n);
}

void json_bool(struct json *j, const char *key, bool b)
{
	lead(j, key);
	fputs(b ? "true" : "false", stdout);
}

void json_null(struct json *j, const char *key)
{
	json_string(j, key, NULL);
}
