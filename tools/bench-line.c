/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One line of a result: a JSON object whose members are strings, numbers,
 * booleans, null or arrays of numbers, as the programs write it.  The file may
 * come from anywhere, so any other form is an error.
 */

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static char *skip(char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
		p++;
	return p;
}

/* Characters that a string may contain; others could control a terminal. */
static bool is_plain(char c)
{
	return (unsigned char)c >= ' ' && c != '\177';
}

/* The string at *@p, in place and 0-terminated; *@p is set behind it.  The only
 * escapes are those of a quote and a backslash. */
static char *take_string(char **p)
{
	char *from = *p, *to, *text;

	if (*from != '"')
		return NULL;
	text = to = ++from;
	while (*from && *from != '"') {
		if (*from == '\\' && (from[1] == '"' || from[1] == '\\'))
			from++;
		else if (*from == '\\' || !is_plain(*from))
			return NULL;
		*to++ = *from++;
	}
	if (!*from)
		return NULL;
	*p = from + 1;
	*to = '\0';
	return text;
}

static bool take_number(char **p, double *ret)
{
	char *end;

	if (!isdigit((unsigned char)**p) && **p != '-')
		return false;
	*ret = strtod(*p, &end);
	if (end == *p || !isfinite(*ret))
		return false;
	*p = end;
	return true;
}

/* The most numbers that an array beginning at @p can have. */
static size_t count(const char *p)
{
	size_t n = 1;

	for (; *p && *p != ']'; p++)
		n += *p == ',';
	return n;
}

static int take_array(char **p, struct member *m)
{
	char *at = skip(*p + 1);

	m->array = malloc(count(at) * sizeof(*m->array));
	if (!m->array)
		return -ENOMEM;
	while (*at != ']') {
		if (!take_number(&at, &m->array[m->n]))
			return -EINVAL;
		m->n++;
		at = skip(at);
		if (*at == ',')
			at = skip(at + 1);
		else if (*at != ']')
			return -EINVAL;
	}
	*p = at + 1;
	return 0;
}

static int take_word(char **p, struct member *m)
{
	static const struct {
		const char *word;
		double number;
	} words[] = { { "true", 1 }, { "false", 0 }, { "null", NAN } };
	size_t len;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		len = strlen(words[i].word);
		if (!strncmp(*p, words[i].word, len)) {
			m->number = words[i].number;
			*p += len;
			return 0;
		}
	}
	return -EINVAL;
}

static int take_value(char **p, struct member *m)
{
	if (**p == '"') {
		m->text = take_string(p);
		return m->text ? 0 : -EINVAL;
	}
	if (**p == '[')
		return take_array(p, m);
	if (take_number(p, &m->number))
		return 0;
	return take_word(p, m);
}

static int take_member(struct line *line, char **p)
{
	struct member *m;
	char *key;

	if (line->n == MEMBERS_MAX)
		return -EINVAL;
	key = take_string(p);
	*p = skip(*p);
	if (!key || **p != ':')
		return -EINVAL;
	*p = skip(*p + 1);
	m = &line->member[line->n++];
	*m = (struct member){ .key = key, .number = NAN };
	return take_value(p, m);
}

static int take_members(struct line *line, char *p)
{
	int err;

	p = skip(p);
	if (*p != '{')
		return -EINVAL;
	p = skip(p + 1);
	while (*p != '}') {
		err = take_member(line, &p);
		if (err)
			return err;
		p = skip(p);
		if (*p == ',')
			p = skip(p + 1);
		else if (*p != '}')
			return -EINVAL;
	}
	return *skip(p + 1) ? -EINVAL : 0;
}

int line_parse(struct line *line, char *text)
{
	int err;

	line->n = 0;
	err = take_members(line, text);
	if (err)
		line_free(line);
	return err;
}

void line_free(struct line *line)
{
	for (size_t i = 0; i < line->n; i++)
		free(line->member[i].array);
	line->n = 0;
}

const struct member *line_find(const struct line *line, const char *key)
{
	for (size_t i = 0; i < line->n; i++)
		if (!strcmp(line->member[i].key, key))
			return &line->member[i];
	return NULL;
}

const char *line_text(const struct line *line, const char *key)
{
	const struct member *m = line_find(line, key);

	return m && m->text ? m->text : "";
}

double line_number(const struct line *line, const char *key)
{
	const struct member *m = line_find(line, key);

	return m ? m->number : NAN;
}
