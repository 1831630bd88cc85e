/* SPDX-License-Identifier: BSD-3-Clause */
/* The resolver's own names: lines as in hosts(5). */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "resolve/resolve.h"

#define TABLE_MAX 4096
#define BLANKS " \t\r"

static int add(struct weir_resolver *v, const char *name, uint32_t *capacity,
	       const struct weir_resolve_address *addr)
{
	struct entry *more;

	if (v->n_table == TABLE_MAX)
		return weir_why_set(-EINVAL, "weir_resolver_create: .table has more "
				    "than %d addresses", TABLE_MAX);
	if (v->n_table == *capacity) {
		*capacity = *capacity ? 2 * *capacity : 16;
		more = realloc(v->table, *capacity * sizeof(*more));
		if (!more)
			return -ENOMEM;
		v->table = more;
	}
	v->table[v->n_table].addr = *addr;
	v->table[v->n_table].name = strdup(name);
	return v->table[v->n_table++].name ? 0 : -ENOMEM;
}

static int load_line(struct weir_resolver *v, char *line, uint32_t *capacity)
{
	struct weir_resolve_address addr;
	char *save, *word;
	int err = 0;

	line[strcspn(line, "#")] = 0;
	word = strtok_r(line, BLANKS, &save);
	if (!word)
		return 0;
	if (!address_parse(&addr, word))
		return weir_why_set(-EINVAL, "weir_resolver_create: \"%s\" in .table "
				    "is not an address", word);
	word = strtok_r(NULL, BLANKS, &save);
	if (!word)
		return weir_why_set(-EINVAL, "weir_resolver_create: an address in "
				    ".table has no name");
	for (; word && !err; word = strtok_r(NULL, BLANKS, &save))
		err = add(v, word, capacity, &addr);
	return err;
}

int table_load(struct weir_resolver *v, const char *text)
{
	char *copy = strdup(text), *save, *line;
	uint32_t capacity = 0;
	int err = copy ? 0 : -ENOMEM;

	for (line = copy ? strtok_r(copy, "\n", &save) : NULL; line && !err;
	     line = strtok_r(NULL, "\n", &save))
		err = load_line(v, line, &capacity);
	free(copy);
	return err;
}

void table_free(struct weir_resolver *v)
{
	for (uint32_t i = 0; i < v->n_table; i++)
		free(v->table[i].name);
	free(v->table);
}

static bool is_name(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b);

	a_len -= a_len && a[a_len - 1] == '.';
	b_len -= b_len && b[b_len - 1] == '.';
	return a_len == b_len && !strncasecmp(a, b, a_len);
}

bool table_find(const struct weir_resolver *v, const struct query *q,
		struct found *ret)
{
	const struct weir_resolve_address *a;
	bool is_there = false;

	for (uint32_t i = 0; i < v->n_table; i++) {
		if (!is_name(v->table[i].name, q->name))
			continue;
		is_there = true;
		a = &v->table[i].addr;
		if (ret && (!q->family || a->addr.sa.sa_family == q->family))
			found_add(ret, &a->addr.sa, UINT32_MAX, q->port);
	}
	return is_there;
}
