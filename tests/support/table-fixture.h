/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_TABLE_FIXTURE_H
#define TESTS_TABLE_FIXTURE_H

/*
 * The tables of the READMEs, call by state, checked against the program: the
 * test goes by what the page says, so that neither can change alone.
 *
 *	static const struct table_call calls[] = {
 *		{ "start", call_start }, { "stop", call_stop }, ...
 *	};
 *	static const char *const columns[] = { "STOPPED", "STARTED" };
 *
 *	struct table t;
 *	struct table_cell c;
 *
 *	table_open(&t, "docs/internals/mem.md", "mmap: call by state",
 *		   calls, N_OF(calls), columns, N_OF(columns));
 *	while (table_next(&t, &c)) {
 *		fixture_begin(&g, (enum column)c.column);
 *		table_result(&c, c.call->fn(&g));
 *		... and, if c.then says a state, that it is the state now
 *		fixture_end(&g);
 *	}
 *	table_close(&t);
 *
 * table_open() fails the test unless the page has exactly these calls and
 * columns.  A row may name several calls with the same results: "ref, put".  A
 * cell begins with the result, and says after an arrow what follows from it:
 *
 *	0                    and nothing else
 *	>= 0 or ≥ 0          a count
 *	-EBUSY; why          this errno
 *	0 → STARTED, text    then is "STARTED"
 *	–                    the call cannot be made here: the cell is left out
 */

#include "tests/support/harness.h"

#include <ctype.h>

#define TABLE_ROWS_MAX 96
#define TABLE_COLUMNS_MAX 12

struct table_call {
	const char *name;
	int (*fn)(void *fixture);
};

struct table_cell {
	const struct table_call *call;
	int column; /* Index in the test's list. */
	const char *column_name;
	const char *text; /* All of the cell. */
	int want; /* 0, or the negative errno. */
	bool or_more; /* Any result >= 0 will do. */
	char then[32]; /* What follows the arrow; "": nothing does. */
};

struct table {
	const char *file, *heading;
	char *text; /* Of the file, cut into cells. */
	char *cells[TABLE_ROWS_MAX][TABLE_COLUMNS_MAX]; /* 0, x: the head. */
	int n_rows, n_columns;
	const struct table_call *calls;
	size_t n_calls;
	const char *const *columns;
	int column_of[TABLE_COLUMNS_MAX];
	int row, column; /* Where table_next() is. */
	size_t call;
};

static inline char *table_read(const char *file)
{
	const char *dirs[] = { getenv("srcdir"), ".", "..", "../.." };
	char path[512], *text = NULL;
	long len;
	size_t i;
	FILE *f;

	for (i = 0; i < N_OF(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i] ? dirs[i] : ".",
			 file);
		f = fopen(path, "r");
		if (f)
			break;
	}
	if (i == N_OF(dirs))
		fail_msg("%s is neither in $srcdir nor near here", file);
	fseek(f, 0, SEEK_END);
	len = ftell(f);
	rewind(f);
	text = calloc(1, (size_t)len + 1);
	assert_int_equal(fread(text, 1, (size_t)len, f), len);
	fclose(f);
	return text;
}

static inline char *table_trim(char *s)
{
	char *end;

	while (*s == ' ')
		s++;
	for (end = s + strlen(s); end > s && end[-1] == ' '; end--)
		;
	*end = '\0';
	return s;
}

/* "| a | b |", without its end of line, to cells.  Returns how many. */
static inline int table_cut(char *line, char **cells)
{
	int n = 0;
	char *bar;

	for (line++; (bar = strchr(line, '|')); line = bar + 1) {
		*bar = '\0';
		assert_true(n < TABLE_COLUMNS_MAX);
		cells[n++] = table_trim(line);
	}
	return n;
}

/* The lines that begin with a bar, after "### heading". */
static inline void table_load(struct table *t)
{
	char *line = t->text, *next;
	bool found = false;
	int n;

	for (; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line == '#') {
			if (found)
				break;
			line += strspn(line, "# ");
			found = !strcmp(line, t->heading);
		} else if (found && *line == '|' && line[1] != '-') {
			assert_true(t->n_rows < TABLE_ROWS_MAX);
			n = table_cut(line, t->cells[t->n_rows]);
			if (!t->n_rows)
				t->n_columns = n;
			if (n != t->n_columns)
				fail_msg("%s, %s: %d cells in row %s", t->file,
					 t->heading, n, t->cells[t->n_rows][0]);
			t->n_rows++;
		}
	}
	if (t->n_rows < 2)
		fail_msg("%s has no table \"%s\"", t->file, t->heading);
}

/* Whether the row's name, "a, b", has @name.  */
static inline bool table_names(const char *row, const char *name)
{
	size_t len = strlen(name);
	const char *p;

	for (p = row; (p = strstr(p, name)); p++)
		if ((p == row || (p[-1] == ' ' && p[-2] == ',')) &&
		    (!p[len] || p[len] == ','))
			return true;
	return false;
}

static inline void table_check_columns(struct table *t, size_t n)
{
	int col;
	size_t i;

	if (n != (size_t)t->n_columns - 1)
		fail_msg("%s, %s: %d columns, the test has %zu", t->file,
			 t->heading, t->n_columns - 1, n);
	for (col = 1; col < t->n_columns; col++) {
		for (i = 0; i < n; i++)
			if (!strcmp(t->columns[i], t->cells[0][col]))
				break;
		if (i == n)
			fail_msg("%s, %s: the test lacks column \"%s\"",
				 t->file, t->heading, t->cells[0][col]);
		t->column_of[col] = (int)i;
	}
}

/* How many calls "a, b(c, d)" names. */
static inline int table_count(const char *row)
{
	int n = 1, depth = 0;

	for (; *row; row++) {
		depth += *row == '(' ? 1 : *row == ')' ? -1 : 0;
		n += *row == ',' && !depth;
	}
	return n;
}

/* Each of the test's calls is in one row, and no row has others. */
static inline void table_check_calls(struct table *t)
{
	int row, named[TABLE_ROWS_MAX] = { 0 }, rows;
	size_t i;

	for (i = 0; i < t->n_calls; i++) {
		for (rows = 0, row = 1; row < t->n_rows; row++)
			if (table_names(t->cells[row][0], t->calls[i].name)) {
				named[row]++;
				rows++;
			}
		if (rows != 1)
			fail_msg("%s, %s: %d rows for \"%s\"", t->file,
				 t->heading, rows, t->calls[i].name);
	}
	for (row = 1; row < t->n_rows; row++)
		if (named[row] != table_count(t->cells[row][0]))
			fail_msg("%s, %s: the test does not do all of \"%s\"",
				 t->file, t->heading, t->cells[row][0]);
}

static inline void table_open(struct table *t, const char *file,
			      const char *heading,
			      const struct table_call *calls, size_t n_calls,
			      const char *const *columns, size_t n_columns)
{
	memset(t, 0, sizeof(*t));
	t->file = file;
	t->heading = heading;
	t->calls = calls;
	t->n_calls = n_calls;
	t->columns = columns;
	t->text = table_read(file);
	table_load(t);
	table_check_columns(t, n_columns);
	table_check_calls(t);
	t->row = 1;
}

static inline int table_errno(const char *name, size_t len)
{
	static const struct {
		const char *name;
		int err;
	} errs[] = {
#define E(name) { #name, name }
		E(E2BIG),           E(EACCES),
		E(EAGAIN),          E(EALREADY),
		E(EBADF),           E(EBADFD),
		E(EBUSY),           E(ECONNREFUSED),
		E(ECONNRESET),      E(EHOSTUNREACH),
		E(ECANCELED),       E(EDOM),
		E(EEXIST),          E(EFAULT),
		E(EINVAL),          E(EIO),
		E(EKEYREJECTED),    E(EMSGSIZE),
		E(ENOBUFS),         E(ENODATA),
		E(ENODEV),          E(ENOENT),
		E(ENOKEY),          E(ENOMEM),
		E(ENOSPC),          E(ENOTCONN),
		E(EOPNOTSUPP),      E(EPERM),
		E(EPIPE),           E(EPROTO),
		E(EPROTONOSUPPORT), E(ERANGE),
		E(ESHUTDOWN),       E(ESPIPE),
		E(ESRCH),           E(ESTALE),
		E(ETIMEDOUT),       E(EXDEV),
#undef E
	};
	size_t i;

	for (i = 0; i < N_OF(errs); i++)
		if (strlen(errs[i].name) == len &&
		    !strncmp(errs[i].name, name, len))
			return errs[i].err;
	return 0;
}

/* False if there is nothing to do in this cell. */
static inline bool table_parse(const struct table *t, struct table_cell *c)
{
	const char *s = c->text, *arrow = strstr(s, "→");
	size_t len;

	c->want = 0;
	c->or_more = false;
	c->then[0] = '\0';
	if (arrow) {
		arrow += strlen("→");
		arrow += strspn(arrow, " ");
		len = strcspn(arrow, ",;");
		snprintf(c->then, sizeof(c->then), "%.*s", (int)len, arrow);
	}
	if (!strcmp(s, "–"))
		return false;
	if (*s == '-') {
		for (len = 0; isupper((unsigned char)s[1 + len]) ||
			      isdigit((unsigned char)s[1 + len]);
		     len++)
			;
		c->want = -table_errno(s + 1, len);
		if (c->want)
			return true;
	} else if (*s == '0' && strchr(" ,;:", s[1])) {
		return true; /* The end counts as one of these. */
	} else if (!strncmp(s, ">= 0", 4) || !strncmp(s, "≥ 0", 5)) {
		c->or_more = true;
		return true;
	}
	fail_msg("%s, %s: no result in \"%s\" of %s", t->file, t->heading, s,
		 c->call->name);
	return false;
}

/* The next cell that says a result: by row, by call of it, by column. */
static inline bool table_next(struct table *t, struct table_cell *c)
{
	for (; t->row < t->n_rows; t->row++, t->call = 0) {
		for (; t->call < t->n_calls; t->call++, t->column = 0) {
			c->call = &t->calls[t->call];
			if (!table_names(t->cells[t->row][0], c->call->name))
				continue;
			while (++t->column < t->n_columns) {
				c->column = t->column_of[t->column];
				c->column_name = t->columns[c->column];
				c->text = t->cells[t->row][t->column];
				if (table_parse(t, c))
					return true;
			}
		}
	}
	return false;
}

static inline void table_result(const struct table_cell *c, int got)
{
	if (got == c->want || (c->or_more && got > 0))
		return;
	fail_msg("%s in \"%s\": %d, but the page says \"%s\"", c->call->name,
		 c->column_name, got, c->text);
}

static inline void table_close(struct table *t)
{
	free(t->text);
}

#endif /* TESTS_TABLE_FIXTURE_H */
