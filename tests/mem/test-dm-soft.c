/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What is the software twin's own, of device memory; what it has in common with
 * cards is in test-dm.c.
 */

#include "tests/support/harness.h"

#include <sys/mman.h>

#include <weir/device.h>
#include <weir/dm.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

#define LEN 4096u
#define SIZE (256u << 10)

struct fixture {
	struct weir_device *dev;
	struct weir_dm *dm;
	struct weir_dm_token token;
	char bytes[LEN];
};

static void fixture_begin(struct fixture *g, void **state)
{
	(void)state;
	memset(g, 0, sizeof(*g));
	g->token.size = sizeof(g->token);
	g->token.fd = -1;
	assert_int_equal(weir_device_open_name(&g->dev, "soft-dm"), 0);
	assert_int_equal(weir_dm_alloc(&g->dm, g->dev, LEN, 0), 0);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_dm_free(g->dm), 0);
	assert_int_equal(weir_device_close(g->dev), 0);
	if (g->token.fd >= 0)
		close(g->token.fd);
}

static void alignment_takes_capacity_of_the_twin(void **state)
{
	struct weir_dm *dm, *more;
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_dm_free(g.dm), 0);
	g.dm = NULL;
	assert_int_equal(weir_dm_alloc(&dm, g.dev, SIZE - 8192, 12), 0);
	assert_int_equal(weir_dm_alloc(&more, g.dev, 4097, 12), 0);
	assert_int_equal(weir_dm_alloc(&g.dm, g.dev, 4, 0), -ENOMEM);
	assert_int_equal(weir_dm_free(more), 0);
	assert_int_equal(weir_dm_alloc(&more, g.dev, 8192 - 64, 0), 0);
	assert_int_equal(weir_dm_alloc(&g.dm, g.dev, 1, 0), 0);
	assert_int_equal(weir_dm_free(more), 0);
	assert_int_equal(weir_dm_free(dm), 0);
	fixture_end(&g);
}

static void imported_memory_takes_capacity_until_the_last_handle_goes(
	void **state)
{
	struct weir_dm *first, *second, *more;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	assert_int_equal(weir_dm_free(g.dm), 0);
	assert_int_equal(weir_dm_alloc(&g.dm, g.dev, SIZE, 0), 0);
	assert_int_equal(weir_dm_export(g.dm, &g.token), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_dm_import(&first, g.dev, &g.token), 0);
		assert_int_equal(weir_dm_import(&second, g.dev, &g.token), 0);
		/* Imports may go first, or last. */
		assert_int_equal(weir_dm_free(i ? first : g.dm), 0);
		assert_int_equal(weir_dm_alloc(&more, g.dev, 4, 0), -ENOMEM);
		assert_int_equal(weir_dm_free(second), 0);
		assert_int_equal(weir_dm_alloc(&more, g.dev, 4, 0), -ENOMEM);
		if (!i)
			g.dm = first;
	}
	assert_int_equal(weir_dm_free(g.dm), 0);
	assert_int_equal(weir_dm_alloc(&g.dm, g.dev, SIZE, 0), 0);
	fixture_end(&g);
}

static void the_twin_is_called_software_and_holds_no_zeroes(void **state)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct fixture g;
	size_t i;

	fixture_begin(&g, state);
	assert_int_equal(weir_devinfo_caps(weir_device_info(g.dev), &caps), 0);
	assert_int_equal(caps.kind, WEIR_DEVICE_SOFT_DM);
	assert_true(caps.flags & WEIR_DEVICE_SOFTWARE);
	assert_int_equal(weir_dm_copy_from(g.bytes, g.dm, 0, LEN), 0);
	for (i = 0; i < LEN; i++)
		assert_true(g.bytes[i]);
	fixture_end(&g);
}

static int try_fd(struct fixture *g, int fd, uint64_t len)
{
	struct weir_dm_token token = {
		.size = sizeof(token), .fd = fd, .len = len,
	};
	struct weir_dm *dm;
	int err = weir_dm_import(&dm, g->dev, &token);

	if (!err)
		weir_dm_free(dm);
	return err;
}

/* What could shrink under us would be SIGBUS; gotcha 27. */
static void import_refuses_what_is_no_soft_device_memory(void **state)
{
	struct { struct weir_dm_token t; uint64_t more; } newer;
	int memfd = memfd_create("other", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int file = test_file(state, "f", LEN, 0), reads;
	struct weir_dm *other;
	char path[64];
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(ftruncate(memfd, LEN), 0);
	assert_int_equal(weir_dm_export(g.dm, &g.token), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", g.token.fd);
	reads = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(try_fd(&g, g.token.fd, LEN), 0);
	assert_int_equal(try_fd(&g, g.token.fd, LEN - 4), -EINVAL);
	assert_int_equal(try_fd(&g, g.token.fd, 0), -EINVAL);
	assert_int_equal(try_fd(&g, reads, LEN), -EINVAL);
	assert_int_equal(try_fd(&g, memfd, LEN), -EINVAL);
	assert_int_equal(try_fd(&g, file, LEN), -EINVAL);
	assert_int_equal(try_fd(&g, -1, LEN), -EINVAL);
	assert_int_equal(ftruncate(g.token.fd, 0), -1);

	memset(&newer, 0, sizeof(newer));
	newer.t = g.token;
	newer.t.size = sizeof(newer);
	newer.more = 1;
	assert_int_equal(weir_dm_import(&other, g.dev, &newer.t), -E2BIG);
	newer.t.size = 8;
	assert_int_equal(weir_dm_export(g.dm, &newer.t), -EINVAL);
	close(reads);
	close(file);
	close(memfd);
	fixture_end(&g);
}

/* With vm.memfd_noexec all memfds get it. */
static void a_seal_that_the_system_adds_is_let_through(void **state)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int memfd = memfd_create("other", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	struct fixture g;

	if (memfd < 0)
		skip_because("a kernel before 6.3 seals nothing by itself");
	fixture_begin(&g, state);
	assert_int_equal(ftruncate(memfd, LEN), 0);
	assert_int_equal(fcntl(memfd, F_ADD_SEALS, seals), 0);
	assert_int_equal(fcntl(memfd, F_GET_SEALS), seals | F_SEAL_EXEC);
	assert_int_equal(try_fd(&g, memfd, LEN), 0);
	close(memfd);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(alignment_takes_capacity_of_the_twin),
		CASE(imported_memory_takes_capacity_until_the_last_handle_goes),
		CASE(the_twin_is_called_software_and_holds_no_zeroes),
		CASE(import_refuses_what_is_no_soft_device_memory),
		CASE(a_seal_that_the_system_adds_is_let_through),
	};

	return harness_run_plain(cases, N_OF(cases));
}
