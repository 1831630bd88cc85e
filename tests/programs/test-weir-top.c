/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weir top, as a program: beside a child that works, in its three formats, on a
 * terminal, and with nothing to see.
 *
 * Environment: WEIR is the program.
 */

#include "tests/support/stats-fixture.h"

#include <ctype.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <weir/pool.h>

#include "reactor/stats/page.h"

/*
 * A reader of Prometheus' text format.  It fails the test for text that promtool
 * rejects: lines of another form, samples of a name that are not together or
 * have no HELP and TYPE, counters whose name does not end in _total, and wrong
 * histograms.
 */

#define PROM_NAMES_MAX 512

struct prom {
	char name[128]; /* Of the samples that come. */
	char type[16];
	char names[PROM_NAMES_MAX][128];
	int n_names;
	int samples;
	bool helped, typed;
	uint64_t below; /* Of the last bucket. */
	double le;
	bool ended; /* With +Inf. */
};

static const char *prom_name(const char *p, char name[128])
{
	size_t n = 0;

	assert_true(isalpha(*p) || *p == '_' || *p == ':');
	while (isalnum(*p) || *p == '_' || *p == ':') {
		assert_true(n < 127);
		name[n++] = *p++;
	}
	name[n] = '\0';
	return p;
}

static void prom_begin(struct prom *prom, const char *name)
{
	for (int i = 0; i < prom->n_names; i++)
		if (!strcmp(prom->names[i], name))
			fail_msg("%s comes up again", name);
	assert_true(prom->n_names < PROM_NAMES_MAX);
	snprintf(prom->names[prom->n_names++], 128, "%s", name);
	snprintf(prom->name, sizeof(prom->name), "%s", name);
	prom->helped = true;
	prom->typed = false;
}

static void prom_comment(struct prom *prom, const char *line)
{
	char name[128];
	const char *p;

	if (!strncmp(line, "# HELP ", 7)) {
		p = prom_name(line + 7, name);
		assert_int_equal(*p, ' ');
		while ((p = strchr(p, '\\'))) {
			assert_true(p[1] == '\\' || p[1] == 'n');
			p += 2;
		}
		prom_begin(prom, name);
		return;
	}
	assert_int_equal(strncmp(line, "# TYPE ", 7), 0);
	p = prom_name(line + 7, name);
	assert_true(prom->helped && !strcmp(name, prom->name));
	snprintf(prom->type, sizeof(prom->type), "%s", p + 1);
	assert_true(!strcmp(prom->type, "counter") ||
		    !strcmp(prom->type, "gauge") ||
		    !strcmp(prom->type, "histogram"));
	if (!strcmp(prom->type, "counter"))
		assert_string_equal(name + strlen(name) - 6, "_total");
	prom->typed = true;
	prom->helped = false;
}

/* Behind the labels at @p, of which "le" is put to @le. */
static const char *prom_labels(const char *p, char le[32])
{
	char name[128];
	size_t n;

	while (*p != '}') {
		p = prom_name(p, name);
		assert_int_equal(strncmp(p, "=\"", 2), 0);
		for (p += 2, n = 0; *p && *p != '"'; p++) {
			if (*p == '\\')
				p++;
			if (!strcmp(name, "le") && n < 31)
				le[n++] = *p;
		}
		assert_int_equal(*p++, '"');
		if (!strcmp(name, "le"))
			le[n] = '\0';
		if (*p == ',')
			p++;
	}
	return p + 1;
}

static void prom_bucket(struct prom *prom, const char *le,
			       uint64_t value)
{
	double end = !strcmp(le, "+Inf") ? 1e300 : strtod(le, NULL);

	if (prom->ended || end < prom->le)
		prom->below = 0;
	else
		assert_true(end > prom->le);
	assert_true(value >= prom->below);
	prom->below = value;
	prom->le = end;
	prom->ended = end == 1e300;
}

static void prom_sample(struct prom *prom, const char *line)
{
	char name[128], le[32] = "", *end;
	const char *p = prom_name(line, name), *suffix;
	size_t len = strlen(prom->name);
	double value;

	if (*p == '{')
		p = prom_labels(p + 1, le);
	assert_int_equal(*p, ' ');
	value = strtod(p + 1, &end);
	assert_true(end > p + 1 && !*end);
	assert_true(prom->typed && !strncmp(name, prom->name, len));
	suffix = name + len;
	prom->samples++;
	if (strcmp(prom->type, "histogram")) {
		assert_string_equal(suffix, "");
	} else if (!strcmp(suffix, "_bucket")) {
		prom_bucket(prom, le, (uint64_t)value);
	} else if (!strcmp(suffix, "_count")) {
		assert_true(prom->ended && (uint64_t)value == prom->below);
	} else {
		assert_string_equal(suffix, "_sum");
	}
}

/* All of @text, which is taken apart.  Returns how many samples there are. */
static int prom_check(char *text)
{
	static struct prom prom;
	char *line, *next;

	memset(&prom, 0, sizeof(prom));
	for (line = text; *line; line = next) {
		next = strchr(line, '\n');
		assert_non_null(next);
		*next++ = '\0';
		if (*line == '#')
			prom_comment(&prom, line);
		else
			prom_sample(&prom, line);
	}
	return prom.samples;
}

#define TEXT_MAX (1 << 20)

static char text[TEXT_MAX], said[4096];
static size_t text_len;

static const char *program(void)
{
	const char *s = getenv("WEIR");

	return s ? s : "tools/weir";
}

static struct rec rec;

static void child_works(uint32_t backend)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = backend };
	struct weir_pool *pool;
	struct weir_reactor *r;

	alarm(60);
	if (weir_reactor_create(&r, &opts) ||
	    weir_pool_create(&pool, r, NULL))
		_exit(3);
	for (;;) {
		rec_init(&rec);
		if (weir_nop(r, &rec.op))
			_exit(4);
		while (!rec.calls)
			weir_reactor_turn(r, WEIR_FOREVER);
	}
}

static pid_t fork_child(void **state, const char *how)
{
	uint32_t backend = backend_of(*state);
	char stats[512];
	pid_t pid;

	snprintf(stats, sizeof(stats), "%s%s", how, test_dir(state));
	assert_int_equal(chmod(test_dir(state), 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", stats, 1), 0);
	pid = fork();
	if (!pid)
		child_works(backend);
	assert_true(pid > 0);
	return pid;
}

static pid_t begin_child(void **state)
{
	pid_t pid = fork_child(state, "");
	struct weir_stats *s = NULL;
	bool there = false;

	for (; !there; nap()) {
		if (weir_stats_open(&s, pid))
			continue;
		there = find_section(s, "operation", "nop") >= 0;
		weir_stats_close(s);
	}
	return pid;
}

static void end_child(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unsetenv("WEIR_STATS");
}

/* weir top with the words of @args; its output in text, what it says in said.
 * Returns its status. */
static int top(void **state, const char *args)
{
	char command[512];
	FILE *f;
	size_t n;
	int status;

	snprintf(command, sizeof(command), "%s top %s 2>%s", program(), args,
		 test_path(state, "said"));
	f = popen(command, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	status = pclose(f);
	f = fopen(test_path(state, "said"), "r");
	assert_non_null(f);
	n = fread(said, 1, sizeof(said) - 1, f);
	said[n] = '\0';
	fclose(f);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int top_of(void **state, const char *args, pid_t pid)
{
	char all[256];

	snprintf(all, sizeof(all), "%s %d", args, (int)pid);
	return top(state, all);
}

static void fits_columns(const char *s)
{
	const char *end;

	for (; *s; s = end + 1) {
		end = strchr(s, '\n');
		assert_non_null(end);
		assert_true(end - s <= 80);
	}
}

static void text_is_for_people(void **state)
{
	pid_t pid = begin_child(state);

	assert_int_equal(top_of(state, "--once", pid), 0);
	assert_string_equal(said, "");
	assert_non_null(strstr(text, "REACTOR"));
	assert_non_null(strstr(text, "\n1    "));
	assert_non_null(strstr(text, "nop"));
	assert_non_null(strstr(text, "pool 65536 B"));
	fits_columns(text);
	assert_int_equal(top_of(state, "-n 3 -i 0.05", pid), 0);
	assert_non_null(strstr(strstr(text, "REACTOR") + 1, "REACTOR"));
	assert_int_equal(top(state, ""), 0);
	assert_non_null(strstr(text, "weir 0."));
	end_child(pid);
}

/* The child's page has nothing until then. */
static void top_has_a_process_measure_that_offers_it(void **state)
{
	pid_t pid = fork_child(state, "offer:");
	struct weir_stats *s = NULL;
	bool there = false;

	for (; !there; nap()) {
		if (weir_stats_open(&s, pid))
			continue;
		there = find_section(s, "reactor", "") >= 0;
		if (there)
			assert_int_equal(value_of(s, "reactor", "", "completed"),
					 0);
		weir_stats_close(s);
	}
	assert_int_equal(top(state, ""), 0);
	assert_non_null(strstr(text, ", when looked at"));
	do {
		assert_int_equal(top_of(state, "--once", pid), 0);
		assert_string_equal(said, "");
	} while (!strstr(text, "nop"));
	/* Not since the beginning, of which nothing was measured. */
	assert_null(strstr(text, "Rates are means since"));
	end_child(pid);
}

/* Where the next unit begins, rounded as it is shown. */
static const struct {
	const char *shown;
	uint64_t value;
	uint8_t unit;
} edges[] = {
	{ "a 99999 ", 99999, 0 },
	{ "a 100.0k ", 100000, 0 },
	{ "a 9999.9k ", 9999949, 0 },
	{ "a 10.0M ", 9999951, 0 },
	{ "a 100.0M ", 99999960, 0 },
	{ "a 999ns ", 999, WEIR_STATS_NS },
	{ "a 999.9us ", 999949, WEIR_STATS_NS },
	{ "a 1.0ms ", 999951, WEIR_STATS_NS },
	{ "a 1.0s ", 999950001, WEIR_STATS_NS },
};

static void numbers_have_the_unit_that_they_are_rounded_to(void **state)
{
	struct stats_field fields[N_OF(edges)][2] = { 0 };
	struct stats_kind kinds[N_OF(edges)];
	struct stats_record *record[N_OF(edges)];
	char name[N_OF(edges)][16];
	size_t i;

	publish_here(state);
	for (i = 0; i < N_OF(edges); i++) {
		fields[i][0] = (struct stats_field){
			"a", "", WEIR_STATS_GAUGE, edges[i].unit, 0 };
		fields[i][1] = (struct stats_field)STATS_NOW("b", "");
		snprintf(name[i], sizeof(name[i]), "edge-%zu", i);
		kinds[i] = (struct stats_kind)STATS_KIND(name[i], fields[i]);
		record[i] = stats_record_add(&kinds[i], 0, "");
		assert_non_null(record[i]);
		stats_put(record[i], 1, (uint64_t[]){ edges[i].value, 1 });
	}
	assert_int_equal(top_of(state, "--once", getpid()), 0);
	for (i = 0; i < N_OF(edges); i++) {
		if (!strstr(text, edges[i].shown))
			fail_msg("no '%s' in: %s", edges[i].shown, text);
		stats_record_del(record[i]);
	}
	publish_no_more(state);
}

/* What Prometheus takes; and promtool, where there is one. */
static void prometheus_can_read_the_output_of_top(void **state)
{
	pid_t pid = begin_child(state);
	char command[512];

	assert_int_equal(top_of(state, "--prometheus", pid), 0);
	assert_non_null(strstr(text, "weir_operation_latency_seconds_bucket"));
	assert_non_null(strstr(text, "weir_reactor_busy_seconds_total{"));
	assert_true(prom_check(text) > 50);
	assert_int_equal(top(state, "--prometheus"), 0);
	assert_true(prom_check(text) > 50);
	snprintf(command, sizeof(command),
		 "! command -v promtool >/dev/null || %s top --prometheus %d | "
		 "promtool check metrics >/dev/null", program(), (int)pid);
	assert_int_equal(system(command), 0);
	end_child(pid);
}

/* Texts of a page may be anybody's. */
static void no_text_ends_a_scrape(void **state)
{
	static const struct stats_field fields[] = {
		STATS_COUNT("a", "ends in \"\\"),
	};
	static const struct stats_kind kind = STATS_KIND("odd", fields);
	struct stats_record *record;

	publish_here(state);
	record = stats_record_add(&kind, 0, "\\\"{}");
	assert_non_null(record);
	stats_put(record, 1, (uint64_t[]){ 1 });
	assert_int_equal(top_of(state, "--prometheus", getpid()), 0);
	assert_non_null(strstr(text, "ends in \"\\\\\n"));
	assert_true(prom_check(text) > 0);
	stats_record_del(record);
	publish_no_more(state);
}

static void programs_can_read_json(void **state)
{
	pid_t pid = begin_child(state);
	char command[512];

	assert_int_equal(top_of(state, "--json", pid), 0);
	assert_int_equal(text[0], '{');
	assert_non_null(strstr(text, "\"kind\": \"reactor\""));
	assert_non_null(strstr(text, "\"p99_9\": "));
	snprintf(command, sizeof(command),
		 "! command -v python3 >/dev/null || %s top --json %d | "
		 "python3 -m json.tool >/dev/null", program(), (int)pid);
	assert_int_equal(system(command), 0);
	end_child(pid);
}

static void top_says_what_it_cannot_see(void **state)
{
	static const struct {
		const char *args;
		int status;
		const char *says;
	} cases[] = {
		{ "", 1, "no process of yours publishes" },
		{ "999999999", 1, "there is no process 999999999" },
		{ "0", 2, "'0' is no PID" },
		{ "12x", 2, "'12x' is no PID" },
		{ "-- -5", 2, "'-5' is no PID" },
		{ "1 2", 2, "'2' is too much" },
		{ "--interval 0 1", 2, "--interval 0 makes no sense" },
		{ "--interval nan 1", 2, "--interval nan makes no sense" },
		{ "--count 0 1", 2, "--count 0 makes no sense" },
		{ "--json --prometheus 1", 2, "exclude each other" },
		{ "--json", 2, "wants a PID" },
		{ "--loud 1", 2, "no option '--loud'" },
		{ "--count", 2, "missing" },
	};
	char own[32];

	assert_int_equal(chmod(test_dir(state), 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", test_dir(state), 1), 0);
	for (size_t i = 0; i < N_OF(cases); i++) {
		if (top(state, cases[i].args) != cases[i].status ||
		    !strstr(said, cases[i].says))
			fail_msg("weir top %s: said '%s'", cases[i].args, said);
		assert_string_equal(text, "");
		assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
	}
	snprintf(own, sizeof(own), "%d", (int)getpid());
	assert_int_equal(top(state, own), 1);
	assert_non_null(strstr(said, "WEIR_STATS=1"));
	assert_int_equal(top(state, "--help"), 0);
	assert_starts_with(text, "Usage: weir top");
	unsetenv("WEIR_STATS");
}

/* A terminal of @rows with weir top on it.  Returns its other end. */
static int begin_terminal(pid_t *pid, unsigned short rows, pid_t of)
{
	struct winsize size = { .ws_row = rows, .ws_col = 80 };
	char arg[32];
	int fd;

	snprintf(arg, sizeof(arg), "%d", (int)of);
	*pid = forkpty(&fd, NULL, NULL, &size);
	if (!*pid) {
		setenv("TERM", "vt100", 1);
		execlp(program(), program(), "top", "-i", "0.05", arg,
		       (char *)NULL);
		_exit(127);
	}
	assert_true(*pid > 0);
	text_len = 0;
	text[0] = '\0';
	return fd;
}

/* More of what comes.  False: that was all. */
static bool read_terminal(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t n;

	if (text_len > TEXT_MAX / 2)
		text_len = 0;
	assert_int_equal(poll(&pfd, 1, 20000), 1);
	n = read(fd, text + text_len, TEXT_MAX / 4);
	if (n <= 0)
		return false;
	text_len += (size_t)n;
	text[text_len] = '\0';
	return true;
}

static void await_text(int fd, const char *wanted)
{
	while (!strstr(text, wanted))
		assert_true(read_terminal(fd));
	text_len = 0;
	text[0] = '\0';
}

static int end_terminal(int fd, pid_t pid)
{
	int status;

	while (read_terminal(fd))
		;
	close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void press(int fd, const char *keys)
{
	assert_int_equal(write(fd, keys, strlen(keys)), strlen(keys));
}

#ifdef HAVE_NCURSES
static void top_on_a_terminal_has_a_screen(void **state)
{
	struct winsize small = { .ws_row = 6, .ws_col = 40 };
	struct winsize large = { .ws_row = 40, .ws_col = 120 };
	pid_t pid = begin_child(state), top_pid;
	int fd = begin_terminal(&top_pid, 30, pid);

	await_text(fd, "q quit");
	await_text(fd, "\033[");
	assert_int_equal(ioctl(fd, TIOCSWINSZ, &small), 0);
	await_text(fd, "q quit");
	press(fd, "\033OB\033OB\033OA\033[6~\033[5~x");
	assert_int_equal(ioctl(fd, TIOCSWINSZ, &large), 0);
	await_text(fd, "REACTOR");
	press(fd, " ");
	await_text(fd, "goes on");
	press(fd, " ");
	await_text(fd, "stops");
	press(fd, "q");
	assert_int_equal(end_terminal(fd, top_pid), 0);
	end_child(pid);
}

static void the_screen_ends_with_the_process(void **state)
{
	pid_t pid = begin_child(state), top_pid;
	int fd = begin_terminal(&top_pid, 24, pid);

	await_text(fd, "q quit");
	end_child(pid);
	assert_int_equal(end_terminal(fd, top_pid), 1);
	assert_non_null(strstr(text, "has ended"));
}
#endif

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(text_is_for_people),
		CASE(top_has_a_process_measure_that_offers_it),
		CASE(numbers_have_the_unit_that_they_are_rounded_to),
		CASE(prometheus_can_read_the_output_of_top),
		CASE(no_text_ends_a_scrape),
		CASE(programs_can_read_json),
		CASE(top_says_what_it_cannot_see),
#ifdef HAVE_NCURSES
		CASE(top_on_a_terminal_has_a_screen),
		CASE(the_screen_ends_with_the_process),
#endif
	};

	return harness_run(cases, N_OF(cases));
}
