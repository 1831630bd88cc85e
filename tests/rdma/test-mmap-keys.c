/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Keys of mmaps, by which an RDMA device and its peers name memory: over a
 * mock for rdma-core, or, in the program without it, over the devices of
 * this machine.
 */

#include "tests/support/harness.h"

#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <weir/device.h>
#include <weir/dm.h>
#include <weir/inventory.h>
#include <weir/mmap.h>

#include "mem/device-internal.h"
#include "mem/mmap-internal.h"
#include "tests/support/peer-fixture.h"
#include "tests/support/mock-verbs.h"

#define PAGE 4096u
#define LEN (4 * PAGE)

struct fixture {
	struct weir_device *dev;
	struct weir_mmap *m;
	char *mem;
};

static struct weir_device *open_dev(const char *name)
{
	struct weir_device *dev = NULL;
	int err = weir_device_open_name(&dev, name);

	if (err)
		fail_msg("%s: %d: %s", name, err, weir_why());
	return dev;
}

static void fixture_open(struct fixture *g, void **state)
{
	const struct world *w = *state;

	memset(g, 0, sizeof(*g));
	g->dev = open_dev(w->arg);
	g->mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(g->mem, MAP_FAILED);
	assert_int_equal(weir_mmap_create(&g->m, NULL), 0);
	assert_int_equal(weir_mmap_add_device(g->m, g->dev), 0);
}

static void fixture_begin(struct fixture *g, void **state)
{
	fixture_open(g, state);
	assert_int_equal(weir_mmap_set_memrange(g->m, g->mem, LEN), 0);
}

static int keys(struct fixture *g)
{
	return weir_mmap_keys(g->m, g->dev, NULL, NULL);
}

static int start_and_keys(struct fixture *g)
{
	assert_int_equal(weir_mmap_start(g->m), 0);
	return keys(g);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_device_close(g->dev), 0);
	munmap(g->mem, LEN);
	if (!mocked)
		return;
	assert_int_equal(mocked()->contexts, 0);
	assert_int_equal(mocked()->mrs, 0);
}

static void keys_are_made_once_and_end_with_the_stop(void **state)
{
	uint32_t lkey, rkey, l2, r2;
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &lkey, &rkey), 0);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &l2, &r2), 0);
	assert_int_equal(keys(&g), 0);
	assert_true(lkey == l2 && rkey == r2);
	if (mocked)
		assert_int_equal(mocked()->mrs, 1);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(keys(&g), -EBADFD);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &l2, &r2), 0);
	assert_true(lkey != l2);
	fixture_end(&g);
}

static void keys_are_refused_before_anything_is_registered(void **state)
{
	uint32_t lkey = 7, rkey = 7;
	struct weir_device *cpu = open_dev("cpu");
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &lkey, &rkey), -EBADFD);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_keys(g.m, cpu, &lkey, &rkey), -ENOENT);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_rm_device(g.m, g.dev), 0);
	assert_int_equal(weir_mmap_add_device(g.m, cpu), 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &lkey, &rkey), -ENOENT);
	assert_int_equal(weir_mmap_keys(g.m, cpu, &lkey, &rkey), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_mmap_keys: ");
	assert_int_equal(lkey, 7);
	assert_int_equal(rkey, 7);
	fixture_end(&g);
	assert_int_equal(weir_device_close(cpu), 0);
}

/* B2.1, acceptance 41, 48 */
static void keys_have_all_rights_of_the_mmap(void **state)
{
	static const uint32_t rights[] = {
		WEIR_MMAP_READ, WEIR_MMAP_WRITE, WEIR_MMAP_RDMA_READ,
		WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_WRITE,
		WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_ATOMIC,
		WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_READ |
			WEIR_MMAP_RDMA_WRITE | WEIR_MMAP_RDMA_ATOMIC,
		WEIR_MMAP_WRITE | WEIR_MMAP_RELAXED_ORDERING,
	};
	struct fixture g;
	size_t i;

	fixture_begin(&g, state);
	for (i = 0; i < N_OF(rights); i++) {
		assert_int_equal(weir_mmap_set_permissions(g.m, rights[i]), 0);
		assert_int_equal(start_and_keys(&g), 0);
		assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	}
	fixture_end(&g);
}

/* What set_permissions refuses the driver refuses, too: B2.1. */
static void the_driver_wants_local_writing_for_remote_writing(void **state)
{
	struct device_range range = { .kind = DEVICE_RANGE_MEM, .len = LEN };
	struct device_mr mr;
	struct fixture g;

	fixture_begin(&g, state);
	range.addr = g.mem;
	range.permissions = WEIR_MMAP_RDMA_WRITE;
	assert_int_equal(g.dev->info.cls->mr_register(g.dev, &range, &mr),
			 -EINVAL);
	range.permissions = WEIR_MMAP_RDMA_ATOMIC;
	assert_int_equal(g.dev->info.cls->mr_register(g.dev, &range, &mr),
			 -EINVAL);
	assert_int_equal(weir_mmap_set_permissions(g.m, range.permissions),
			 -EINVAL);
	fixture_end(&g);
}

/* B2.1 */
static void registration_of_missing_or_read_only_memory_is_efault(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(mprotect(g.mem + PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(start_and_keys(&g), 0);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_set_permissions(g.m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(mprotect(g.mem, LEN, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(mprotect(g.mem + PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(keys(&g), -EFAULT);
	assert_non_null(strstr(weir_why(), "mapped"));
	assert_int_equal(mprotect(g.mem, LEN, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(keys(&g), 0);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);

	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(munmap(g.mem + 2 * PAGE, PAGE), 0);
	assert_int_equal(keys(&g), -EFAULT);
	fixture_end(&g);
}

/* A limit binds who may not go beyond it. */
static void may_lock_without_limit(bool may)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &head, data), 0);
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	if (may)
		data[0].effective |= data[0].permitted & 1u << CAP_IPC_LOCK;
	assert_int_equal(syscall(SYS_capset, &head, data), 0);
}

static void set_limit(rlim_t bytes)
{
	struct rlimit lim;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &lim), 0);
	lim.rlim_cur = bytes < lim.rlim_max ? bytes : lim.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &lim), 0);
	may_lock_without_limit(bytes == RLIM_INFINITY);
	if (mocked)
		mocked()->memlock = bytes;
}

/* Gotcha 17 */
static void the_limit_of_locked_memory_is_told_with_numbers(void **state)
{
	struct rlimit old;
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
	set_limit(PAGE);
	assert_int_equal(start_and_keys(&g), -ENOMEM);
	assert_non_null(strstr(weir_why(), "16 KiB"));
	assert_non_null(strstr(weir_why(), "limit of locked memory is 4 KiB"));
	assert_non_null(strstr(weir_why(), "ulimit -l"));
	set_limit(RLIM_INFINITY);
	assert_int_equal(keys(&g), 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
	fixture_end(&g);
}

static void a_memfd_is_registered(void **state)
{
	struct fixture g;

	fixture_open(&g, state);
	assert_int_equal(weir_mmap_alloc(g.m, LEN, WEIR_MMAP_ALLOC_MEMFD), 0);
	assert_int_equal(weir_mmap_set_permissions(g.m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(start_and_keys(&g), 0);
	fixture_end(&g);
}

/* B1.4: with its own device alone; the twin has no keys. */
static void device_memory_is_registered_with_its_device(void **state)
{
	struct weir_device *soft = open_dev("soft-dm");
	struct weir_dm *dm, *of_soft;
	struct fixture g;
	int err;

	fixture_open(&g, state);
	assert_int_equal(weir_dm_alloc(&of_soft, soft, PAGE, 0), 0);
	err = weir_dm_alloc(&dm, g.dev, PAGE, 0);
	if (!err) {
		assert_int_equal(weir_mmap_set_dm(g.m, dm, 0, PAGE), 0);
		assert_int_equal(start_and_keys(&g), 0);
		assert_int_equal(weir_dm_free(dm), -EBUSY);
		assert_int_equal(weir_mmap_destroy(g.m), 0);
		assert_int_equal(weir_dm_free(dm), 0);
		assert_int_equal(weir_mmap_create(&g.m, NULL), 0);
	} else {
		assert_int_equal(err, -EOPNOTSUPP);
		assert_int_equal(weir_mmap_rm_device(g.m, g.dev), 0);
	}
	assert_int_equal(weir_mmap_set_dm(g.m, of_soft, 0, PAGE), 0);
	assert_int_equal(weir_mmap_add_device(g.m, g.dev), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_add_device(g.m, soft), 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_keys(g.m, soft, NULL, NULL), -EOPNOTSUPP);
	fixture_end(&g);
	assert_int_equal(weir_dm_free(of_soft), 0);
	assert_int_equal(weir_device_close(soft), 0);
}

/* What the kernel says of a dma-buf, said of a memfd. */
static int mock_ioctl(int fd, unsigned long request, void *arg)
{
	struct dma_buf_sync *sync = arg;

	(void)fd;
	assert_int_equal(request, DMA_BUF_IOCTL_SYNC);
	errno = EINVAL;
	return sync->flags ? 0 : -1;
}

static void need_dmabufs(void)
{
	if (!mocked && access("/dev/udmabuf", R_OK | W_OK))
		skip_because("no dma-bufs here: /dev/udmabuf: %s",
			     strerror(errno));
}

static int sealed_memfd(void)
{
	int fd = memfd_create("dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, LEN), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

/* A real one of the memfd, or with the mock the memfd itself. */
static int make_dmabuf(int memfd)
{
	struct udmabuf_create create = {
		.memfd = (uint32_t)memfd, .size = LEN,
	};
	int fd, buf;

	if (mocked) {
		dmabuf_ioctl = mock_ioctl;
		return memfd;
	}
	fd = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	buf = ioctl(fd, UDMABUF_CREATE, &create);
	assert_true(buf >= 0);
	close(fd);
	close(memfd);
	return buf;
}

/* Acceptance 43 as far as memory goes: soft-RoCE takes none. */
static void dmabuf_goes_to_devices_that_support_dmabufs(void **state)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	int (*real)(int, unsigned long, void *) = dmabuf_ioctl;
	struct fixture g;
	int buf;

	need_dmabufs();
	buf = make_dmabuf(sealed_memfd());
	fixture_open(&g, state);
	assert_int_equal(weir_devinfo_caps(weir_device_info(g.dev), &caps), 0);
	assert_int_equal(weir_mmap_set_dmabuf(g.m, buf, PAGE, PAGE), 0);
	if (!(caps.caps & WEIR_DEVICE_CAP_DMABUF)) {
		assert_int_equal(weir_mmap_start(g.m), -EOPNOTSUPP);
	} else {
		assert_int_equal(start_and_keys(&g), 0);
		if (mocked)
			assert_int_equal(mocked()->off, PAGE);
	}
	fixture_end(&g);
	dmabuf_ioctl = real;
	close(buf);
}

/* B2.6: it goes by its fd, or by the memfd beneath. */
static void a_dmabuf_that_is_mapped_is_no_ordinary_memory(void **state)
{
	struct fixture g;
	int memfd, buf;
	void *p;

	need_dmabufs();
	memfd = sealed_memfd();
	buf = make_dmabuf(dup(memfd));
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	fixture_open(&g, state);
	assert_int_equal(weir_mmap_set_memrange(g.m, p, LEN), 0);
	assert_int_equal(start_and_keys(&g), -EFAULT);
	fixture_end(&g);
	fixture_open(&g, state);
	assert_int_equal(weir_mmap_set_fd(g.m, memfd, 0, LEN, 0), 0);
	assert_int_equal(start_and_keys(&g), 0);
	fixture_end(&g);
	munmap(p, LEN);
	close(memfd);
	close(buf);
}

/* A1.13, A1.15, B2.4: it stays as it was, and the stop can be tried again. */
static void key_that_cannot_be_deregistered_keeps_the_mmap_started(void **state)
{
	uint32_t key, again;
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &key, NULL), 0);
	mocked()->bound = true;
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), -EBUSY);
	assert_int_equal(weir_mmap_destroy(g.m), -EBUSY);
	mocked()->bound = false;
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STARTED);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &again, NULL), 0);
	assert_int_equal(key, again);
	fixture_end(&g);
}

/* A stop that has to visit another thread. */

struct visit {
	struct fixture *g;
	struct weir_inventory *inv;
	struct weir_buf *buf;
};

static int64_t do_take(struct peer *p, void *arg)
{
	struct visit *v = arg;
	int err = weir_inventory_create(&v->inv, p->r, NULL);

	if (!err)
		err = weir_inventory_attach(v->inv, v->g->m);
	if (!err)
		err = weir_inventory_get(&v->buf, v->inv, v->g->m, v->g->mem,
					 16, NULL, 0);
	return err;
}

static int64_t do_put(struct peer *p, void *arg)
{
	struct visit *v = arg;

	(void)p;
	weir_buf_put(v->buf);
	return 0;
}

static int64_t do_leave(struct peer *p, void *arg)
{
	struct visit *v = arg;

	(void)p;
	return weir_inventory_destroy(v->inv);
}

static int64_t stop_by_op(struct fixture *g, struct weir_reactor *r,
			  struct peer *p)
{
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_mmap_stop(g->m, r, &rec.op);
	while (!err && !rec.calls) {
		peer_turn(p);
		some_turns(r, 1);
	}
	return err ? err : rec.res;
}

static void a_stop_that_is_refused_leaves_them(struct fixture *g,
					       struct weir_reactor *r,
					       struct visit *v, struct peer *p)
{
	uint32_t key, again;

	assert_int_equal(weir_mmap_keys(g->m, g->dev, &key, NULL), 0);
	assert_int_equal(stop_by_op(g, r, p), -EBUSY);
	assert_int_equal(peer_do(p, do_put, v), 0);
	mocked()->bound = true;
	assert_int_equal(stop_by_op(g, r, p), -EBUSY);
	mocked()->bound = false;
	assert_int_equal(weir_mmap_state(g->m), WEIR_MMAP_STARTED);
	assert_int_equal(weir_mmap_keys(g->m, g->dev, &again, NULL), 0);
	assert_int_equal(key, again);
}

static void a_stop_with_visits_ends_them_when_it_is_decided(void **state)
{
	struct world *w = *state;
	struct weir_reactor *r;
	struct visit v = { 0 };
	struct peer peer;
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	w->backend = weir_reactor_backend(r);
	peer_begin(&peer, state);
	v.g = &g;
	assert_int_equal(peer_do(&peer, do_take, &v), 0);
	a_stop_that_is_refused_leaves_them(&g, r, &v, &peer);
	assert_int_equal(mocked()->mrs, 1);
	assert_int_equal(stop_by_op(&g, r, &peer), 0);
	assert_int_equal(mocked()->mrs, 0);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPED);
	assert_int_equal(peer_do(&peer, do_leave, &v), 0);

	/* Nobody to visit. */
	assert_int_equal(start_and_keys(&g), 0);
	mocked()->bound = true;
	assert_int_equal(stop_by_op(&g, r, &peer), -EBUSY);
	mocked()->bound = false;
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STARTED);
	assert_int_equal(stop_by_op(&g, r, &peer), 0);
	assert_int_equal(mocked()->mrs, 0);
	peer_end(&peer);
	assert_int_equal(weir_reactor_destroy(r), 0);
	fixture_end(&g);
}

/* Skipped, and counted as such: nothing of it was run. */
static void no_card_is_here(void **state)
{
	(void)state;
	skip_because("this machine has no RDMA device");
}

static const struct harness_case all[] = {
	CASE(keys_are_made_once_and_end_with_the_stop),
	CASE(keys_are_refused_before_anything_is_registered),
	CASE(keys_have_all_rights_of_the_mmap),
	CASE(the_driver_wants_local_writing_for_remote_writing),
	CASE(registration_of_missing_or_read_only_memory_is_efault),
	CASE(the_limit_of_locked_memory_is_told_with_numbers),
	CASE(a_memfd_is_registered),
	CASE(device_memory_is_registered_with_its_device),
	CASE(dmabuf_goes_to_devices_that_support_dmabufs),
};

static const struct harness_case cards_only[] = {
	CASE(a_dmabuf_that_is_mapped_is_no_ordinary_memory),
};

static const struct harness_case mock_only[] = {
	CASE(key_that_cannot_be_deregistered_keeps_the_mmap_started),
	CASE(a_stop_with_visits_ends_them_when_it_is_decided),
};

static const struct harness_case not_here[] = {
	CASE(no_card_is_here),
};

#define CASES_MAX 128

static struct harness_case cases[CASES_MAX];
static char names[CASES_MAX][128];
static size_t n_cases;

static void add(const char *device, const struct harness_case *list, size_t n)
{
	size_t i;

	for (i = 0; i < n && n_cases < CASES_MAX; i++, n_cases++) {
		snprintf(names[n_cases], sizeof(names[0]), "%s: %s", device,
			 list[i].name);
		cases[n_cases] = list[i];
		cases[n_cases].name = names[n_cases];
		cases[n_cases].arg = device;
	}
}

/* All RDMA devices that can be used. */
static void add_devices(void)
{
	static struct weir_device_caps caps[16];
	struct weir_devinfo **list;
	size_t n, i, found = 0;

	if (weir_device_list(&list, &n))
		abort();
	for (i = 0; i < n && found < N_OF(caps); i++) {
		caps[found].size = sizeof(caps[found]);
		weir_devinfo_caps(list[i], &caps[found]);
		if (caps[found].kind != WEIR_DEVICE_RDMA ||
		    !(caps[found].flags & WEIR_DEVICE_USABLE))
			continue;
		add(caps[found].name, all, N_OF(all));
		if (!mocked)
			add(caps[found].name, cards_only, N_OF(cards_only));
		found++;
	}
	weir_device_list_free(list);
	if (!found)
		add("card", not_here, N_OF(not_here));
}

int main(void)
{
	add_devices();
	if (mocked)
		add("mock_mlx5", mock_only, N_OF(mock_only));
	return harness_run_plain(cases, n_cases);
}
