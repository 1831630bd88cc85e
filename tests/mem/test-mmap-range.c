/* SPDX-License-Identifier: BSD-3-Clause */

/* The kinds of range of an mmap. */

#include "tests/support/job-fixture.h"

#include <linux/dma-buf.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include <weir/device.h>
#include <weir/dm.h>

#include "base/fault.h"
#include "mem/available.h"
#include "mem/mmap-internal.h"

#define LEN ((size_t)65536)
#define PAGE ((size_t)4096)

static struct weir_mmap *new_mmap(uint32_t permissions)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_permissions(m, permissions), 0);
	return m;
}

static int memfd(size_t len, int seals)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static char *addr_of(struct weir_mmap *m, size_t want_len)
{
	void *addr = NULL;
	size_t len = 0;

	assert_int_equal(weir_mmap_memrange(m, &addr, &len), 0);
	assert_int_equal(len, want_len);
	return addr;
}

/* Ways to give an mmap a range, for what they have in common. */
static int by_memrange(struct weir_mmap *m, size_t len)
{
	static char mem[64];

	return weir_mmap_set_memrange(m, mem, len ? 64 : 0);
}

static int by_fd(struct weir_mmap *m, size_t len)
{
	int fd = memfd(LEN, F_SEAL_SHRINK), err;

	err = weir_mmap_set_fd(m, fd, 0, len, 0);
	close(fd);
	return err;
}

static int by_alloc(struct weir_mmap *m, size_t len)
{
	return weir_mmap_alloc(m, len, 0);
}

static struct weir_dm *dm;

static int by_dm(struct weir_mmap *m, size_t len)
{
	return weir_mmap_set_dm(m, dm, 0, len);
}

static struct weir_domain *domain;

static int by_domain(struct weir_mmap *m, size_t len)
{
	return weir_mmap_set_domain(m, domain, 100, len);
}

/* A dma-buf that is none: what the kernel would say of one. */
static int syncs[8], n_syncs, sync_err;

static int mock_ioctl(int fd, unsigned long request, void *arg)
{
	struct dma_buf_sync *sync = arg;

	assert_true(fd >= 0);
	assert_int_equal(request, DMA_BUF_IOCTL_SYNC);
	errno = !sync->flags ? EINVAL : sync_err;
	if (errno)
		return -1;
	assert_true(n_syncs < 8);
	syncs[n_syncs++] = (int)sync->flags;
	return 0;
}

static int (*real_ioctl)(int fd, unsigned long request, void *arg);

static void mock_begin(void)
{
	if (!real_ioctl)
		real_ioctl = dmabuf_ioctl;
	dmabuf_ioctl = mock_ioctl;
	n_syncs = 0;
	sync_err = 0;
}

static void mock_end(void)
{
	dmabuf_ioctl = real_ioctl;
}

static int by_dmabuf(struct weir_mmap *m, size_t len)
{
	int fd = memfd(LEN, 0), err;

	mock_begin();
	err = weir_mmap_set_dmabuf(m, fd, 0, len);
	mock_end();
	close(fd);
	return err;
}

static int (*const ways[])(struct weir_mmap *m, size_t len) = {
	by_memrange, by_fd, by_alloc, by_dmabuf, by_dm, by_domain,
};

static void need_dm(struct weir_device **dev)
{
	assert_int_equal(weir_device_open_name(dev, "soft-dm"), 0);
	assert_int_equal(weir_dm_alloc(&dm, *dev, 4096, 0), 0);
}

static void need_domain(void)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .id = "far",
		.addr = 100, .len = 1000,
	};

	assert_int_equal(weir_domain_create(&domain, &opts), 0);
}

static void drop_dm(struct weir_device *dev)
{
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(weir_device_close(dev), 0);
}

/* A1.1, A1.3, A1.4 */
static void a_range_is_set_once_and_while_stopped(void **state)
{
	struct weir_device *dev;
	struct weir_mmap *m;
	size_t i, k;

	(void)state;
	need_dm(&dev);
	need_domain();
	for (i = 0; i < N_OF(ways); i++) {
		m = new_mmap(WEIR_MMAP_READ);
		for (k = 0; k < N_OF(ways); k++)
			assert_int_equal(ways[k](m, 0), -EINVAL);
		assert_int_equal(weir_mmap_start(m), -EINVAL);
		assert_int_equal(ways[i](m, 64), 0);
		addr_of(m, 64);
		for (k = 0; k < N_OF(ways); k++)
			assert_int_equal(ways[k](m, 64), -EPERM);
		mock_begin();
		assert_int_equal(weir_mmap_start(m), 0);
		for (k = 0; k < N_OF(ways); k++)
			assert_int_equal(ways[k](m, 64), -EBADFD);
		mock_begin();
		assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
		mock_end();
		assert_int_equal(ways[i](m, 64), -EPERM);
		assert_int_equal(weir_mmap_destroy(m), 0);
	}
	assert_int_equal(weir_domain_destroy(domain), 0);
	drop_dm(dev);
}

static void mmap_of_a_file_is_shared_with_its_other_users(void **state)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_WRITE);
	int fd = memfd(3 * LEN, F_SEAL_SHRINK);
	char *p, back[4] = "";

	(void)state;
	assert_int_equal(weir_mmap_set_fd(m, fd, PAGE, LEN + 1, 0), 0);
	p = addr_of(m, LEN + 1);
	memcpy(p + LEN - 2, "abc", 3);
	assert_int_equal(pread(fd, back, 3, (off_t)(PAGE + LEN - 2)), 3);
	assert_string_equal(back, "abc");
	close(fd);
	p[0] = 'x';
	assert_int_equal(weir_mmap_page_size(m, NULL), PAGE);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static int try_fd(int fd, uint64_t off, size_t len, uint32_t flags)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_READ);
	int err = weir_mmap_set_fd(m, fd, off, len, flags);

	assert_int_equal(weir_mmap_memrange(m, NULL, NULL), err ? -ENOENT : 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

static void a_file_that_could_kill_us_is_refused(void **state)
{
	int fd = memfd(LEN, 0), file, p[2];
	const uint32_t trust = WEIR_MMAP_FD_TRUSTED;

	file = test_file(state, "file", LEN, 1);
	pipe_pair(p);
	assert_int_equal(try_fd(fd, 0, LEN, 0), -EINVAL);
	assert_int_equal(try_fd(file, 0, LEN, 0), -EINVAL);
	assert_int_equal(try_fd(fd, 0, LEN, trust), 0);
	assert_int_equal(try_fd(file, 0, LEN, trust), 0);
	assert_int_equal(try_fd(p[0], 0, LEN, trust), -EINVAL);
	assert_int_equal(try_fd(-1, 0, LEN, trust), -EBADF);
	assert_int_equal(try_fd(fd, 0, LEN, 2), -EINVAL);
	assert_int_equal(try_fd(fd, 1, LEN - 1, trust), -EINVAL);
	assert_int_equal(try_fd(fd, 0, LEN + 1, trust), -ERANGE);
	assert_int_equal(try_fd(fd, LEN, 1, trust), -ERANGE);
	assert_int_equal(try_fd(fd, UINT64_MAX - PAGE + 1, PAGE, trust),
			 -EINVAL);
	assert_int_equal(try_fd(fd, LEN - PAGE, PAGE, trust), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(try_fd(fd, 0, LEN, 0), 0);
	close_pair(p);
	close(file);
	close(fd);
}

static void read_only_memory_is_not_started_for_writing(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
	struct weir_mmap *m;
	int fds[2], i, w;

	close(test_file(state, "file", LEN, 1));
	fds[0] = open(test_path(state, "file"), O_RDONLY | O_CLOEXEC);
	fds[1] = memfd(LEN, seals);
	for (i = 0; i < 2; i++) {
		m = new_mmap(WEIR_MMAP_WRITE);
		assert_int_equal(weir_mmap_set_fd(m, fds[i], 0, LEN,
						  WEIR_MMAP_FD_TRUSTED), 0);
		assert_int_equal(weir_mmap_start(m), -EACCES);
		assert_int_equal(weir_mmap_state(m), WEIR_MMAP_STOPPED);
		assert_int_equal(weir_mmap_set_permissions(m, 0), 0);
		assert_int_equal(weir_mmap_start(m), 0);
		assert_int_equal(weir_mmap_destroy(m), 0);
		close(fds[i]);
	}
	w = open(test_path(state, "file"), O_WRONLY | O_CLOEXEC);
	assert_int_equal(try_fd(w, 0, LEN, WEIR_MMAP_FD_TRUSTED), -EACCES);
	close(w);
}

static bool is_zero(const char *p, size_t len)
{
	return !*p && !memcmp(p, p + 1, len - 1);
}

static void check_alloc(uint32_t flags)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_WRITE);
	const size_t len = 3 * LEN + 5;
	bool wanted = flags & ~WEIR_MMAP_ALLOC_MEMFD;
	const char *text;
	size_t page;
	char *p;

	assert_int_equal(weir_mmap_alloc(m, len, flags), 0);
	p = addr_of(m, len);
	assert_true(is_zero(p, len));
	memset(p, 1, len);
	page = weir_mmap_page_size(m, &text);
	assert_int_equal((uintptr_t)p & (page - 1), 0);
	if (page == PAGE) {
		assert_ptr_equal(weir_mmap_domain(m), weir_domain_system());
		assert_int_equal(*text != '\0', wanted);
		if (wanted)
			assert_non_null(strstr(text, "pages of"));
	} else {
		assert_true(wanted);
		assert_ptr_equal(weir_mmap_domain(m), weir_domain_hugepage());
	}
	assert_int_equal(m->fd >= 0, flags & WEIR_MMAP_ALLOC_MEMFD ? 1 : 0);
	if (m->fd >= 0)
		assert_int_equal(ftruncate(m->fd, 0), -1);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void allocated_pages_are_there_and_told_honestly(void **state)
{
	struct weir_mmap *m = new_mmap(0);
	uint32_t flags;

	(void)state;
	for (flags = 0; flags < 8; flags++)
		check_alloc(flags);
	assert_int_equal(weir_mmap_alloc(m, LEN, 8), -EINVAL);
	assert_int_equal(weir_mmap_alloc(m, PTRDIFF_MAX, 0), -ENOMEM);
	assert_int_equal(weir_mmap_alloc(m, PTRDIFF_MAX / 4, 0), -ENOMEM);
	assert_int_equal(weir_mmap_page_size(m, NULL), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* What the kernel tells, in @dir. */
static void write_file(const char *dir, const char *path, const char *text)
{
	char at[256], *slash;
	FILE *f;

	snprintf(at, sizeof(at), "%s%s", dir, path);
	for (slash = at + strlen(dir) + 1; (slash = strchr(slash, '/'));) {
		*slash = '\0';
		mkdir(at, 0700);
		*slash++ = '/';
	}
	f = fopen(at, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static char refusal[512];	/* What the last alloc_once() was told. */

static int alloc_once(size_t len, uint32_t flags)
{
	struct weir_mmap *m = new_mmap(0);
	int err = weir_mmap_alloc(m, len, flags);

	snprintf(refusal, sizeof(refusal), "%s", weir_why());
	assert_int_equal(weir_mmap_memrange(m, NULL, NULL), err ? -ENOENT : 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

/* 8 MiB can be had and 16 MiB cannot, because of what @who says. */
static void check_bound(const char *who)
{
	uint32_t flags;

	for (flags = 0; flags <= WEIR_MMAP_ALLOC_MEMFD; flags += 4) {
		assert_int_equal(alloc_once(8 << 20, flags), 0);
		assert_int_equal(alloc_once(16 << 20, flags), -ENOMEM);
		assert_non_null(strstr(refusal, who));
	}
}

static void alloc_refuses_more_than_is_left(void **state)
{
	static const char little[] = "MemTotal: 99999999 kB\n"
				     "MemAvailable:   9000 kB\n"
				     "SwapFree: 3000 kB\n";
	static const char much[] = "MemAvailable: 99999999 kB\n";
	const char *dir = test_dir(state);

	write_file(dir, "/proc/meminfo", little);
	memory_set_root(dir);
	check_bound("/proc/meminfo");
	/* A parent's limit, of which the page cache can be taken back. */
	write_file(dir, "/proc/meminfo", much);
	write_file(dir, "/proc/self/cgroup", "0::/a/b\n");
	write_file(dir, "/sys/fs/cgroup/a/b/memory.max", "max\n");
	write_file(dir, "/sys/fs/cgroup/a/b/memory.current", "4096\n");
	write_file(dir, "/sys/fs/cgroup/a/memory.max", "20000000\n");
	write_file(dir, "/sys/fs/cgroup/a/memory.current", "18000000\n");
	assert_int_equal(alloc_once(8 << 20, 0), -ENOMEM);
	write_file(dir, "/sys/fs/cgroup/a/memory.stat",
		   "anon 9999999\ninactive_file 4000000\n"
		   "active_file 5000000\nslab_reclaimable 1000000\n");
	check_bound("cgroup");
	write_file(dir, "/sys/fs/cgroup/a/memory.max", "max\n");
	assert_int_equal(alloc_once(16 << 20, 0), 0);
	/* Version 1, in a container that sees its own alone. */
	write_file(dir, "/proc/self/cgroup", "5:cpu,cpuacct:/x\n"
		   "4:memory:/docker/0123\n0::/\n");
	write_file(dir, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
		   "12000000\n");
	write_file(dir, "/sys/fs/cgroup/memory/memory.usage_in_bytes",
		   "3000000\n");
	write_file(dir, "/sys/fs/cgroup/memory/memory.stat",
		   "inactive_file 9999999\ntotal_inactive_file 2000000\n");
	check_bound("cgroup");
	write_file(dir, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
		   "9223372036854771712\n");
	assert_int_equal(alloc_once(16 << 20, 0), 0);
	/* Where nothing is told, the kernel decides. */
	memory_set_root("/nowhere");
	assert_int_equal(alloc_once(16 << 20, WEIR_MMAP_ALLOC_MEMFD), 0);
	memory_set_root("");
}

static size_t all_memory(void)
{
	struct sysinfo info;

	assert_int_equal(sysinfo(&info), 0);
	return (size_t)(info.totalram + info.totalswap) * info.mem_unit;
}

/* Where it went wrong the kernel would end the child, and nobody else. */
static void alloc_of_a_memfd_larger_than_memory_is_refused(void **state)
{
	size_t len = all_memory() / PAGE * PAGE;
	pid_t pid = fork();
	int status, fd;

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		memory_set_root("");	/* Another test may have failed. */
		fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "1000", 4) != 4)
			_exit(2);
		_exit(alloc_once(len, WEIR_MMAP_ALLOC_MEMFD) != -ENOMEM ||
		      alloc_once(2 * len, WEIR_MMAP_ALLOC_MEMFD) != -ENOMEM ||
		      alloc_once(len, 0) != -ENOMEM);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip_because("no way to be the first that the kernel ends");
	assert_int_equal(status, 0);
}

static void a_length_that_nothing_has_is_told(void **state)
{
	(void)state;
	assert_int_equal(alloc_once(SIZE_MAX, 0), -ENOMEM);
	assert_non_null(strstr(refusal, "address space"));
	assert_int_equal(alloc_once(SIZE_MAX, WEIR_MMAP_ALLOC_MEMFD), -ENOMEM);
	assert_int_equal(alloc_once(PTRDIFF_MAX, 0), -ENOMEM);
	assert_non_null(strstr(refusal, "address space"));
	assert_int_equal(alloc_once(0, 0), -EINVAL);
	assert_non_null(strstr(refusal, "0 bytes"));
}

static void the_hugepage_domain_asks_for_huge_pages(void **state)
{
	struct weir_mmap *m = NULL;
	const char *text;

	(void)state;
	assert_int_equal(weir_mmap_create(&m, weir_domain_hugepage()), 0);
	assert_ptr_equal(weir_mmap_domain(m), weir_domain_hugepage());
	assert_int_equal(weir_mmap_alloc(m, LEN, 0), 0);
	if (weir_mmap_page_size(m, &text) == PAGE)
		assert_non_null(strstr(text, "2 MiB"));
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* Each system call and allocation fails once: nothing is changed or lost. */
static void a_failure_leaves_no_range(void **state)
{
	const uint32_t flags = WEIR_MMAP_ALLOC_MEMFD | WEIR_MMAP_ALLOC_HUGE_1G;
	int fd = memfd(LEN, F_SEAL_SHRINK), n, kind, err;
	struct weir_mmap *m;

	(void)state;
	for (kind = 0; kind < 4; kind++) {
		for (n = 0; n < 64; n++) {
			m = new_mmap(WEIR_MMAP_WRITE);
			mock_begin();
			fault_arm(n);
			err = kind == 0 ? weir_mmap_alloc(m, LEN, 0) :
			      kind == 1 ? weir_mmap_alloc(m, LEN, flags) :
			      kind == 2 ? weir_mmap_set_fd(m, fd, 0, LEN, 0) :
					weir_mmap_set_dmabuf(m, fd, 0, LEN);
			mock_end();
			if (!fault_disarm())
				n = 1000;
			assert_int_equal(weir_mmap_memrange(m, NULL, NULL),
					 err ? -ENOENT : 0);
			if (err)
				assert_int_equal(by_alloc(m, LEN), 0);
			assert_int_equal(weir_mmap_destroy(m), 0);
		}
		assert_true(n > 1000);
	}
	close(fd);
}

static void the_driver_of_a_dmabuf_knows_when_it_is_used(void **state)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_WRITE);
	int fd = memfd(LEN, 0);
	char *p;

	(void)state;
	mock_begin();
	assert_int_equal(weir_mmap_set_dmabuf(m, fd, PAGE, LEN), -ERANGE);
	assert_int_equal(weir_mmap_set_dmabuf(m, fd, 1, PAGE), -EINVAL);
	assert_int_equal(weir_mmap_set_dmabuf(m, fd, PAGE, LEN - PAGE), 0);
	p = addr_of(m, LEN - PAGE);
	p[0] = 1;
	assert_ptr_equal(weir_mmap_domain(m), weir_domain_system());
	sync_err = EIO;
	assert_int_equal(weir_mmap_start(m), -EIO);
	assert_int_equal(weir_mmap_state(m), WEIR_MMAP_STOPPED);
	sync_err = 0;
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(n_syncs, 1);
	assert_int_equal(syncs[0], DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(n_syncs, 2);
	assert_int_equal(syncs[1], DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(n_syncs, 2);
	mock_end();
	close(fd);
}

static char *some_pages(size_t n)
{
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static int start_over(char *p, size_t len, uint32_t permissions)
{
	struct weir_mmap *m = new_mmap(permissions);
	int err, again;

	assert_int_equal(weir_mmap_set_memrange(m, p, len), 0);
	err = weir_mmap_start(m);
	again = weir_mmap_start(m);
	assert_int_equal(again, err);
	assert_int_equal(weir_mmap_state(m), err ? WEIR_MMAP_STOPPED :
						   WEIR_MMAP_STARTED);
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

/* That weir_why() has an address. */
static void assert_why_has(const void *addr)
{
	char text[32];

	snprintf(text, sizeof(text), "%p", addr);
	assert_non_null(strstr(weir_why(), text));
}

/* @told: the kernel tells where it ends. */
static void check_missing_memory(bool told)
{
	char *p = some_pages(8);

	assert_int_equal(start_over(p + 1, 8 * PAGE - 2, WEIR_MMAP_WRITE), 0);
	assert_int_equal(munmap(p + 5 * PAGE, PAGE), 0);
	assert_int_equal(start_over(p, 5 * PAGE, WEIR_MMAP_WRITE), 0);
	assert_int_equal(start_over(p + 6 * PAGE, 2 * PAGE, WEIR_MMAP_WRITE),
			 0);
	assert_int_equal(start_over(p, 8 * PAGE, WEIR_MMAP_READ), -EFAULT);
	assert_non_null(strstr(weir_why(), "not mapped"));
	assert_why_has(told ? p + 5 * PAGE : p);
	assert_int_equal(start_over(p, 5 * PAGE + 1, WEIR_MMAP_READ), -EFAULT);
	assert_int_equal(start_over(p + 5 * PAGE + 7, 1, WEIR_MMAP_READ),
			 -EFAULT);
	munmap(p, 8 * PAGE);
}

/* Kernels before 6.11, a container without /proc, one whose text ends early. */
static int without_query(const char *name)
{
	return !strcmp(name, "ioctl");
}

static int without_proc(const char *name)
{
	return !strcmp(name, "open");
}

static int without_text(const char *name)
{
	return !strcmp(name, "ioctl") || !strcmp(name, "read");
}

static void start_refuses_memory_that_is_not_mapped(void **state)
{
	static int (*const lacks[])(const char *) = {
		NULL, without_query, without_proc, without_text,
	};
	size_t i;

	(void)state;
	for (i = 0; i < N_OF(lacks); i++) {
		fault_ask(lacks[i]);
		check_missing_memory(i < 2);
		fault_ask(NULL);
	}
}

static void check_rights(void)
{
	char *p = some_pages(8);
	char *text = (char *)(uintptr_t)"constant";

	mprotect(p + 3 * PAGE, PAGE, PROT_READ);
	mprotect(p + 6 * PAGE, PAGE, PROT_NONE);
	assert_int_equal(start_over(p, 6 * PAGE, WEIR_MMAP_READ), 0);
	assert_int_equal(start_over(p, 6 * PAGE, WEIR_MMAP_WRITE), -EFAULT);
	assert_non_null(strstr(weir_why(), "mapped r-"));
	assert_why_has(p + 3 * PAGE);
	assert_int_equal(start_over(p, 8 * PAGE, WEIR_MMAP_READ), -EFAULT);
	assert_non_null(strstr(weir_why(), "mapped --"));
	assert_why_has(p + 6 * PAGE);
	munmap(p, 8 * PAGE);
	assert_int_equal(start_over(text, 8, WEIR_MMAP_WRITE), -EFAULT);
	assert_int_equal(start_over(text, 8, WEIR_MMAP_READ), 0);
}

static void start_refuses_memory_without_the_rights(void **state)
{
	(void)state;
	check_rights();
	fault_ask(without_query);
	check_rights();
	fault_ask(NULL);
}

/* What the kernel does not tell is the caller's affair. */
static void start_takes_rights_for_granted_without_proc(void **state)
{
	char *p = some_pages(1);

	(void)state;
	mprotect(p, PAGE, PROT_READ);
	fault_ask(without_proc);
	assert_int_equal(start_over(p, PAGE, WEIR_MMAP_WRITE), 0);
	fault_ask(NULL);
	munmap(p, PAGE);
}

/* Sparse memory of 1 TiB, of which nothing is touched by the start. */
static void start_touches_no_page(void **state)
{
	size_t len = (size_t)1 << 40;
	unsigned char there[1];
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	if (p == MAP_FAILED)
		skip_because("no 1 TiB of address space: %s", strerror(errno));
	assert_int_equal(start_over(p, len, WEIR_MMAP_WRITE), 0);
	assert_int_equal(mincore(p, PAGE, there), 0);
	assert_int_equal(there[0] & 1, 0);
	assert_int_equal(mincore(p + len / 2, PAGE, there), 0);
	assert_int_equal(there[0] & 1, 0);
	munmap(p, len);
}

/* A1.25 */
static void a_dmabuf_that_cannot_be_mapped_has_offsets(void **state)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_WRITE);
	int fd = eventfd(0, EFD_CLOEXEC);	/* It has no mmap() either. */

	(void)state;
	mock_begin();
	assert_int_equal(weir_mmap_set_dmabuf(m, fd, 0, LEN), 0);
	close(fd);
	assert_null(addr_of(m, LEN));
	assert_int_equal(weir_domain_kind(weir_mmap_domain(m)),
			 WEIR_DOMAIN_DMABUF);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(n_syncs, 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	mock_end();
}

static void fd_that_is_no_dmabuf_is_refused(void **state)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_WRITE);
	int fds[3], i;

	(void)state;
	fds[0] = memfd(LEN, F_SEAL_SHRINK);
	pipe_pair(fds + 1);
	for (i = 0; i < 3; i++)
		assert_int_equal(weir_mmap_set_dmabuf(m, fds[i], 0, PAGE),
				 -EINVAL);
	assert_int_equal(weir_mmap_set_dmabuf(m, -1, 0, PAGE), -EBADF);
	assert_int_equal(weir_mmap_memrange(m, NULL, NULL), -ENOENT);
	close(fds[0]);
	close_pair(fds + 1);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void device_memory_is_held_and_begins_at_0(void **state)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_WRITE);
	struct weir_device *dev;

	(void)state;
	need_dm(&dev);
	assert_int_equal(weir_mmap_set_dm(m, dm, 4, 4096), -ERANGE);
	assert_int_equal(weir_mmap_set_dm(m, dm, 4, 4092), 0);
	assert_null(addr_of(m, 4092));
	assert_int_equal(weir_domain_kind(weir_mmap_domain(m)),
			 WEIR_DOMAIN_DEVICE);
	assert_int_equal(weir_mmap_page_size(m, NULL), 0);
	assert_int_equal(weir_dm_free(dm), -EBUSY);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	drop_dm(dev);
}

static void part_of_a_domain_is_held_and_has_its_addresses(void **state)
{
	struct weir_mmap *m = new_mmap(WEIR_MMAP_WRITE);
	struct weir_device *dev;

	(void)state;
	need_domain();
	assert_int_equal(weir_mmap_set_domain(m, NULL, 100, 1), -EINVAL);
	assert_int_equal(weir_mmap_set_domain(m, weir_domain_system(), 100, 1),
			 -EINVAL);
	assert_starts_with(weir_why(), "weir_mmap_set_domain: ");
	assert_int_equal(weir_mmap_set_domain(m, domain, 99, 1), -ERANGE);
	assert_int_equal(weir_mmap_set_domain(m, domain, 101, 1000), -ERANGE);
	assert_int_equal(weir_mmap_set_domain(m, domain, UINT64_MAX, 2),
			 -ERANGE);
	assert_int_equal(weir_mmap_set_domain(m, domain, 101, 999), 0);
	assert_ptr_equal(addr_of(m, 999), (void *)101);
	assert_ptr_equal(weir_mmap_domain(m), domain);
	assert_int_equal(weir_mmap_page_size(m, NULL), 0);
	assert_int_equal(weir_domain_destroy(domain), -EBUSY);

	/* No device of the library's reaches it. */
	assert_int_equal(weir_device_open_name(&dev, "cpu"), 0);
	assert_int_equal(weir_mmap_add_device(m, dev), -EOPNOTSUPP);
	assert_int_equal(weir_device_close(dev), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_domain_destroy(domain), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_range_is_set_once_and_while_stopped),
		CASE(mmap_of_a_file_is_shared_with_its_other_users),
		CASE(a_file_that_could_kill_us_is_refused),
		CASE(read_only_memory_is_not_started_for_writing),
		CASE(allocated_pages_are_there_and_told_honestly),
		REAL(alloc_refuses_more_than_is_left),
		REAL(alloc_of_a_memfd_larger_than_memory_is_refused),
		CASE(a_length_that_nothing_has_is_told),
		CASE(the_hugepage_domain_asks_for_huge_pages),
		CASE(a_failure_leaves_no_range),
		CASE(the_driver_of_a_dmabuf_knows_when_it_is_used),
		CASE(a_dmabuf_that_cannot_be_mapped_has_offsets),
		CASE(fd_that_is_no_dmabuf_is_refused),
		CASE(device_memory_is_held_and_begins_at_0),
		CASE(part_of_a_domain_is_held_and_has_its_addresses),
		REAL(start_refuses_memory_that_is_not_mapped),
		REAL(start_refuses_memory_without_the_rights),
		REAL(start_takes_rights_for_granted_without_proc),
		REAL(start_touches_no_page),
	};

	return harness_run_plain(cases, N_OF(cases));
}
