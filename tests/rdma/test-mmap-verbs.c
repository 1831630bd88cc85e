/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * RDMA devices, and what they are asked to register, over a mock for
 * rdma-core: no card is there.  Keys of mmaps are test-mmap-keys.c's.
 */

#include "tests/support/harness.h"

#include <infiniband/verbs.h>

#include <weir/device.h>
#include <weir/domain.h>
#include <weir/dm.h>
#include <weir/mmap.h>

#include "base/fault.h"
#include "rdma/device.h"
#include "mem/device-internal.h"
#include "mem/dm-internal.h"
#include "tests/support/mock-verbs.h"

#define LEN 8192u

static struct weir_device *open_dev(const char *name)
{
	struct weir_device *dev = NULL;
	int err = weir_device_open_name(&dev, name);

	if (err)
		fail_msg("%s: %d: %s", name, err, weir_why());
	return dev;
}

static void nothing_is_left(void)
{
	assert_int_equal(mocked()->contexts, 0);
	assert_int_equal(mocked()->pds, 0);
	assert_int_equal(mocked()->mrs, 0);
	assert_int_equal(mocked()->dms, 0);
	assert_int_equal(mocked()->imports, 0);
}

/* Devices. */

static struct weir_device_caps caps_of(const char *name)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	size_t n, i, found = 0;

	assert_int_equal(weir_device_list(&list, &n), 0);
	for (i = 0; i < n; i++) {
		if (strcmp(list[i]->caps.name, name))
			continue;
		assert_int_equal(weir_devinfo_caps(list[i], &caps), 0);
		found++;
	}
	assert_int_equal(found, 1);
	weir_device_list_free(list);
	return caps;
}

#define QUEUES (WEIR_DEVICE_CAP_ATOMIC | WEIR_DEVICE_CAP_SRQ)

/* A2.3, B1.1 */
static void capabilities_are_those_that_the_driver_answers(void **state)
{
	static const struct {
		const char *name;
		uint32_t caps;
		uint64_t dm_size;
	} want[] = {
		{ "mock_mlx5",
		  WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_DMABUF |
			  WEIR_DEVICE_CAP_DM | WEIR_DEVICE_CAP_DM_IMPORT |
			  WEIR_DEVICE_CAP_DM_DMABUF | WEIR_DEVICE_CAP_ODP |
			  WEIR_DEVICE_CAP_MW | QUEUES,
		  MOCK_DM_SIZE },
		{ "mock_mana",
		  WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_DMABUF |
			  WEIR_DEVICE_CAP_DM | WEIR_DEVICE_CAP_DM_DMABUF |
			  QUEUES,
		  MOCK_DM_SIZE },
		{ "mock_rxe",
		  WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_MW | QUEUES, 0 },
	};
	struct weir_device_caps caps;
	size_t i;

	(void)state;
	for (i = 0; i < N_OF(want); i++) {
		caps = caps_of(want[i].name);
		assert_int_equal(caps.kind, WEIR_DEVICE_RDMA);
		assert_int_equal(caps.flags, WEIR_DEVICE_USABLE);
		assert_int_equal(caps.caps, want[i].caps);
		assert_int_equal(caps.dm_size, want[i].dm_size);
		assert_true(caps.domains &
			    WEIR_DEVICE_BIT(WEIR_DOMAIN_REMOTE));
		assert_int_equal(caps.max_segments, 30);
		assert_int_equal(caps.address_bits, 64);
		assert_string_equal(caps.why, "");
	}
	nothing_is_left();
}

/* To whom its atomics are atomic. */
static void a_device_says_what_its_atomics_are_worth(void **state)
{
	const uint32_t both = WEIR_DEVICE_CAP_ATOMIC |
			      WEIR_DEVICE_CAP_ATOMIC_ALL;

	(void)state;
	assert_int_equal(caps_of("mock_rxe").caps & both,
			 WEIR_DEVICE_CAP_ATOMIC);
	mocked()->all_atomics = true;
	assert_int_equal(caps_of("mock_rxe").caps & both, both);
	mocked()->all_atomics = false;
	mocked()->no_atomics = true;
	assert_int_equal(caps_of("mock_rxe").caps & both, 0);
	mocked()->no_atomics = false;
	nothing_is_left();
}

static void unopenable_device_is_listed_with_the_remedy(void **state)
{
	struct weir_device_caps caps = caps_of("mock_shut");
	struct weir_device *dev;

	(void)state;
	assert_int_equal(caps.flags, 0);
	assert_int_equal(caps.caps, 0);
	assert_non_null(strstr(caps.why, "/dev/infiniband/uverbs"));
	assert_int_equal(weir_device_open_name(&dev, "mock_shut"), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), caps.why));
}

/* class/infiniband of a tree like /sys, to *@dir. */
static void make_tree(void **state, char *dir, size_t size)
{
	snprintf(dir, size, "%s/class", test_dir(state));
	mkdir(dir, 0700);
	snprintf(dir, size, "%s/class/infiniband", test_dir(state));
	mkdir(dir, 0700);
	device_sysfs = test_dir(state);
}

static void device_without_a_bus_is_called_software(void **state)
{
	char dir[256], link[300];

	make_tree(state, dir, sizeof(dir));
	snprintf(link, sizeof(link), "%s/mock_rxe", dir);
	assert_int_equal(symlink("../../devices/virtual/rxe", link), 0);
	snprintf(dir, sizeof(dir), "%s/devices", test_dir(state));
	mkdir(dir, 0700);
	strcat(dir, "/virtual");
	mkdir(dir, 0700);
	strcat(dir, "/rxe");
	mkdir(dir, 0700);
	assert_int_equal(caps_of("mock_rxe").flags,
			 WEIR_DEVICE_USABLE | WEIR_DEVICE_SOFTWARE);
	assert_int_equal(caps_of("mock_mlx5").flags, WEIR_DEVICE_USABLE);
	device_sysfs = "/sys";
}

static void device_unknown_to_rdma_core_is_listed_with_the_remedy(void **state)
{
	struct weir_device_caps caps;
	char dir[256];

	make_tree(state, dir, sizeof(dir));
	strcat(dir, "/unheard_of");
	mkdir(dir, 0700);
	caps = caps_of("unheard_of");
	assert_int_equal(caps.kind, WEIR_DEVICE_RDMA);
	assert_int_equal(caps.flags, 0);
	assert_non_null(strstr(caps.why, "ibverbs-providers"));
	device_sysfs = "/sys";
}

/* A2.6: one context, one protection domain. */
static void device_is_opened_once_and_closed_with_its_last_reference(
	void **state)
{
	struct weir_device *dev = open_dev("mock_mlx5");
	struct weir_dm *dm;

	(void)state;
	assert_ptr_equal(open_dev("mock_mlx5"), dev);
	assert_int_equal(mocked()->contexts, 1);
	assert_int_equal(mocked()->pds, 1);
	assert_int_equal(weir_dm_alloc(&dm, dev, 64, 0), 0);
	assert_int_equal(weir_device_close(dev), 0);
	assert_int_equal(weir_device_close(dev), -EBUSY);
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(weir_device_close(dev), 0);
	nothing_is_left();
}

static void opening_fails_whole(void **state)
{
	struct weir_device *dev = NULL;
	struct weir_devinfo **list;
	int err, fired, i = 0;
	size_t n, at;

	(void)state;
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (at = 0; strcmp(list[at]->caps.name, "mock_mlx5"); at++)
		;
	do {
		fault_arm(i++);
		err = weir_device_open(&dev, list[at]);
		fired = fault_disarm();
		if (fired) {
			assert_true(err < 0 && !dev);
			assert_starts_with(weir_why(), "weir_device_open: ");
			nothing_is_left();
		}
	} while (fired);
	assert_int_equal(err, 0);
	assert_true(i > 3);
	assert_int_equal(weir_device_close(dev), 0);
	weir_device_list_free(list);
}

static void a_list_that_fails_inside_says_less_and_keeps_nothing(void **state)
{
	struct weir_devinfo **list;
	int fired, i = 0;
	size_t n;

	(void)state;
	do {
		fault_arm(i++);
		if (!weir_device_list(&list, &n))
			weir_device_list_free(list);
		fired = fault_disarm();
		nothing_is_left();
	} while (fired);
	assert_true(i > 10);
}

/* Gotcha 27: before any registration. */
static void fork_is_taken_care_of_first(void **state)
{
	struct weir_device *dev = open_dev("mock_rxe");

	(void)state;
	assert_int_equal(mocked()->fork_inits, 1);
	assert_int_equal(mocked()->unsafe, 0);
	assert_int_equal(weir_device_close(dev), 0);
}

/* Registrations, as mmaps make them. */

static int register_mem(struct weir_device *dev, struct device_range *range,
			struct device_mr *mr)
{
	return dev->info.cls->mr_register(dev, range, mr);
}

static int deregister(struct weir_device *dev, const struct device_mr *mr)
{
	return dev->info.cls->mr_deregister(dev, mr);
}

static const struct right {
	uint32_t permissions;
	unsigned int access;
	int err;
} rights[] = {
	{ WEIR_MMAP_READ, 0, 0 },
	{ WEIR_MMAP_READ | WEIR_MMAP_PEER_READ, 0, 0 },
	{ WEIR_MMAP_WRITE, IBV_ACCESS_LOCAL_WRITE, 0 },
	{ WEIR_MMAP_RDMA_READ, IBV_ACCESS_REMOTE_READ, 0 },
	{ WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_WRITE,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0 },
	{ WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_ATOMIC,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, 0 },
	{ WEIR_MMAP_RELAXED_ORDERING, IBV_ACCESS_RELAXED_ORDERING, 0 },
	{ WEIR_MMAP_RDMA_WRITE, 0, -EINVAL },
	{ WEIR_MMAP_RDMA_ATOMIC, 0, -EINVAL },
};

/* B2.1, acceptance 41, 48 */
static void rights_become_access_flags(void **state)
{
	struct weir_device *dev = open_dev("mock_rxe");
	struct device_range range = { .kind = DEVICE_RANGE_MEM, .len = LEN };
	struct device_mr mr;
	static char mem[LEN];
	size_t i;

	(void)state;
	range.addr = mem;
	for (i = 0; i < N_OF(rights); i++) {
		range.permissions = rights[i].permissions;
		assert_int_equal(register_mem(dev, &range, &mr),
				 rights[i].err);
		if (rights[i].err)
			continue;
		assert_int_equal(mocked()->access, rights[i].access);
		assert_int_equal(mocked()->len, LEN);
		assert_int_equal(mocked()->iova, (uintptr_t)mem);
		assert_int_equal(deregister(dev, &mr), 0);
	}
	assert_int_equal(weir_device_close(dev), 0);
	nothing_is_left();
}

/* B1.4, acceptance 36 */
static void device_memory_is_registered_from_zero(void **state)
{
	static const uint32_t fractions[] = { 1, 2, 4, 8, 64 };
	struct weir_device *dev = open_dev("mock_mlx5");
	struct device_range range = {
		.kind = DEVICE_RANGE_DM,
		.permissions = WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_READ,
	};
	struct device_mr mr;
	size_t i;

	(void)state;
	assert_int_equal(weir_dm_alloc(&range.dm, dev, LEN, 0), 0);
	for (i = 0; i < N_OF(fractions); i++) {
		range.len = LEN / fractions[i];
		range.off = LEN - range.len;
		assert_int_equal(register_mem(dev, &range, &mr), 0);
		assert_int_equal(mocked()->access,
				 IBV_ACCESS_ZERO_BASED |
					 IBV_ACCESS_LOCAL_WRITE |
					 IBV_ACCESS_REMOTE_READ);
		assert_int_equal(mocked()->off, range.off);
		/* B1.2 */
		assert_int_equal(weir_dm_free(range.dm), -EBUSY);
		assert_int_equal(deregister(dev, &mr), 0);
	}
	range.off = 0;
	range.len = LEN + 4;
	assert_int_equal(register_mem(dev, &range, &mr), -EINVAL);
	assert_int_equal(weir_dm_free(range.dm), 0);
	assert_int_equal(weir_device_close(dev), 0);
	nothing_is_left();
}

/* B2.5, acceptance 43 as far as registration goes */
static void a_dmabuf_is_registered_by_its_fd(void **state)
{
	struct weir_device *dev = open_dev("mock_mlx5");
	struct device_range range = {
		.kind = DEVICE_RANGE_DMABUF, .len = LEN, .off = 4096 + 64,
		.fd = test_file(state, "dmabuf", 3 * LEN, 0),
	};
	struct device_mr mr, twice;

	assert_int_equal(register_mem(dev, &range, &mr), 0);
	assert_int_equal(mocked()->fd, range.fd);
	assert_int_equal(mocked()->iova, range.off);
	assert_int_equal(register_mem(dev, &range, &twice), 0);
	assert_int_equal(deregister(dev, &twice), 0);
	assert_int_equal(deregister(dev, &mr), 0);
	range.addr = (void *)(uintptr_t)(0x10000 + 64);
	assert_int_equal(register_mem(dev, &range, &mr), 0);
	assert_int_equal(mocked()->iova, 0x10000 + 64);
	assert_int_equal(deregister(dev, &mr), 0);
	close(range.fd);
	assert_int_equal(register_mem(dev, &range, &mr), -EBADF);
	assert_int_equal(weir_device_close(dev), 0);
	nothing_is_left();
}

/* Device memory as a dma-buf: acceptance 39. */

static int dmabuf_of(const char *name, int err)
{
	struct weir_device *dev = open_dev(name);
	struct weir_dm *dm;
	int fd;

	assert_int_equal(weir_dm_alloc(&dm, dev, LEN, 0), 0);
	mocked()->dmabuf_errno = err;
	fd = weir_dm_dmabuf_fd(dm);
	mocked()->dmabuf_errno = 0;
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(weir_device_close(dev), 0);
	return fd;
}

static void device_memory_becomes_a_dmabuf_where_the_driver_can(void **state)
{
	int fd = dmabuf_of("mock_mlx5", 0);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(dmabuf_of("mock_mlx5", ENODATA), -ENODATA);
	assert_int_equal(dmabuf_of("mock_mana", 0), -EOPNOTSUPP);
	assert_int_equal(dmabuf_of("soft-dm", 0), -EOPNOTSUPP);
	nothing_is_left();
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(capabilities_are_those_that_the_driver_answers),
		CASE(a_device_says_what_its_atomics_are_worth),
		CASE(unopenable_device_is_listed_with_the_remedy),
		CASE(device_without_a_bus_is_called_software),
		CASE(device_unknown_to_rdma_core_is_listed_with_the_remedy),
		CASE(device_is_opened_once_and_closed_with_its_last_reference),
		CASE(opening_fails_whole),
		CASE(a_list_that_fails_inside_says_less_and_keeps_nothing),
		CASE(fork_is_taken_care_of_first),
		CASE(rights_become_access_flags),
		CASE(device_memory_is_registered_from_zero),
		CASE(a_dmabuf_is_registered_by_its_fd),
		CASE(device_memory_becomes_a_dmabuf_where_the_driver_can),
	};

	return harness_run_plain(cases, N_OF(cases));
}
