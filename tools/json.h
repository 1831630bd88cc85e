/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

/*
 * JSON to standard output, member by member.
 *
 * @key is the member's name; NULL in an array.  The writer inserts commas.
 */

#include <stdbool.h>
#include <stdint.h>

struct json {
	int depth;
	bool begun;	/* The innermost has a member. */
};

/* @bracket is '{' or '['; json_close() gets the closing one. */
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);

/* NULL is null. */
void json_string(struct json *j, const char *key, const char *s);
void json_number(struct json *j, const char *key, uint64_t n);
void json_bool(struct json *j, const char *key, bool b);
void json_null(struct json *j, const char *key);

#endif /* TOOLS_JSON_H */
