/* SPDX-License-Identifier: BSD-3-Clause */

/* What the kernel registers of an mmap, and that nothing fails without. */

#include "tests/support/job-fixture.h"
#include "tests/support/peer-fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <weir/buf.h>
#include <weir/inventory.h>
#include <weir/pool.h>

#include "base/fault.h"
#include "mem/buf-internal.h"

#define LEN ((size_t)65536)
#define PAGE ((size_t)4096)
#define GIB ((size_t)1 << 30)
#define TILE ((size_t)2 << 20)

struct fixture {
	struct weir_reactor *r;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;
};

static void fixture_over(struct fixture *g, void **state, struct weir_mmap *m)
{
	g->r = start_reactor(state);
	g->m = m;
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
}

static void fixture_begin(struct fixture *g, void **state)
{
	g->mem = aligned_alloc(PAGE, LEN);
	memset(g->mem, 0, LEN);
	fixture_over(g, state, start_mmap(g->mem, LEN, WEIR_MMAP_WRITE));
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	free(g->mem);
	g->mem = NULL;
}

static void attach(struct fixture *g)
{
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
}

/* Registered buffer of a buf over this, plus 1; or 0. */
static int index_of(struct fixture *g, char *addr, size_t len)
{
	struct weir_buf *buf;
	int index;

	assert_int_equal(weir_inventory_get(&buf, g->inv, g->m, addr, len, NULL,
					    0), 0);
	index = buf->index;
	weir_buf_put(buf);
	return index;
}

static bool is_ev(void **state)
{
	const struct world *w = *state;

	return !strcmp(w->backend, "ev");
}

static void registration_says_how_much_and_why_not_more(void **state)
{
	const char *text = NULL;
	struct fixture g;
	int64_t n;

	fixture_begin(&g, state);
	attach(&g);
	n = weir_mmap_registered(g.m, g.r, &text);
	assert_non_null(text);
	if (is_ev(state)) {
		assert_int_equal(n, 0);
		assert_string_equal(text, "backend ev has no registered memory");
	} else if (n == (int64_t)LEN) {
		assert_string_equal(text, "");
	} else {
		assert_true(n < (int64_t)LEN && *text);
	}
	fixture_end(&g);
}

static void free_lists_of_a_reactor_share_a_registration(void **state)
{
	struct weir_inventory *second;
	struct fixture g;
	int64_t n;

	fixture_begin(&g, state);
	attach(&g);
	n = weir_mmap_registered(g.m, g.r, NULL);
	assert_int_equal(weir_inventory_create(&second, g.r, NULL), 0);
	assert_int_equal(weir_inventory_attach(second, g.m), 0);
	assert_int_equal(weir_inventory_detach(g.inv, g.m), 0);
	assert_int_equal(weir_mmap_registered(g.m, g.r, NULL), n);
	assert_int_equal(weir_inventory_destroy(second), 0);
	assert_int_equal(weir_mmap_registered(g.m, g.r, NULL), -ENOENT);
	fixture_end(&g);
}

/* More often than a ring has numbers for buffers. */
static void a_registration_ends_with_the_attachment(void **state)
{
	struct fixture g;
	int i;

	if (is_ev(state))
		skip_because("there is nothing to register with");
	fixture_begin(&g, state);
	for (i = 0; i < 2000; i++) {
		attach(&g);
		assert_int_equal(weir_mmap_registered(g.m, g.r, NULL), LEN);
		assert_int_equal(weir_inventory_detach(g.inv, g.m), 0);
	}
	fixture_end(&g);
}

/* What a peer's buf is taken of, and the buf. */
struct theirs {
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_buf *buf;
	char *mem;
};

static int64_t do_get(struct peer *p, void *arg)
{
	struct theirs *t = arg;

	assert_int_equal(weir_inventory_create(&t->inv, p->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(t->inv, t->m), 0);
	return weir_inventory_get_by_data(&t->buf, t->inv, t->m, t->mem, LEN);
}

static int64_t do_put(struct peer *p, void *arg)
{
	struct theirs *t = arg;

	(void)p;
	weir_buf_put(t->buf);
	return weir_inventory_destroy(t->inv);
}

/* Each ring has its numbers: the first of theirs is not the first of ours. */
static void buf_of_another_reactor_is_not_used_by_its_number(void **state)
{
	struct theirs t = { .mem = aligned_alloc(PAGE, LEN) };
	static char in[LEN];
	struct weir_domain *file;
	struct weir_dma *dma;
	struct fixture g;
	struct peer peer;
	struct jrec j;
	int fd;

	fixture_begin(&g, state);
	attach(&g);
	peer_begin(&peer, state);
	fill_pattern(t.mem, LEN, 0, 7);
	t.m = start_mmap(t.mem, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(peer_do(&peer, do_get, &t), 0);
	assert_int_equal(t.buf->index, index_of(&g, g.mem, LEN));
	fd = open(test_dir(state), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(weir_domain_file_create(&file, fd, NULL), 0);
	dma = start_dma(g.r, (struct weir_dma_opts){ 0 });
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(file, 0, LEN),
		      weir_operand_buf(t.buf));
	assert_int_equal(jrec_run(dma, &j), LEN);
	assert_int_equal(pread(fd, in, LEN, 0), LEN);
	assert_memory_equal(in, t.mem, LEN);
	assert_int_equal(peer_do(&peer, do_put, &t), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	peer_end(&peer);
	assert_int_equal(weir_mmap_destroy(t.m), 0);
	free(t.mem);
	fixture_end(&g);
}

static void pool_registers_although_one_free_list_does_not(void **state)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .flags = WEIR_POOL_NO_REGISTER,
	};
	struct weir_pool *pool;
	const char *text = "";
	struct fixture g;
	int64_t n;

	fixture_begin(&g, state);
	attach(&g);
	n = weir_mmap_registered(g.m, g.r, NULL);
	assert_int_equal(weir_inventory_detach(g.inv, g.m), 0);
	opts.mmap = g.m;
	assert_int_equal(weir_pool_create(&pool, g.r, &opts), 0);
	assert_int_equal(weir_mmap_registered(g.m, g.r, &text), 0);
	assert_string_equal(text, "not asked for");
	attach(&g);
	assert_int_equal(weir_mmap_registered(g.m, g.r, &text), n);
	assert_string_not_equal(text, "not asked for");
	assert_int_equal(weir_pool_destroy(pool), 0);
	fixture_end(&g);
}

static void pool_without_capacity_to_register_works_unregistered(void **state)
{
	const char *text = "";
	struct fixture g;
	int n = 0;

	/* Fail every try, also those with less: the backend's own point. */
	fixture_begin(&g, state);
	for (n = 0; n < 64; n++) {
		fault_arm(n);
		assert_true(weir_inventory_attach(g.inv, g.m) <= 0);
		if (!fault_disarm())
			break;
		if (weir_inventory_detach(g.inv, g.m))
			continue;
	}
	assert_true(n < 64);
	assert_true(weir_mmap_registered(g.m, g.r, &text) >= 0);
	assert_true(index_of(&g, g.mem, 1) >= 0);
	fixture_end(&g);
}

/* Kinds of memory, by how they can be mapped; 3.7. */
static char *anonymous(void **state)
{
	(void)state;
	return mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static char *of_file(void **state, int flags)
{
	int fd = test_file(state, "file", LEN, 1);
	char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, fd, 0);

	close(fd);
	return p;
}

static char *private_file(void **state)
{
	return of_file(state, MAP_PRIVATE);
}

static char *shared_file(void **state)
{
	return of_file(state, MAP_SHARED);
}

static char *of_memfd(size_t keep)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	char *p;

	assert_int_equal(ftruncate(fd, (off_t)LEN), 0);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(ftruncate(fd, (off_t)keep), 0);
	close(fd);
	return p;
}

static char *whole_memfd(void **state)
{
	(void)state;
	return of_memfd(LEN);
}

static char *truncated_memfd(void **state)
{
	(void)state;
	return of_memfd(LEN / 2);
}

static char *read_only(void **state)
{
	char *p = anonymous(state);

	assert_int_equal(mprotect(p, LEN, PROT_READ), 0);
	return p;
}

/* What the caller does to its memory after the start. */
static void take_rights(char *p)
{
	assert_int_equal(mprotect(p, LEN, PROT_NONE), 0);
}

static void make_hole(char *p)
{
	assert_int_equal(munmap(p + LEN / 2, PAGE), 0);
}

/* These lock a MiB, or lower the limit to that. */
static void want_lockable_memory(void)
{
	struct rlimit lim;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &lim), 0);
	if (geteuid() && lim.rlim_cur < 2 << 20)
		skip_because("ulimit -l is %llu KiB, this takes 2 MiB",
			     (unsigned long long)lim.rlim_cur >> 10);
}

static void no_memory_is_refused_because_it_cannot_be_registered(void **state)
{
	static const struct {
		char *(*make)(void **state);
		int can;	/* -1: it depends on the file system. */
		void (*spoil)(char *p);
	} kinds[] = {
		{ anonymous, 1, NULL }, { private_file, 1, NULL },
		{ whole_memfd, 1, NULL }, { read_only, 0, NULL },
		{ anonymous, 0, take_rights }, { anonymous, 0, make_hole },
		{ truncated_memfd, 0, NULL }, { shared_file, -1, NULL },
	};
	const char *text = NULL;
	struct fixture g = { 0 };
	int64_t n;
	size_t i;
	char *p;

	want_lockable_memory();
	for (i = 0; i < N_OF(kinds); i++) {
		p = kinds[i].make(state);
		assert_ptr_not_equal(p, MAP_FAILED);
		fixture_over(&g, state, start_mmap(p, LEN, WEIR_MMAP_READ));
		if (kinds[i].spoil)
			kinds[i].spoil(p);
		attach(&g);
		n = weir_mmap_registered(g.m, g.r, &text);
		if (is_ev(state))
			assert_int_equal(n, 0);
		else if (kinds[i].can == 1)
			assert_int_equal(n, LEN);
		else if (!kinds[i].can)
			assert_int_equal(n, 0);
		assert_int_equal(*text == '\0', n == (int64_t)LEN);
		if (!n && !is_ev(state))
			assert_non_null(strstr(text, "cannot pin it"));
		assert_int_equal(!index_of(&g, p, PAGE), n != (int64_t)LEN);
		fixture_end(&g);
		end_reactor(state);
		munmap(p, LEN);
	}
}

/* @len bytes of addresses, all of them the same 2 MiB: cheap to pin. */
static char *tiles(size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	char *base;
	size_t i;

	assert_int_equal(ftruncate(fd, (off_t)TILE), 0);
	base = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		    MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	for (i = 0; i < len; i += TILE)
		assert_ptr_equal(mmap(base + i, TILE, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, 0), base + i);
	close(fd);
	return base;
}

static void mmap_of_more_than_1_gib_is_registered_in_pieces(void **state)
{
	const size_t len = GIB + 2 * TILE;
	const char *text = NULL;
	struct fixture g = { 0 };
	int64_t n;
	char *p;

	if (under_valgrind())
		skip_because("valgrind takes minutes for 1 GiB of mappings");
	p = tiles(len);
	fixture_over(&g, state, start_mmap(p, len, WEIR_MMAP_WRITE));
	attach(&g);
	n = weir_mmap_registered(g.m, g.r, &text);
	if (n == (int64_t)len) {
		assert_string_equal(text, "");
		assert_true(index_of(&g, p, GIB) > 0);
		assert_true(index_of(&g, p + GIB, 2 * TILE) > 0);
		assert_int_not_equal(index_of(&g, p, PAGE),
				     index_of(&g, p + GIB, PAGE));
		assert_int_equal(index_of(&g, p + GIB - PAGE, 2 * PAGE), 0);
	} else {
		assert_true(*text != '\0');
		assert_int_equal(index_of(&g, p + len - PAGE, PAGE), 0);
	}
	fixture_end(&g);
	end_reactor(state);
	munmap(p, len);
}

static int refuse_registration(const char *name)
{
	return !strcmp(name, "io_uring_register");
}

/* Turn until @n bytes of @m are registered, or nothing happens any more. */
static bool registers(struct weir_reactor *r, struct weir_mmap *m, int64_t n)
{
	int quiet = 0;

	while (weir_mmap_registered(m, r, NULL) < n && quiet < 3)
		quiet += weir_reactor_turn(r, 2100000000) <= 0;
	return weir_mmap_registered(m, r, NULL) >= n;
}

static void refused_registration_is_tried_again_in_a_later_turn(void **state)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4 };
	struct weir_buf *out, *cached;
	struct weir_pool *pool = NULL;
	const char *text = "";
	struct fixture g;
	bool can;

	want_lockable_memory();
	fixture_begin(&g, state);
	attach(&g);
	can = weir_mmap_registered(g.m, g.r, NULL) == (int64_t)LEN;
	assert_int_equal(weir_inventory_detach(g.inv, g.m), 0);
	fault_ask(refuse_registration);
	attach(&g);
	assert_int_equal(weir_pool_create(&pool, g.r, &opts), 0);
	assert_int_equal(weir_mmap_registered(g.m, g.r, &text), 0);
	assert_string_not_equal(text, "");
	assert_int_equal(weir_pool_get(&out, pool), 0);
	assert_int_equal(out->index, 0);
	fault_ask(NULL);
	if (can) {
		assert_true(registers(g.r, g.m, LEN));
		assert_true(registers(g.r, weir_pool_mmap(pool), 4 * 65536));
		assert_int_equal(weir_mmap_registered(g.m, g.r, &text), LEN);
		assert_string_equal(text, "");
		assert_true(index_of(&g, g.mem, LEN) > 0);
		/* Of the pool's, also those that were out. */
		assert_int_equal(weir_pool_get(&cached, pool), 0);
		assert_true(out->index > 0 && cached->index > 0);
		weir_buf_put(cached);
	}
	weir_buf_put(out);
	assert_int_equal(weir_pool_destroy(pool), 0);
	fixture_end(&g);
}

/* In a child; see limited(). */
static const char *use_limit(uint32_t backend)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend,
	};
	struct weir_pool_opts few = { .size = sizeof(few), .bufs = 32 };
	const struct rlimit lim = { 8u << 20, 8u << 20 };
	struct weir_reactor *r = NULL;
	struct weir_inventory *inv;
	struct weir_pool *pool = NULL, *other = NULL;
	struct weir_mmap *m = NULL;

	if (setrlimit(RLIMIT_MEMLOCK, &lim) || (!getuid() && setuid(65530)))
		return "limits";
	if (weir_reactor_create(&r, &opts))
		return "reactor";
	if (weir_mmap_create(&m, NULL) || weir_mmap_alloc(m, 64u << 20, 0) ||
	    weir_mmap_start(m) || weir_inventory_create(&inv, r, NULL) ||
	    weir_inventory_attach(inv, m))
		return "attach";
	/* The rings count, too, and of a huge page all of it. */
	if (weir_mmap_registered(m, r, NULL) < 6 << 20)
		return "a part of the limit that was not used";
	if (weir_pool_create(&pool, r, &few))
		return "pool";
	if (!registers(r, weir_pool_mmap(pool), 32 * 65536))
		return "a pool that does not come first";
	if (!registers(r, m, 4 << 20))
		return "what the pool has left, which was not used";
	/* More than there is: but not from a pool. */
	few.bufs = 128;
	if (weir_pool_create(&other, r, &few))
		return "a larger pool";
	if (weir_mmap_registered(weir_pool_mmap(pool), r, NULL) < 32 * 65536)
		return "a pool that another has robbed";
	if (weir_pool_destroy(other) || weir_pool_destroy(pool) ||
	    weir_mmap_destroy(m) || weir_inventory_destroy(inv) ||
	    weir_reactor_destroy(r))
		return "destroy";
	return NULL;
}

/* What a user without privilege sees.  Returns what is wrong, or NULL. */
static const char *limited(uint32_t backend)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend,
	};
	const struct rlimit lim = { 1u << 20, 1u << 20 };
	struct weir_reactor *r = NULL;
	struct weir_inventory *inv;
	const char *text = NULL;
	struct weir_mmap *m = NULL;
	int64_t n;

	if (setrlimit(RLIMIT_MEMLOCK, &lim) || (!getuid() && setuid(65531)))
		return "limits";
	if (weir_reactor_create(&r, &opts))
		return "reactor";
	if (weir_mmap_create(&m, NULL) || weir_mmap_alloc(m, 8u << 20, 0) ||
	    weir_mmap_start(m) || weir_inventory_create(&inv, r, NULL) ||
	    weir_inventory_attach(inv, m))
		return "attach";
	n = weir_mmap_registered(m, r, &text);
	if (n < 0 || n > 1 << 20 || !*text)
		return "registered";
	if (strcmp(weir_reactor_backend(r), "ev") &&
	    (!strstr(text, "ulimit -l") || !strstr(text, "1024 KiB")))
		return text;
	if (weir_mmap_destroy(m) || weir_inventory_destroy(inv) ||
	    weir_reactor_destroy(r))
		return "destroy";
	return NULL;
}

/* Run @fn in a child, which gives up its rights. */
static void in_child(void **state, const char *(*fn)(uint32_t backend))
{
	const char *wrong;
	int status;
	pid_t pid;

	if (under_valgrind() || UNDER_TSAN)
		skip_because("a child that gives up its rights cannot be "
			     "looked into");
	want_lockable_memory();
	fflush(NULL);
	pid = fork();
	if (!pid) {
		wrong = fn(backend_of(*state));
		if (wrong)
			fprintf(stderr, "child: %s\n", wrong);
		_exit(wrong != NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_user_with_a_small_limit_is_told_which(void **state)
{
	in_child(state, limited);
}

static void a_limit_is_used_up_and_by_pools_first(void **state)
{
	if (is_ev(state))
		skip_because("there is nothing to register with");
	in_child(state, use_limit);
}

static void unregister_of_the_parents(struct weir_reactor *r, int index)
{
	(void)r, (void)index;
	_exit(3);
}

/* The ring is shared: kernels before 6.0 take this from a child, too. */
static void child_that_destroys_an_mmap_unregisters_nothing(void **state)
{
	struct backend backend;
	struct fixture g;
	int status, index;
	pid_t pid;

	fixture_begin(&g, state);
	attach(&g);
	index = index_of(&g, g.mem, LEN);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		backend = *g.r->backend;
		backend.buf_unregister = unregister_of_the_parents;
		g.r->backend = &backend;
		_exit(weir_mmap_destroy(g.m) ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(index_of(&g, g.mem, LEN), index);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(registration_says_how_much_and_why_not_more),
		CASE(free_lists_of_a_reactor_share_a_registration),
		CASE(a_registration_ends_with_the_attachment),
		CASE(buf_of_another_reactor_is_not_used_by_its_number),
		CASE(pool_registers_although_one_free_list_does_not),
		CASE(pool_without_capacity_to_register_works_unregistered),
		CASE(no_memory_is_refused_because_it_cannot_be_registered),
		CASE(mmap_of_more_than_1_gib_is_registered_in_pieces),
		CASE(refused_registration_is_tried_again_in_a_later_turn),
		CASE(child_that_destroys_an_mmap_unregisters_nothing),
		CASE(a_user_with_a_small_limit_is_told_which),
		CASE(a_limit_is_used_up_and_by_pools_first),
	};

	return harness_run(cases, N_OF(cases));
}
