/* SPDX-License-Identifier: BSD-3-Clause */

#include "tests/support/harness.h"

#include <dirent.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include <weir/rdma/device.h>
#include <weir/sim/file.h>

#ifdef WEIR_VALGRIND
#include <valgrind/valgrind.h>
#endif

/* Seconds for one test.  What takes seconds at home may take minutes on a
 * loaded machine under valgrind, or in a guest, which says WEIR_TEST_SLOW=1. */
#define TIMEOUT_S 60
#define TIMEOUT_SLOW_S 600

#if UNDER_TSAN
/* The first race is the end, also in a child; and a child may have threads. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "halt_on_error=1:die_after_fork=0";
}
#endif

#ifdef HAVE_VERBS
/* Or the linker would leave it out where nothing else of it is called. */
__attribute__((constructor)) static void keep_rdma(void)
{
	weir_rdma_init();
}
#endif

int harness_starting;
const struct harness_model *harness_model;
static const char *running = "?";

void skip_without_openat2(void)
{
	if (syscall(SYS_openat2, -1, NULL, NULL, 0) < 0 && errno == ENOSYS)
		skip_because("there is no openat2 here");
}

int kernel_is_before(int major, int minor)
{
	struct utsname u;
	int a = 0, b = 0;

	if (uname(&u) || sscanf(u.release, "%d.%d", &a, &b) != 2)
		return 0;
	return a < major || (a == major && b < minor);
}

int under_valgrind(void)
{
#ifdef WEIR_VALGRIND
	return !!RUNNING_ON_VALGRIND;
#else
	return 0;
#endif
}

int own_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0 && errno == ENOSYS)
		skip_because("no pidfds here");
	assert_true(fd >= 0);
	return fd;
}

int want_long(void)
{
	const char *s = getenv("WEIR_TEST_LONG");

	return s && *s && strcmp(s, "0") != 0;
}

unsigned int scaled(unsigned int n)
{
	if (!under_valgrind() && !UNDER_TSAN)
		return n;
	return n < 1000 ? (n + 9) / 10 : n / 100;
}

void skip_because(const char *fmt, ...)
{
	va_list ap;

	printf("# skipped: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	skip();
	abort();
}

/* The watchdog. */

static void on_alarm(int signo)
{
	static const char text[] = "\nwatchdog: hangs: ";

	(void)signo;
	if (write(2, text, sizeof(text) - 1) < 0 ||
	    write(2, running, strlen(running)) < 0 || write(2, "\n", 1) < 0)
		_exit(98);
	signal(SIGABRT, SIG_DFL);
	abort();
}

static void watch_test(void)
{
	unsigned int s = under_valgrind() || UNDER_TSAN || want_long() ||
					 getenv("WEIR_TEST_SLOW") ?
				 TIMEOUT_SLOW_S :
				 TIMEOUT_S;

	signal(SIGALRM, on_alarm);
	alarm(s);
}

/* Worlds. */

int count_entries(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	int n = 0;

	assert_non_null(d);
	while ((entry = readdir(d)))
		n += entry->d_name[0] != '.';
	closedir(d);
	return n;
}

int count_fds(void)
{
	return count_entries("/proc/self/fd");
}

int count_threads(void)
{
	return count_entries("/proc/self/task");
}

unsigned int fds_of(pid_t pid, const char *kind)
{
	char path[64], target[64];
	const struct dirent *entry;
	unsigned int n = 0;
	ssize_t len;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		len = readlinkat(dirfd(dir), entry->d_name, target,
				 sizeof(target));
		n += len > 0 && (size_t)len >= strlen(kind) &&
		     !strncmp(target, kind, strlen(kind));
	}
	closedir(dir);
	return n;
}

long status_of(pid_t pid, const char *name)
{
	char path[64], line[256];
	FILE *file;
	long n = -1;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			n = atol(line + strlen(name));
	fclose(file);
	return n;
}

struct plan {
	const struct harness_case *c;
	const char *backend;
	char name[160];
};

static int set_up(void **state)
{
	const struct plan *plan = *state;
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		return -1;
	running = plan->name;
	harness_starting = 0;
	watch_test();
	w->backend = plan->backend;
	w->arg = plan->c->arg;
	w->n_fds = count_fds();
	if (!strcmp(w->backend, "sim"))
		sim_begin();
	if (harness_model && strcmp(w->backend, "none") != 0)
		harness_model->use(w->backend);
	*state = w;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind,
		      struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

static int tear_down(void **state)
{
	struct world *w = *state;
	int err = weir_reactor_destroy(w->r);
	int n;

	if (err)
		fprintf(stderr, "%s: destroy: %d: %s\n", running, err,
			weir_why());
	if (*w->dir && !harness_sim)
		nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	n = count_fds();
	if (n != w->n_fds)
		fprintf(stderr, "%s: %d descriptors open, %d before\n",
			running, n, w->n_fds);
	err = err || n != w->n_fds;
	if (harness_sim && sim_end())
		err = -1;
	alarm(0);
	free(w);
	return err ? -1 : 0;
}

static void not_here(void **state)
{
	struct world *w = *state;

	skip_because("no %s backend here", w->backend);
}

static bool backend_works(const char *name)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r;

	opts.backend = !strcmp(name, "ev") ? WEIR_BACKEND_EV :
					     WEIR_BACKEND_URING;
	if (!strcmp(name, "sim"))
		return true;
	if (harness_model)
		harness_model->use(name);
	if (weir_reactor_create(&r, &opts)) {
		printf("# %s: %s\n", name, weir_why());
		return false;
	}
	weir_reactor_destroy(r);
	return true;
}

static void name_plan(struct plan *plan, bool prefix)
{
	char *s;

	snprintf(plan->name, sizeof(plan->name), "%s%s%s",
		 prefix ? plan->backend : "", prefix ? ": " : "",
		 plan->c->name);
	/* "weir_nop returns -EINVAL" names a call. */
	s = plan->name;
	if (!strncmp(plan->c->name, "weir_", 5))
		s = strstr(s, plan->c->name) + strcspn(plan->c->name, " ");
	for (; *s; s++)
		if (*s == '_')
			*s = ' ';
}

/* WEIR_TEST_IN_TURN=1, or 2: the backends share the cases out, if both work; else
 * half of the cases would run nowhere.  0: each runs all. */
static size_t in_turn;

static size_t share_the_cases(void)
{
	const char *turn = getenv("WEIR_TEST_IN_TURN");

	return turn && backend_works("uring") && backend_works("ev") ?
		       strtoul(turn, NULL, 10) : 0;
}

static bool is_anothers(const char *backend, size_t i)
{
	return backend && in_turn &&
	       (i + in_turn + 1) % 2 != !strcmp(backend, "ev");
}

/* The tests of one backend, after those before; returns how many there are. */
static size_t plan_backend(const struct harness_case *cases, size_t n,
			   const char *backend, struct plan *plans,
			   struct CMUnitTest *tests)
{
	bool sim = backend && !strcmp(backend, "sim");
	bool works = !backend || backend_works(backend);
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct plan *plan = &plans[sum];

		if (sim ? cases[i].real : is_anothers(backend, i))
			continue;
		if (harness_model && backend && !harness_model->has(backend, cases[i].name))
			continue;
		plan->c = &cases[i];
		plan->backend = backend ? backend : "none";
		name_plan(plan, backend);
		tests[sum++] = (struct CMUnitTest){
			.name = plan->name,
			.test_func = works ? cases[i].fn : not_here,
			.setup_func = set_up,
			.teardown_func = tear_down,
			.initial_state = plan,
		};
	}
	return sum;
}

static int run(const struct harness_case *cases, size_t n, const char **names,
	       size_t n_names)
{
	struct CMUnitTest *tests = calloc(n * n_names + 1, sizeof(*tests));
	struct plan *plans = calloc(n * n_names + 1, sizeof(*plans));
	const char *filter = getenv("WEIR_TEST_FILTER");
	size_t b, sum = 0;
	int failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!tests || !plans)
		return 99;
	for (b = 0; b < n_names; b++)
		sum += plan_backend(cases, n, names[b], plans + sum,
				    tests + sum);
	if (filter)
		cmocka_set_test_filter(filter);
	failed = _cmocka_run_group_tests("tests", tests, sum, NULL, NULL);
	free(tests);
	free(plans);
	return failed ? 1 : 0;
}

static int run_named(const struct harness_case *cases, size_t n,
		     size_t n_names)
{
	const char *names[] = { "uring", "ev", "sim" };
	const char *only = getenv("WEIR_TEST_BACKEND");
	const char *sim = getenv("WEIR_TEST_SIM");

	if (sim && !strcmp(sim, "0") && !only && n_names > 2)
		n_names = 2;
	if (harness_model && !only)
		return run(cases, n, harness_model->names,
			   harness_model->n_names);
	if (harness_model && strncmp(only, "model-", 6) != 0)
		return 0;
	if (!only) {
		in_turn = share_the_cases();
		return run(cases, n, names, n_names);
	}
	return !strcmp(only, "sim") && n_names < 3 ? 0 :
						      run(cases, n, &only, 1);
}

int harness_run(const struct harness_case *cases, size_t n)
{
	return run_named(cases, n, 2);
}

int harness_run_all(const struct harness_case *cases, size_t n)
{
	return run_named(cases, n, 3);
}

int harness_run_plain(const struct harness_case *cases, size_t n)
{
	const char *none = NULL;

	return run(cases, n, &none, 1);
}

uint32_t backend_of(const struct world *w)
{
	if (!strcmp(w->backend, "sim"))
		return WEIR_BACKEND_SIM;
	return !strcmp(w->backend, "ev") ? WEIR_BACKEND_EV :
					   WEIR_BACKEND_URING;
}

/*
 * Where rings count towards a small ulimit -l, which is the user's and not the
 * process's, the tests that run beside this one may have it all for a while.
 */
static int create_patiently(struct weir_reactor **ret,
			    const struct weir_reactor_opts *opts)
{
	int tries = 100, err;

	do
		err = weir_reactor_create(ret, opts);
	while (err == -ENOMEM && tries-- && !poll(NULL, 0, 20));
	return err;
}

struct weir_reactor *start_reactor_with(void **state,
					struct weir_reactor_opts opts)
{
	struct world *w = *state;
	int err;

	assert_null(w->r);
	opts.size = sizeof(opts);
	opts.backend = backend_of(w);
	opts.sim = harness_sim;
	err = create_patiently(&w->r, &opts);
	if (err)
		fail_msg("weir_reactor_create: %d: %s", err, weir_why());
	assert_string_equal(weir_reactor_backend(w->r),
			    harness_model ? "uring" : w->backend);
	return w->r;
}

struct weir_reactor *start_reactor(void **state)
{
	return start_reactor_with(state, (struct weir_reactor_opts){ 0 });
}

void end_reactor(void **state)
{
	struct world *w = *state;
	struct weir_reactor *r = w->r;

	w->r = NULL;
	if (weir_reactor_destroy(r))
		fail_msg("weir_reactor_destroy: %s", weir_why());
}

/* Files. */

const char *test_dir(void **state)
{
	struct world *w = *state;
	const char *tmp = getenv("TMPDIR");

	if (*w->dir)
		return w->dir;
	if (harness_sim) {
		snprintf(w->dir, sizeof(w->dir), "test");
		assert_int_equal(weir_sim_mkdir(harness_sim, w->dir), 0);
	} else {
		snprintf(w->dir, sizeof(w->dir), "%.40s/weir-test-XXXXXX",
			 tmp ? tmp : "/tmp");
		assert_non_null(mkdtemp(w->dir));
	}
	return w->dir;
}

const char *test_path(void **state, const char *name)
{
	static char paths[4][160];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", test_dir(state), name);
	return path;
}

/* Different at every offset, and for every seed: what is misplaced shows. */
static unsigned char pattern_at(uint64_t off, unsigned int seed)
{
	uint64_t x = (off + 1) * UINT64_C(0x9e3779b97f4a7c15) +
		     seed * UINT64_C(0xd1342543de82ef95);

	return (unsigned char)(x >> 56 ^ x >> 24);
}

void fill_pattern(void *buf, size_t len, uint64_t off, unsigned int seed)
{
	unsigned char *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = pattern_at(off + i, seed);
}

bool is_pattern(const void *buf, size_t len, uint64_t off, unsigned int seed)
{
	const unsigned char *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		if (p[i] != pattern_at(off + i, seed))
			return false;
	return true;
}

/* Operations. */

void rec_done(struct weir_op *op, int64_t res)
{
	struct rec *rec = weir_container_of(op, struct rec, op);

	assert_int_equal(harness_starting, 0);
	assert_int_equal(weir_op_is_busy(op), 0);
	rec->calls++;
	rec->res = res;
	assert_int_equal(weir_op_get_detail(op, &rec->detail), 0);
	if (rec->stop)
		weir_reactor_stop(rec->stop);
}

void rec_init(struct rec *rec)
{
	memset(rec, 0, sizeof(*rec));
	weir_op_init(&rec->op, rec_done);
}

void some_turns(struct weir_reactor *r, int n)
{
	while (n-- > 0)
		assert_true(weir_reactor_turn(r, 0) >= 0);
}

int64_t finish(struct weir_reactor *r, struct rec *rec)
{
	int before = rec->calls;

	UNTIL(r, rec->calls > before);
	assert_int_equal(rec->calls, before + 1);
	return rec->res;
}
