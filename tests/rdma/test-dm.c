/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Device memory: the tables of docs/internals/rdma.md, over each kind of
 * device that there is: the software twin, a mock for a card, others that say
 * no, and the cards of this machine.
 */

#include "tests/support/harness.h"
#include "tests/support/table-fixture.h"

#include <pthread.h>
#include <sys/wait.h>

#include <weir/device.h>
#include <weir/dm.h>
#include <weir/domain.h>
#include <weir/mmap.h>

#include "base/fault.h"
#include "rdma/device.h"
#include "mem/dm-internal.h"
#include "tests/support/mock-verbs.h"

#define LEN 4096u

/* What a device has: the columns of the table of errors. */
enum has { HAS, HAS_BARE, HAS_NONE, HAS_COLUMNS };

struct subject {
	const char *device;
	enum has has;
};

struct fixture {
	struct weir_device *dev;
	struct weir_dm *dm;		/* NULL: the device gives none. */
	struct weir_dm *other;		/* What the test may free. */
	struct weir_dm_token token;
	struct weir_dm *to_free;
	struct weir_mmap *mmap;
	bool closed;
	uint64_t size;			/* Of all memory of the device. */
	char bytes[LEN];
};

static const struct subject *subject_of(void **state)
{
	const struct world *w = *state;

	return w->arg;
}

static struct weir_dm *alloc(struct weir_device *dev, size_t len)
{
	struct weir_dm *dm = NULL;
	int err = weir_dm_alloc(&dm, dev, len, 0);

	if (err)
		fail_msg("%d: %s", err, weir_why());
	return dm;
}

/* As /sys shows the driver of a card. */
static void make_driver(void **state, const char *device, const char *driver)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/class", test_dir(state));
	mkdir(path, 0700);
	strcat(path, "/infiniband");
	mkdir(path, 0700);
	snprintf(path + strlen(path), 64, "/%s", device);
	mkdir(path, 0700);
	strcat(path, "/device");
	mkdir(path, 0700);
	strcat(path, "/driver");
	if (symlink(driver, path))
		assert_int_equal(errno, EEXIST);
	device_sysfs = test_dir(state);
}

static void fixture_begin(struct fixture *g, void **state)
{
	const struct subject *s = subject_of(state);
	struct weir_device_caps caps = { .size = sizeof(caps) };

	memset(g, 0, sizeof(*g));
	if (!strcmp(s->device, "mock_mana"))
		make_driver(state, s->device, "../../bus/drivers/mana_ib");
	g->token.size = sizeof(g->token);
	g->token.fd = -1;
	assert_int_equal(weir_device_open_name(&g->dev, s->device), 0);
	assert_int_equal(weir_devinfo_caps(weir_device_info(g->dev), &caps), 0);
	assert_int_equal(!!(caps.caps & WEIR_DEVICE_CAP_DM),
			 s->has != HAS_NONE);
	g->size = caps.dm_size;
	if (s->has != HAS_NONE)
		g->dm = alloc(g->dev, LEN);
}

/* Nothing that weir has made of a card is left. */
static void mock_is_idle(void)
{
	assert_int_equal(mocked()->contexts, 0);
	assert_int_equal(mocked()->pds, 0);
	assert_int_equal(mocked()->mrs, 0);
	assert_int_equal(mocked()->dms, 0);
	assert_int_equal(mocked()->imports, 0);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_mmap_destroy(g->mmap), 0);
	assert_int_equal(weir_dm_free(g->other), 0);
	assert_int_equal(weir_dm_free(g->dm), 0);
	if (!g->closed)
		assert_int_equal(weir_device_close(g->dev), 0);
	if (g->token.fd >= 0)
		close(g->token.fd);
	device_sysfs = "/sys";
	if (mocked)
		mock_is_idle();
}

/* The table of states. */

enum column { ALLOCATED, IMPORTED, HELD, FREED, COLUMNS };

static const char *const columns[COLUMNS] = {
	[ALLOCATED] = "allocated",
	[IMPORTED] = "imported",
	[HELD] = "an mmap has it",
	[FREED] = "freed",
};

static int call_free(void *arg)
{
	struct fixture *g = arg;
	int err = weir_dm_free(g->to_free);

	if (!err && g->to_free == g->dm)
		g->dm = NULL;
	if (!err && g->to_free == g->other)
		g->other = NULL;
	return err;
}

static int call_copy_to(void *arg)
{
	struct fixture *g = arg;

	return weir_dm_copy_to(g->to_free, 0, g->bytes, LEN);
}

static int call_copy_from(void *arg)
{
	struct fixture *g = arg;

	return weir_dm_copy_from(g->bytes, g->to_free, 0, LEN);
}

static int call_export(void *arg)
{
	struct weir_dm_token token = { .size = sizeof(token), .fd = -1 };
	struct fixture *g = arg;
	int err = weir_dm_export(g->to_free, &token);

	if (!err)
		assert_int_equal(token.len, LEN);
	if (token.fd >= 0)
		close(token.fd);
	return err;
}

static int call_close(void *arg)
{
	struct fixture *g = arg;
	int err = weir_device_close(g->dev);

	g->closed = !err;
	return err;
}

static const struct table_call state_calls[] = {
	{ "free", call_free },
	{ "copy_to", call_copy_to },
	{ "copy_from", call_copy_from },
	{ "export", call_export },
	{ "device_close", call_close },
};

static void import(struct fixture *g)
{
	assert_int_equal(weir_dm_export(g->dm, &g->token), 0);
	assert_int_equal(weir_dm_import(&g->other, g->dev, &g->token), 0);
	g->to_free = g->other;
}

static void hold(struct fixture *g)
{
	assert_int_equal(weir_mmap_create(&g->mmap, NULL), 0);
	assert_int_equal(weir_mmap_set_dm(g->mmap, g->dm, 4, LEN - 4), 0);
}

static void try_cell(void **state, const struct table_cell *c)
{
	struct fixture g;

	fixture_begin(&g, state);
	g.to_free = g.dm;
	if (c->column == IMPORTED)
		import(&g);
	if (c->column == HELD)
		hold(&g);
	if (c->column == FREED) {
		assert_int_equal(weir_dm_free(g.dm), 0);
		g.dm = NULL;
	}
	table_result(c, c->call->fn(&g));
	fixture_end(&g);
}

static void device_memory_answers_as_its_state_table_says(void **state)
{
	struct table_cell c;
	struct table t;

	table_open(&t, "docs/internals/rdma.md", "device memory: call by state",
		   state_calls, N_OF(state_calls), columns, COLUMNS);
	while (table_next(&t, &c))
		try_cell(state, &c);
	table_close(&t);
}

/* The table of errors; its rows name the first check that fails. */

static int alloc_and_free(struct fixture *g, size_t len, uint32_t log_align)
{
	struct weir_dm *dm = (void *)1;
	int err = weir_dm_alloc(&dm, g->dev, len, log_align);

	if (err)
		assert_ptr_equal(dm, (void *)1);
	else
		assert_int_equal(weir_dm_free(dm), 0);
	return err;
}

static int alloc_some(void *g)
{
	return alloc_and_free(g, 64, 6);
}

/* B1.1; acceptance 33 */
static int alloc_nothing(void *g)
{
	return alloc_and_free(g, 0, 0);
}

static int alloc_too_much(void *arg)
{
	struct fixture *g = arg;

	return alloc_and_free(g, g->size + 4, 0);
}

static int alloc_aligned(void *g)
{
	return alloc_and_free(g, 64, 31);
}

static int alloc_without_capacity(void *arg)
{
	struct fixture *g = arg;

	return alloc_and_free(g, g->size ? g->size : 4, 0);
}

/* What was not copied is as it was. */
static int copy_both_ways(struct fixture *g, uint64_t off, size_t len)
{
	char got[LEN + 4];
	int to, from;

	assert_true(len <= sizeof(got) || off + len < off || len > LEN);
	memset(got, 'x', sizeof(got));
	to = weir_dm_copy_to(g->dm, off, got, len);
	from = weir_dm_copy_from(got, g->dm, off, len);
	assert_int_equal(from, to);
	if (to)
		assert_int_equal(got[0], 'x');
	return to;
}

/* B1.3; acceptance 34, 35; gotcha 15 */
static int copy_some(void *g)
{
	return copy_both_ways(g, 4, LEN - 4);
}

static int copy_behind(void *g)
{
	return copy_both_ways(g, LEN - 4, 8);
}

static int copy_behind_and_odd(void *g)
{
	return copy_both_ways(g, LEN - 3, 7);
}

static int copy_around(void *g)
{
	return copy_both_ways(g, UINT64_MAX - 3, 8);
}

static int copy_from_odd(void *g)
{
	return copy_both_ways(g, 2, 4);
}

static int copy_odd(void *g)
{
	return copy_both_ways(g, 4, 6);
}

static int copy_nothing(void *g)
{
	return copy_both_ways(g, LEN, 0);
}

/* B1.5; acceptance 38 */
static int import_what_was_exported(void *arg)
{
	struct fixture *g = arg;
	int err;

	if (g->dm && weir_dm_export(g->dm, &g->token) == -EOPNOTSUPP)
		assert_int_equal(g->token.fd, -1);
	if (!g->dm)
		g->token.len = LEN;
	err = weir_dm_import(&g->other, g->dev, &g->token);
	if (!err)
		assert_int_equal(weir_dm_is_imported(g->other), 1);
	return err;
}

static int import_another_length(void *arg)
{
	struct fixture *g = arg;

	if (g->dm)
		weir_dm_export(g->dm, &g->token);
	g->token.len = g->size + 4;
	return weir_dm_import(&g->other, g->dev, &g->token);
}

static int mmap_of(struct fixture *g, uint64_t off, size_t len)
{
	void *addr = g;
	int err;

	assert_int_equal(weir_mmap_create(&g->mmap, NULL), 0);
	err = weir_mmap_set_dm(g->mmap, g->dm, off, len);
	if (err)
		return err;
	assert_int_equal(weir_mmap_memrange(g->mmap, &addr, &len), 0);
	assert_null(addr);	/* Zero-based: B1.4 */
	assert_int_equal(weir_domain_kind(weir_mmap_domain(g->mmap)),
			 WEIR_DOMAIN_DEVICE);
	return weir_mmap_start(g->mmap);
}

/* B1.4; acceptance 36 */
static int mmap_of_a_part(void *g)
{
	return mmap_of(g, LEN / 2, LEN / 2);
}

static int mmap_of_all(void *g)
{
	return mmap_of(g, 0, LEN);
}

static int mmap_of_more(void *g)
{
	return mmap_of(g, 0, LEN + 4);
}

static int mmap_behind(void *g)
{
	return mmap_of(g, LEN, 4);
}

static int mmap_around(void *g)
{
	return mmap_of(g, UINT64_MAX - 3, 8);
}

static const struct table_call error_calls[] = {
	{ "alloc", alloc_some },
	{ "alloc of 0 bytes", alloc_nothing },
	{ "alloc of more than there is", alloc_too_much },
	{ "alloc at a multiple of 2^31", alloc_aligned },
	{ "alloc of more than is left", alloc_without_capacity },
	{ "copy", copy_some },
	{ "copy that ends behind it", copy_behind },
	{ "copy that ends behind it and is odd", copy_behind_and_odd },
	{ "copy whose end wraps around", copy_around },
	{ "copy at an odd offset", copy_from_odd },
	{ "copy of an odd length", copy_odd },
	{ "copy of 0 bytes", copy_nothing },
	{ "export and import", import_what_was_exported },
	{ "import of a wrong length", import_another_length },
	{ "mmap of all", mmap_of_all },
	{ "mmap of a part", mmap_of_a_part },
	{ "mmap of more", mmap_of_more },
	{ "mmap behind it", mmap_behind },
	{ "mmap whose end wraps around", mmap_around },
};

static const char *const error_columns[HAS_COLUMNS] = {
	[HAS] = "a device that has it",
	[HAS_BARE] = "its driver does not copy or import",
	[HAS_NONE] = "a device that has none",
};

static void device_memory_checks_its_arguments_in_order(void **state)
{
	struct table_cell c;
	struct table t;
	struct fixture g;

	table_open(&t, "docs/internals/rdma.md", "device memory: errors, in order",
		   error_calls, N_OF(error_calls), error_columns, HAS_COLUMNS);
	while (table_next(&t, &c)) {
		if (c.column != (int)subject_of(state)->has)
			continue;
		fixture_begin(&g, state);
		table_result(&c, c.call->fn(&g));
		if (c.want)
			assert_starts_with(weir_why(), "weir_");
		fixture_end(&g);
	}
	table_close(&t);
}

/* What tables do not say. */

static void bytes_copied_to_device_memory_come_back(void **state)
{
	char got[LEN] = { 0 };
	struct fixture g;
	size_t off;

	fixture_begin(&g, state);
	fill_pattern(g.bytes, LEN, 0, 1);
	assert_int_equal(weir_dm_copy_to(g.dm, 0, g.bytes, LEN), 0);
	assert_int_equal(weir_dm_copy_from(got, g.dm, 0, LEN), 0);
	assert_memory_equal(got, g.bytes, LEN);
	for (off = 4; off < LEN; off *= 2) {
		memset(got, 0, off);
		assert_int_equal(weir_dm_copy_from(got, g.dm, off, 4), 0);
		assert_memory_equal(got, g.bytes + off, 4);
	}
	assert_int_equal(weir_dm_len(g.dm), LEN);
	assert_ptr_equal(weir_dm_device(g.dm), g.dev);
	assert_int_equal(weir_dm_is_imported(g.dm), 0);
	fixture_end(&g);
}

/* Whoever allocates shares one fixed capacity. */
static void the_capacity_is_shared_and_comes_back(void **state)
{
	struct weir_dm *dm[64] = { NULL }, *more;
	struct fixture g;
	size_t n, i;

	fixture_begin(&g, state);
	assert_int_equal(weir_dm_free(g.dm), 0);
	g.dm = NULL;
	for (n = 0; n < N_OF(dm); n++)
		if (weir_dm_alloc(&dm[n], g.dev, g.size / N_OF(dm), 0))
			break;
	assert_true(n > N_OF(dm) / 2);
	while (!weir_dm_alloc(&more, g.dev, 4, 0) && n < N_OF(dm))
		dm[n++] = more;
	for (i = 0; i < n; i++)
		assert_int_equal(weir_dm_free(dm[i]), 0);
	assert_int_equal(weir_dm_alloc(&g.dm, g.dev, g.size / 2, 0), 0);
	fixture_end(&g);
}

/* B1.5; acceptance 38 */
static void imported_device_memory_is_shared_and_never_freed(void **state)
{
	char got[8];
	struct fixture g;

	fixture_begin(&g, state);
	import(&g);
	assert_int_equal(weir_dm_copy_to(g.dm, 8, "original", 8), 0);
	assert_int_equal(weir_dm_copy_from(got, g.other, 8, 8), 0);
	assert_memory_equal(got, "original", 8);
	assert_int_equal(weir_dm_copy_to(g.other, 16, "imported", 8), 0);
	assert_int_equal(weir_dm_free(g.other), 0);
	g.other = NULL;
	assert_int_equal(weir_dm_copy_from(got, g.dm, 16, 8), 0);
	assert_memory_equal(got, "imported", 8);
	fixture_end(&g);
}

#define N_PROCESSES 5
#define N_WORDS 32

/* Each writes words of its own in what is shared by fd, and some beside. */
static int child(int me, const struct weir_dm_token *token, const char *name)
{
	struct weir_device *dev;
	struct weir_dm *own, *shared;
	uint32_t word, back, i;
	int bad = 0;

	if (weir_device_open_name(&dev, name) ||
	    weir_dm_alloc(&own, dev, LEN, 0) ||
	    weir_dm_import(&shared, dev, token))
		return 1;
	for (i = 0; i < N_WORDS; i++) {
		word = (uint32_t)me << 16 | i;
		bad |= weir_dm_copy_to(shared, (i * N_PROCESSES + me) * 4,
				       &word, 4);
		bad |= weir_dm_copy_to(own, 4 * i, &word, 4);
		bad |= weir_dm_copy_from(&back, own, 4 * i, 4);
		bad |= back != word;
	}
	bad |= weir_dm_free(shared) | weir_dm_free(own);
	return bad | weir_device_close(dev);
}

/* Acceptance 37, 47 */
static void five_processes_allocate_and_share(void **state)
{
	const char *name = subject_of(state)->device;
	uint32_t words[N_WORDS * N_PROCESSES], i;
	int pid[N_PROCESSES], status, p;
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_dm_export(g.dm, &g.token), 0);
	for (p = 0; p < N_PROCESSES; p++) {
		pid[p] = fork();
		assert_true(pid[p] >= 0);
		if (!pid[p])
			_exit(child(p, &g.token, name));
	}
	for (p = 0; p < N_PROCESSES; p++) {
		assert_int_equal(waitpid(pid[p], &status, 0), pid[p]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(weir_dm_copy_from(words, g.dm, 0, sizeof(words)), 0);
	for (i = 0; i < N_OF(words); i++)
		assert_int_equal(words[i], (i % N_PROCESSES) << 16 |
						   i / N_PROCESSES);
	fixture_end(&g);
}

static void *write_words(void *arg)
{
	uint32_t word, n;

	for (n = 0; n < 1000; n++) {
		word = n & 1 ? UINT32_MAX : 0;
		if (weir_dm_copy_to(arg, 0, &word, 4))
			return arg;
	}
	return NULL;
}

/* Acceptance 47: who reads sees all of a word or nothing of it. */
static void words_are_copied_whole(void **state)
{
	uint32_t word = 0, n;
	pthread_t thread;
	struct fixture g;
	void *failed;

	fixture_begin(&g, state);
	assert_int_equal(weir_dm_copy_to(g.dm, 0, &word, 4), 0);
	pthread_create(&thread, NULL, write_words, g.dm);
	for (n = 0; n < 1000; n++) {
		assert_int_equal(weir_dm_copy_from(&word, g.dm, 0, 4), 0);
		assert_true(!word || word == UINT32_MAX);
	}
	pthread_join(thread, &failed);
	assert_null(failed);
	fixture_end(&g);
}

static int alloc_much(struct fixture *g)
{
	return weir_dm_alloc(&g->other, g->dev, g->size - LEN, 0);
}

static int import_token(struct fixture *g)
{
	return weir_dm_import(&g->other, g->dev, &g->token);
}

/* Fail each point in turn; the last time, which frees it, none is left. */
static void fail_each(struct fixture *g, int (*call)(struct fixture *g),
		      int n_min)
{
	int err, n = 0, fired;

	do {
		fault_arm(n++);
		err = call(g);
		fired = fault_disarm();
		if (fired && (!err || g->other))
			fail_msg("%s failed: %d", fault_last(), err);
		if (fired)
			assert_starts_with(weir_why(), "weir_dm_");
	} while (fired);
	assert_int_equal(err, 0);
	assert_true(n > n_min);
	assert_int_equal(weir_dm_free(g->other), 0);
	g->other = NULL;
}

static void failed_device_memory_call_leaves_nothing_behind(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);
	fail_each(&g, alloc_much, 2);
	assert_int_equal(weir_dm_export(g.dm, &g.token), 0);
	fail_each(&g, import_token, 2);
	fixture_end(&g);
}

/* Skipped, and counted as such: nothing of it was run. */
static void no_card_is_here(void **state)
{
	(void)state;
	skip_because("this machine has no RDMA device");
}

/* The cases, for each subject. */

static const struct harness_case errors[] = {
	CASE(device_memory_checks_its_arguments_in_order),
};

static const struct harness_case all[] = {
	CASE(device_memory_answers_as_its_state_table_says),
	CASE(bytes_copied_to_device_memory_come_back),
	CASE(the_capacity_is_shared_and_comes_back),
	CASE(imported_device_memory_is_shared_and_never_freed),
	CASE(words_are_copied_whole),
	CASE(failed_device_memory_call_leaves_nothing_behind),
};

static const struct harness_case not_here[] = {
	CASE(no_card_is_here),
};

static const struct harness_case shared[] = {
	CASE(five_processes_allocate_and_share),
};

#define CASES_MAX 128

struct cases {
	struct harness_case list[CASES_MAX];
	char names[CASES_MAX][128];
	size_t n;
};

static void add(struct cases *cases, const struct subject *s,
		const struct harness_case *list, size_t n)
{
	struct harness_case *c;
	size_t i;

	for (i = 0; i < n && cases->n < CASES_MAX; i++, cases->n++) {
		snprintf(cases->names[cases->n], sizeof(cases->names[0]),
			 "%s: %s", s->device, list[i].name);
		c = &cases->list[cases->n];
		*c = list[i];
		c->name = cases->names[cases->n];
		c->arg = s;
	}
}

static void add_all(struct cases *cases, const struct subject *s)
{
	add(cases, s, errors, N_OF(errors));
	if (s->has == HAS)
		add(cases, s, all, N_OF(all));
}

static void add_mocks(struct cases *cases)
{
	static const struct subject subjects[] = {
		{ "mock_mlx5", HAS },
		{ "mock_mana", HAS_BARE },
		{ "mock_rxe", HAS_NONE },
	};
	size_t i;

	for (i = 0; i < N_OF(subjects); i++)
		add_all(cases, &subjects[i]);
}

static void add_cards(struct cases *cases)
{
	static const struct subject none = { "card", HAS_NONE };
	static struct weir_device_caps caps[16];
	static struct subject subjects[16];
	struct weir_devinfo **list;
	size_t n, i, found = 0;

	if (weir_device_list(&list, &n))
		abort();
	for (i = 0; i < n && found < N_OF(subjects); i++) {
		caps[found].size = sizeof(caps[found]);
		weir_devinfo_caps(list[i], &caps[found]);
		if (caps[found].kind != WEIR_DEVICE_RDMA ||
		    !(caps[found].flags & WEIR_DEVICE_USABLE))
			continue;
		subjects[found].device = caps[found].name;
		subjects[found].has =
			!(caps[found].caps & WEIR_DEVICE_CAP_DM) ? HAS_NONE :
			caps[found].caps & WEIR_DEVICE_CAP_DM_IMPORT ?
			HAS : HAS_BARE;
		add_all(cases, &subjects[found++]);
	}
	weir_device_list_free(list);
	if (!found)
		add(cases, &none, not_here, N_OF(not_here));
}

int main(void)
{
	static const struct subject soft = { "soft-dm", HAS };
	static const struct subject cpu = { "cpu", HAS_NONE };
	static struct cases cases;

	add_all(&cases, &soft);
	add(&cases, &soft, shared, N_OF(shared));
	add_all(&cases, &cpu);
	if (mocked)
		add_mocks(&cases);
	else
		add_cards(&cases);
	return harness_run_plain(cases.list, cases.n);
}
