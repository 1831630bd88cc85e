/* SPDX-License-Identifier: BSD-3-Clause */

#include <inttypes.h>
#include <stdio.h>

#include "../programs/common/json.h"
#include "json.h"

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
		json_put_string(stdout, key);
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
		json_put_string(stdout, s);
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
