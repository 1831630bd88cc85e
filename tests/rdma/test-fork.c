/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory that a device knows, and fork: the child has copies, the device still
 * has what is the parent's (gotcha 27).  Over the mock, which only sees that
 * rdma-core is told in time, and over soft-RoCE, where a page that both have is
 * copied by whoever writes first.
 */

#include "tests/support/rdma-fixture.h"

#include <sys/wait.h>

static int ends_in(pid_t child)
{
	int status = 0;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Let the child look at @mem when it is told to by the end of the pipe. */
static pid_t fork_one(const char *mem, int *tell)
{
	int pipes[2];
	char c;
	pid_t child;

	assert_int_equal(pipe(pipes), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		close(pipes[1]);
		if (read(pipes[0], &c, 1))
			_exit(2);
		_exit(!mem || mem[0] == 'm' ? 0 : 1);
	}
	close(pipes[0]);
	*tell = pipes[1];
	return child;
}

static void a_fork_leaves_the_device_with_the_parent(void **state)
{
	char buf[16] = "from the peer";
	bool hidden;		/* Kept from children, by rdma-core. */
	uint32_t rkey;
	pid_t child;
	struct fixture g;
	int tell;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, NULL, &rkey), 0);
	hidden = ibv_is_fork_initialized() == IBV_FORK_ENABLED;
	child = fork_one(hidden ? NULL : g.mem, &tell);
	memset(g.mem, 'p', LEN);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, (uintptr_t)g.mem,
				     rkey, buf, 4), IBV_WC_SUCCESS);
	assert_memory_equal(buf, "pppp", 4);
	strcpy(buf, "by the device");
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_WRITE, (uintptr_t)g.mem,
				     rkey, buf, 14), IBV_WC_SUCCESS);
	assert_string_equal(g.mem, "by the device");
	close(tell);
	assert_int_equal(ends_in(child), 0);
	fixture_end(&g);
}

/* Or it is the kernel that sees to it, or was too late to ask. */
static void rdma_core_is_asked_for_fork_support(void **state)
{
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	if (mocked)
		assert_int_equal(mocked()->fork_inits, 1);
	else
		assert_int_not_equal(ibv_is_fork_initialized(),
				     IBV_FORK_DISABLED);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(rdma_core_is_asked_for_fork_support),
		CASE(a_fork_leaves_the_device_with_the_parent),
	};

	return harness_run_plain(cases, N_OF(cases));
}
