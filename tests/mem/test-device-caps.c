/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device says that it cannot do is -EOPNOTSUPP from the call, and what
 * it says that it can do is not: one table of capabilities, gone through for
 * every device there is (A1.24, A2.3, B1.1; acceptance case 22).  The mock
 * for RDMA devices brings some with everything, with a part of it, and with
 * nothing.  Likewise for jobs: devices promise what engines do.
 */

#include "tests/support/engine-of.h"
#include "tests/support/harness.h"
#include "tests/support/mock-verbs.h"

#include <weir/device.h>
#include <weir/dm.h>
#include <weir/domain.h>
#include <weir/export.h>
#include <weir/job.h>
#include <weir/mmap.h>

#include "dma/job-internal.h"
#include "mem/mmap-internal.h"

static int try_dm(struct weir_device *dev)
{
	struct weir_dm *dm = NULL;
	int err = weir_dm_alloc(&dm, dev, 64, 0);

	if (err) {
		assert_null(dm);
		return err;
	}
	assert_ptr_equal(weir_dm_device(dm), dev);
	return weir_dm_free(dm);
}

/* A token that names nothing: whoever can import says that. */
static int try_dm_import(struct weir_device *dev)
{
	struct weir_dm_token token = {
		.size = sizeof(token), .len = 64, .fd = -1, .handle = 12345,
	};
	struct weir_dm *dm = NULL;
	int err = weir_dm_import(&dm, dev, &token);

	assert_int_not_equal(err, 0);
	assert_null(dm);
	return err;
}

static int try_dm_dmabuf(struct weir_device *dev)
{
	struct weir_dm *dm;
	int fd, err = weir_dm_alloc(&dm, dev, 64, 0);

	if (err)
		return err;
	fd = weir_dm_dmabuf_fd(dm);
	if (fd >= 0)
		close(fd);
	assert_int_equal(weir_dm_free(dm), 0);
	return fd < 0 ? fd : 0;
}

/* Added, the mmap holds it (A2.2). */
static int add_and_remove(struct weir_device *dev, struct weir_mmap *mmap)
{
	int err = weir_mmap_add_device(mmap, dev);

	if (err)
		return err;
	assert_int_equal(weir_device_close(dev), -EBUSY);
	assert_int_equal(weir_mmap_rm_device(mmap, dev), 0);
	return 0;
}

static int try_mmap(struct weir_device *dev)
{
	static char mem[4096];
	struct weir_mmap *mmap;
	int err;

	assert_int_equal(weir_mmap_create(&mmap, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(mmap, mem, sizeof(mem)), 0);
	err = add_and_remove(dev, mmap);
	assert_int_equal(weir_mmap_destroy(mmap), 0);
	return err;
}

/* Few systems have a dma-buf to offer: it is only said to be one. */
static int try_dmabuf(struct weir_device *dev)
{
	struct weir_mmap *mmap;
	int err;

	assert_int_equal(weir_mmap_create(&mmap, NULL), 0);
	mmap->range = MMAP_DMABUF;
	mmap->has_range = true;
	err = add_and_remove(dev, mmap);
	mmap->range = MMAP_NONE;
	mmap->has_range = false;
	assert_int_equal(weir_mmap_destroy(mmap), 0);
	return err;
}

/* What a trial says of a device that has no memory which it could be made
 * with. */
#define NOTHING_TO_TRY 1

/* An mmap of 4096 bytes of the device's own memory, started; or not. */
static int own_memory(struct weir_device *dev, struct weir_mmap *mmap,
		      struct weir_dm **dm)
{
	int err;

	if (!strcmp(device_name(dev), "cpu")) {
		err = weir_mmap_alloc(mmap, 4096, WEIR_MMAP_ALLOC_MEMFD);
	} else {
		err = weir_dm_alloc(dm, dev, 4096, 0);
		if (!err)
			err = weir_mmap_set_dm(mmap, *dm, 0, 4096);
	}
	if (!err)
		err = weir_mmap_set_permissions(mmap, WEIR_MMAP_READ |
						      WEIR_MMAP_PEER_READ);
	return err ? err : weir_mmap_start(mmap);
}

static int export_from(struct weir_device *dev, bool and_import)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *mmap, *copy = NULL;
	struct weir_dm *dm = NULL;
	int err;

	assert_int_equal(weir_mmap_create(&mmap, NULL), 0);
	err = own_memory(dev, mmap, &dm) ? NOTHING_TO_TRY :
	      weir_mmap_export(mmap, NULL, &desc);
	if (!err && and_import)
		err = weir_mmap_import(&copy, desc.bytes, desc.len, desc.fds,
				       desc.n_fds, NULL);
	assert_int_equal(weir_mmap_destroy(copy), 0);
	assert_int_equal(weir_mmap_destroy(mmap), 0);
	assert_int_equal(weir_dm_free(dm), 0);
	return err;
}

static int try_export(struct weir_device *dev)
{
	return export_from(dev, false);
}

static int try_import(struct weir_device *dev)
{
	return export_from(dev, true);
}

/* Where nobody can be asked before the call, a yes is a maybe. */
static const struct {
	uint32_t cap;
	const char *name;
	int (*try)(struct weir_device *dev);
	bool maybe;
} table[] = {
	{ WEIR_DEVICE_CAP_MMAP, "mmap", try_mmap, false },
	{ WEIR_DEVICE_CAP_DMABUF, "dma-buf", try_dmabuf, false },
	{ WEIR_DEVICE_CAP_DM, "dm", try_dm, false },
	{ WEIR_DEVICE_CAP_DM_IMPORT, "dm import", try_dm_import, false },
	{ WEIR_DEVICE_CAP_DM_DMABUF, "dm dma-buf", try_dm_dmabuf, true },
	{ WEIR_DEVICE_CAP_EXPORT, "export", try_export, false },
	{ WEIR_DEVICE_CAP_IMPORT, "import", try_import, false },
};

/* Which answers of which capabilities were put to the test. */
struct tried {
	uint32_t yes, no;
};

static void go_through(const struct weir_devinfo *info, struct tried *tried)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_device *dev;
	bool yes;
	size_t i;
	int err;

	assert_int_equal(weir_devinfo_caps(info, &caps), 0);
	if (!(caps.flags & WEIR_DEVICE_USABLE))
		return;
	assert_int_equal(weir_device_open(&dev, info), 0);
	for (i = 0; i < N_OF(table); i++) {
		err = table[i].try(dev);
		yes = caps.caps & table[i].cap;
		if (err == NOTHING_TO_TRY || (yes && table[i].maybe))
			continue;
		if ((err != -EOPNOTSUPP) != yes)
			fail_msg("%s says %s to %s, and the call %d: %s",
				 caps.name, yes ? "yes" : "no", table[i].name,
				 err, weir_why());
		*(yes ? &tried->yes : &tried->no) |= table[i].cap;
	}
	assert_int_equal(weir_device_close(dev), 0);
}

static void a_capability_and_its_call_agree_on_every_device(void **state)
{
	struct tried tried = { 0, 0 };
	struct weir_devinfo **list;
	size_t n, i;

	(void)state;
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (i = 0; i < n; i++)
		go_through(list[i], &tried);
	weir_device_list_free(list);
	/* Both answers of each, or the above says little. */
	for (i = 0; i < N_OF(table); i++) {
		assert_true(tried.no & table[i].cap);
		assert_true(table[i].maybe || tried.yes & table[i].cap);
	}
}

/* Whether a device that can be used does jobs of @kind and reaches both. */
static bool promised(struct weir_devinfo **list, uint32_t kind,
		     const struct weir_domain *a, const struct weir_domain *b)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	uint64_t both = WEIR_DEVICE_BIT(weir_domain_kind(a)) |
			WEIR_DEVICE_BIT(weir_domain_kind(b));

	for (; *list; list++) {
		assert_int_equal(weir_devinfo_caps(*list, &caps), 0);
		if (caps.jobs & WEIR_DEVICE_BIT(kind) &&
		    (caps.domains & both) == both)
			return true;
	}
	return false;
}

/* One domain of each kind that jobs can name. */
#define N_DOMAINS 4

static void make_domains(void **state, struct weir_domain **domains, int *fd)
{
	int err = weir_domain_process_create(&domains[3], getpid(), NULL);

	if (err == -EPERM || err == -EOPNOTSUPP)
		skip_because("%s", weir_why());
	assert_int_equal(err, 0);
	*fd = test_file(state, "f", 4096, 0);
	domains[0] = weir_domain_system();
	domains[1] = weir_domain_hugepage();
	assert_int_equal(weir_domain_file_create(&domains[2], *fd, NULL), 0);
}

static void unmake_domains(struct weir_domain **domains, int fd)
{
	assert_int_equal(weir_domain_destroy(domains[2]), 0);
	assert_int_equal(weir_domain_destroy(domains[3]), 0);
	close(fd);
}

/* What is routed is what a device says that it does. */
static void no_engine_does_what_no_device_promises(void **state)
{
	struct weir_domain *domains[N_DOMAINS];
	struct weir_devinfo **list;
	struct weir_reactor *r;
	struct weir_dma *dma;
	size_t n, a, b;
	uint32_t kind;
	int fd;

	make_domains(state, domains, &fd);
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	assert_int_equal(weir_dma_create(&dma, r, NULL), 0);
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (kind = WEIR_JOB_COPY; kind <= WEIR_JOB_COMPARE_SWAP; kind++)
		for (a = 0; a < N_DOMAINS; a++)
			for (b = 0; b < N_DOMAINS; b++)
				if (engine_of(dma, kind, domains[a],
					      domains[b]))
					assert_true(promised(list, kind,
							     domains[a],
							     domains[b]));
	weir_device_list_free(list);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	unmake_domains(domains, fd);
}

/* A device that copies copies to and from all that it reaches. */
static void no_device_promises_what_no_engine_does(void **state)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_domain *domains[N_DOMAINS];
	struct weir_devinfo **list;
	struct weir_reactor *r;
	struct weir_dma *dma;
	uint64_t asked, here;
	size_t n, i, a;
	int fd;

	make_domains(state, domains, &fd);
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	assert_int_equal(weir_dma_create(&dma, r, NULL), 0);
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(weir_devinfo_caps(list[i], &caps), 0);
		if (!(caps.jobs & WEIR_DEVICE_BIT(WEIR_JOB_COPY)))
			continue;
		for (a = 0, asked = 0; a < N_DOMAINS; a++) {
			here = WEIR_DEVICE_BIT(weir_domain_kind(domains[a]));
			if (!(caps.domains & here))
				continue;
			asked |= here;
			assert_non_null(engine_of(dma, WEIR_JOB_COPY, domains[0],
						  domains[a]));
			assert_non_null(engine_of(dma, WEIR_JOB_COPY, domains[a],
						  domains[0]));
		}
		assert_int_equal(asked, caps.domains);
	}
	weir_device_list_free(list);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	unmake_domains(domains, fd);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_capability_and_its_call_agree_on_every_device),
		CASE(no_engine_does_what_no_device_promises),
		CASE(no_device_promises_what_no_engine_does),
	};

	return harness_run_plain(cases, N_OF(cases));
}
