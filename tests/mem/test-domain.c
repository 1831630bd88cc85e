/* SPDX-License-Identifier: BSD-3-Clause */

/* Domains: the table of docs/internals/mem.md, and what a file domain finds
 * out. */

#include "tests/support/harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weir/domain.h>
#include <weir/mmap.h>

#include "base/fault.h"
#include "mem/domain-internal.h"

static void the_system_domain_is_there_and_cannot_be_destroyed(void **state)
{
	struct weir_domain *d = weir_domain_system();

	(void)state;
	assert_non_null(d);
	assert_ptr_equal(d, weir_domain_system());
	assert_int_equal(weir_domain_kind(d), WEIR_DOMAIN_SYSTEM);
	assert_string_equal(weir_domain_id(d), "system");
	assert_null(weir_domain_ctx(d));
	assert_int_equal(weir_domain_destroy(d), -EPERM);
	assert_starts_with(weir_why(), "weir_domain_destroy: ");
}

static void huge_page_domain_always_exists(void **state)
{
	struct weir_domain *d = weir_domain_hugepage();

	(void)state;
	assert_int_equal(weir_domain_kind(d), WEIR_DOMAIN_HUGEPAGE);
	assert_string_equal(weir_domain_id(d), "hugepage");
	assert_null(weir_domain_ctx(d));
	assert_int_equal(weir_domain_destroy(d), -EPERM);
}

static struct weir_domain *named(int fd, const char *id)
{
	struct weir_domain_file_opts opts = { .size = sizeof(opts), .id = id };
	struct weir_domain *d = NULL;

	assert_int_equal(weir_domain_file_create(&d, fd, &opts), 0);
	return d;
}

/* S5, case 28 */
static void a_walk_goes_in_order_of_creation(void **state)
{
	int fd = test_file(state, "f", 1, 0), i;
	static const char *const ids[] = { "a", "b", "a", "" };
	struct weir_domain *made[4], *d;

	for (i = 0; i < 4; i++)
		made[i] = named(fd, ids[i]);
	d = weir_domain_next(NULL, NULL);
	assert_ptr_equal(d, weir_domain_system());
	d = weir_domain_next(d, NULL);
	assert_ptr_equal(d, weir_domain_hugepage());
	for (i = 0; i < 4; i++) {
		d = weir_domain_next(d, NULL);
		assert_ptr_equal(d, made[i]);
	}
	assert_null(weir_domain_next(d, NULL));

	/* By id, of which there are two, one, and none. */
	d = weir_domain_next(NULL, "a");
	assert_ptr_equal(d, made[0]);
	d = weir_domain_next(d, "a");
	assert_ptr_equal(d, made[2]);
	assert_null(weir_domain_next(d, "a"));
	d = weir_domain_next(NULL, "");
	assert_ptr_equal(d, made[3]);
	assert_null(weir_domain_next(d, ""));
	assert_null(weir_domain_next(NULL, "c"));
	d = weir_domain_next(NULL, "system");
	assert_ptr_equal(d, weir_domain_system());
	assert_null(weir_domain_next(d, "system"));
	for (i = 0; i < 4; i++)
		assert_int_equal(weir_domain_destroy(made[i]), 0);
	close(fd);
}

static void domain_that_a_walk_is_at_is_not_destroyed(void **state)
{
	int fd = test_file(state, "f", 1, 0);
	struct weir_domain *a = named(fd, "x"), *b = named(fd, "x"), *d;

	d = weir_domain_next(NULL, "x");
	assert_ptr_equal(d, a);
	assert_int_equal(weir_domain_destroy(a), -EBUSY);
	assert_starts_with(weir_why(), "weir_domain_destroy: a walk ");
	assert_int_equal(weir_domain_users(a), 0);

	/* What is ahead may go, and something else may come. */
	assert_int_equal(weir_domain_destroy(b), 0);
	b = named(fd, "x");
	d = weir_domain_next(d, "x");
	assert_ptr_equal(d, b);
	assert_int_equal(weir_domain_destroy(a), 0);
	assert_int_equal(weir_domain_destroy(b), -EBUSY);
	weir_domain_put(d);
	weir_domain_put(NULL);
	assert_int_equal(weir_domain_destroy(b), 0);

	/* The end of the list has moved back. */
	a = named(fd, "x");
	d = weir_domain_next(weir_domain_next(NULL, "hugepage"), NULL);
	assert_ptr_equal(d, a);
	assert_null(weir_domain_next(d, NULL));
	assert_int_equal(weir_domain_destroy(a), 0);
	close(fd);
}

struct churn {
	atomic_bool quit;
	int fd;
	unsigned int rounds;
};

static void *churn(void *arg)
{
	struct churn *c = arg;

	do {
		struct weir_domain *d = named(c->fd, "churn");

		while (weir_domain_destroy(d))
			sched_yield();
		c->rounds++;
	} while (!atomic_load(&c->quit));
	return NULL;
}

static void a_walk_is_safe_against_destruction(void **state)
{
	unsigned int rounds = scaled(20000);
	int fd = test_file(state, "f", 1, 0), i;
	struct churn c[2] = { { .fd = fd }, { .fd = fd } };
	struct weir_domain *d;
	pthread_t thread[2];

	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, &c[i]),
				 0);
	while (rounds--)
		for (d = weir_domain_next(NULL, NULL); d;
		     d = weir_domain_next(d, NULL))
			assert_true(strlen(weir_domain_id(d)) > 3);
	for (i = 0; i < 2; i++) {
		atomic_store(&c[i].quit, true);
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_true(c[i].rounds > 0);
	}
	assert_null(weir_domain_next(NULL, "churn"));
	close(fd);
}

static void destroying_nothing_is_allowed(void **state)
{
	(void)state;
	assert_int_equal(weir_domain_destroy(NULL), 0);
}

static void a_file_domain_has_what_it_was_made_with(void **state)
{
	int fd = test_file(state, "f", 10, 0), x;
	struct weir_domain_file_opts opts = {
		.size = sizeof(opts), .id = "my file", .ctx = &x,
	};
	struct weir_domain *d;

	assert_int_equal(weir_domain_file_create(&d, fd, &opts), 0);
	assert_int_equal(weir_domain_kind(d), WEIR_DOMAIN_FILE);
	assert_string_equal(weir_domain_id(d), "my file");
	assert_ptr_not_equal(weir_domain_id(d), opts.id);
	assert_ptr_equal(weir_domain_ctx(d), &x);
	assert_int_equal(weir_domain_users(d), 0);
	assert_int_equal(weir_domain_destroy(d), 0);

	assert_int_equal(weir_domain_file_create(&d, fd, NULL), 0);
	assert_string_equal(weir_domain_id(d), "file");
	assert_null(weir_domain_ctx(d));
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
}

static void refuse(int fd, const struct weir_domain_file_opts *opts, int err)
{
	struct weir_domain *d = (void *)1;

	assert_int_equal(weir_domain_file_create(&d, fd, opts), err);
	assert_ptr_equal(d, (void *)1);
	assert_starts_with(weir_why(), "weir_domain_file_create: ");
	if (fd >= 0)
		close(fd);
}

static void file_without_offsets_is_refused(void **state)
{
	const char *dir = test_dir(state);
	int fd[2];

	refuse(-1, NULL, -EBADF);
	refuse(open(dir, O_RDONLY), NULL, -EINVAL);
	refuse(open(dir, O_PATH), NULL, -EINVAL);
	pipe_pair(fd);
	close(fd[1]);
	refuse(fd[0], NULL, -ESPIPE);
	socket_pair(fd);
	close(fd[1]);
	refuse(fd[0], NULL, -ESPIPE);
	close(test_file(state, "f", 1, 0));
	refuse(open(test_path(state, "f"), O_WRONLY | O_APPEND), NULL, -EINVAL);
}

static void bad_options_are_refused(void **state)
{
	struct weir_domain_file_opts opts = { .size = sizeof(opts) };
	struct { struct weir_domain_file_opts o; uint64_t more; } newer;

	opts.flags = 0x80;
	refuse(test_file(state, "f", 1, 0), &opts, -EINVAL);
	opts.flags = 0;
	opts.align = 513;
	refuse(test_file(state, "f", 1, 0), &opts, -EINVAL);

	memset(&newer, 0, sizeof(newer));
	newer.o.size = sizeof(newer);
	newer.more = 1;
	refuse(test_file(state, "f", 1, 0), &newer.o, -E2BIG);
}

/* O_DIRECT is refused by some file systems; then there is nothing to test. */
static int open_direct(void **state, const char *name, int flags)
{
	int fd = open(test_path(state, name), flags | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		skip_because("no O_DIRECT here: %s", strerror(errno));
	return fd;
}

static void reserved_fields_of_a_domain_are_0(void **state)
{
	struct weir_domain_file_opts opts = {
		.size = sizeof(opts), .reserved = 1,
	};

	refuse(test_file(state, "f", 10, 0), &opts, -E2BIG);
}

static void a_direct_file_wants_a_buffered_one_with_its_rights(void **state)
{
	struct weir_domain_file_opts opts = {
		.size = sizeof(opts), .flags = WEIR_DOMAIN_FILE_BUFFERED,
	};
	struct weir_domain *d;
	int buffered, reads, fd;

	close(test_file(state, "f", 8192, 0));
	fd = open_direct(state, "f", O_RDWR);
	buffered = open(test_path(state, "f"), O_RDWR);
	reads = open(test_path(state, "f"), O_RDONLY);

	opts.buffered_fd = buffered;
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), 0);
	assert_int_equal(weir_domain_destroy(d), 0);

	/* A page is not written both ways; with one alone, as asked. */
	opts.align = 512;
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), 0);
	assert_int_equal(domain_to_file(d)->domain.align, 4096);
	assert_int_equal(weir_domain_destroy(d), 0);
	opts.flags = WEIR_DOMAIN_FILE_DIRECT_ONLY;
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), 0);
	assert_int_equal(domain_to_file(d)->domain.align, 512);
	assert_int_equal(weir_domain_destroy(d), 0);
	opts.flags = WEIR_DOMAIN_FILE_BUFFERED;
	opts.align = 0;

	opts.buffered_fd = reads;
	refuse(dup(fd), &opts, -EINVAL);
	opts.buffered_fd = fd;
	refuse(dup(fd), &opts, -EINVAL);
	opts.buffered_fd = test_file(state, "another", 8192, 0);
	refuse(dup(fd), &opts, -EINVAL);
	close(opts.buffered_fd);
	opts.buffered_fd = -1;
	refuse(dup(fd), &opts, -EBADF);

	/* As well if it would not be used. */
	refuse(dup(buffered), &opts, -EBADF);
	opts.buffered_fd = reads;
	refuse(dup(buffered), &opts, -EINVAL);
	opts.buffered_fd = buffered;
	assert_int_equal(weir_domain_file_create(&d, reads, &opts), 0);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(buffered);
	close(reads);
	close(fd);
}

static void a_file_is_not_memory_for_an_mmap(void **state)
{
	struct weir_mmap *m = NULL;
	struct weir_domain *d;
	int fd = test_file(state, "f", 10, 0);

	assert_int_equal(weir_domain_file_create(&d, fd, NULL), 0);
	assert_int_equal(weir_mmap_create(&m, d), -EOPNOTSUPP);
	assert_null(m);
	assert_int_equal(weir_domain_users(d), 0);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
}

static void failed_domain_call_leaves_nothing_behind(void **state)
{
	struct weir_domain *d = NULL;
	int fd = test_file(state, "f", 10, 0);
	int err, n = 0, fired;

	do {
		fault_arm(n++);
		err = weir_domain_file_create(&d, fd, NULL);
		fired = fault_disarm();
		if (fired)
			assert_true(err < 0 && !d);
	} while (fired);
	assert_int_equal(err, 0);
	assert_true(n > 2);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(the_system_domain_is_there_and_cannot_be_destroyed),
		CASE(huge_page_domain_always_exists),
		CASE(a_walk_goes_in_order_of_creation),
		CASE(domain_that_a_walk_is_at_is_not_destroyed),
		CASE(a_walk_is_safe_against_destruction),
		CASE(destroying_nothing_is_allowed),
		CASE(a_file_domain_has_what_it_was_made_with),
		CASE(file_without_offsets_is_refused),
		CASE(bad_options_are_refused),
		CASE(reserved_fields_of_a_domain_are_0),
		CASE(a_direct_file_wants_a_buffered_one_with_its_rights),
		CASE(a_file_is_not_memory_for_an_mmap),
		CASE(failed_domain_call_leaves_nothing_behind),
	};

	return harness_run_plain(cases, N_OF(cases));
}
