/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: physical addresses, with the right to them and without, and what
 * the machine tells of its memory.  The numbers are those of the rules that are
 * re-created, of DPDK's rte_memory.
 */

#include "tests/support/segment-fixture.h"

#include <sys/prctl.h>

#include "base/fault.h"
#include "mem/segment/table.h"

static void need_phys(void)
{
	int err = weir_segment_phys_allowed();

	if (err == -EPERM)
		skip_because("%s", weir_why());
	assert_int_equal(err, 0);
}

/* C1.8, gotcha 22 */
static void page_without_data_has_no_physical_address(void **state)
{
	uint64_t at = 5, in_it = 0;
	char *p = pages(3);

	(void)state;
	need_phys();
	assert_int_equal(weir_segment_phys(&at, p), -ENOENT);
	assert_non_null(strstr(weir_why(), "never touched"));
	(void)*(volatile char *)p;
	assert_int_equal(weir_segment_phys(&at, p), -ENOENT);
	assert_non_null(strstr(weir_why(), "page of zeros"));
	assert_int_equal(at, 5);
	p[PAGE] = 1;
	assert_int_equal(weir_segment_phys(&at, p + PAGE), 0);
	assert_true(at && !(at % PAGE));
	assert_int_equal(weir_segment_phys(&in_it, p + PAGE + 77), 0);
	assert_int_equal(in_it, at + 77);
	assert_int_equal(weir_segment_phys(NULL, p), -EINVAL);
	assert_int_equal(weir_segment_phys(&at, NULL), -ENOENT);
	assert_int_equal(weir_segment_phys(&at, p - 1), -ENOENT);
	assert_int_equal(weir_segment_phys(&at, (void *)(UINTPTR_MAX - 5)),
			 -ENOENT);
	pages_end(p, 3);
}

/* Where /proc/kpageflags is not there: the second way to know it. */
static void the_page_of_zeros_is_known_in_two_ways(void **state)
{
	uint64_t at;
	char *p = pages(1);

	(void)state;
	need_phys();
	(void)*(volatile char *)p;
	/* Opens pagemap, and then not kpageflags. */
	fault_arm(2);
	assert_int_equal(weir_segment_phys(&at, p), -ENOENT);
	assert_int_equal(fault_disarm(), 1);
	assert_string_equal(fault_last(), "open");
	assert_non_null(strstr(weir_why(), "page of zeros"));
	pages_end(p, 1);
}

static void mappings_of_one_page_have_one_address(void **state)
{
	uint64_t a = 1, b = 2;
	char *p, *q;
	int fd;

	(void)state;
	need_phys();
	fd = memfd_create("phys", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p[0] = q[0] = 1;
	assert_int_equal(weir_segment_phys(&a, p), 0);
	assert_int_equal(weir_segment_phys(&b, q), 0);
	assert_int_equal(a, b);
	munmap(p, PAGE);
	munmap(q, PAGE);
	close(fd);
}

static void check_undumpable(char *p)
{
	uint64_t at = 5;

	WANT(weir_segment_phys(&at, p) == -EPERM);
	WANT(strstr(weir_why(), "PR_SET_DUMPABLE"));
	WANT(weir_segment_phys_allowed() == -EPERM);
	WANT(at == 5);
}

/* C1.8, gotcha 22: a number of 0 is no address */
static void check_nobody(void *arg)
{
	char *p = arg;
	uint64_t at = 5;

	*p = 1;
	/* A change of the user, if there was one, took the right to open it. */
	if (!prctl(PR_GET_DUMPABLE))
		check_undumpable(p);
	WANT(!prctl(PR_SET_DUMPABLE, 1));
	WANT(weir_segment_phys(&at, p) == -EPERM);
	WANT(strstr(weir_why(), "CAP_SYS_ADMIN"));
	WANT(weir_segment_phys_allowed() == -EPERM);
	WANT(weir_segment_phys(&at, p + PAGE) == -ENOENT);
	WANT(at == 5);
}

static void physical_address_without_privilege_is_refused_with_the_reason(void **state)
{
	char *p = pages(2);

	(void)state;
	in_child(check_nobody, p, true);
	pages_end(p, 2);
}

/* A process like any other can do all the rest. */
static void use_segments(void *arg)
{
	const uint64_t iovas[] = { 0x1000000 };
	struct weir_segment seg = SEGMENT;
	char *p = arg;
	struct weir_mmap *m = started_mmap(p, PAGE);
	uint64_t iova;
	void *back;
	int fd;

	WANT(!weir_segment_find(&seg, p) && seg.len == PAGE);
	WANT(!weir_segment_register(p + PAGE, PAGE, iovas, 1, PAGE));
	WANT(!weir_segment_iova(&iova, p + PAGE) && iova == 0x1000000);
	WANT(!weir_segment_from_iova(&back, iova) && back == p + PAGE);
	WANT(!weir_segment_share(&fd, p + PAGE, PAGE));
	WANT(!weir_segment_unregister(p + PAGE, PAGE));
	WANT(!weir_segment_attach(p + PAGE, PAGE, fd));
	WANT(!weir_segment_detach(p + PAGE, PAGE));
	WANT(!weir_mmap_destroy(m) && !n_lists());
}

static void segments_without_privilege_work(void **state)
{
	char *p = pages(2);

	(void)state;
	in_child(use_segments, p, true);
	pages_end(p, 2);
}

static void failures_of_the_system_are_told(void **state)
{
	uint64_t at = 5;
	char here = 1;
	int n;

	(void)state;
	for (n = 0; n < 2; n++) {
		fault_arm(n);
		assert_int_equal(weir_segment_phys(&at, &here), -EIO);
		assert_int_equal(fault_disarm(), 1);
		assert_non_null(strstr(weir_why(), "/proc/self/pagemap"));
	}
	assert_int_equal(at, 5);
}

/* A file in the test's own /sys. */
static void sys_file(const char *root, const char *path, const void *data,
		     size_t len)
{
	char full[512], *slash;
	int fd;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (slash = full + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static void dimm(const char *root, const char *where, const char *location,
		 const char *size)
{
	char path[128];

	snprintf(path, sizeof(path), "devices/system/edac/mc/%s/dimm_location",
		 where);
	sys_file(root, path, location, strlen(location));
	snprintf(path, sizeof(path), "devices/system/edac/mc/%s/size", where);
	sys_file(root, path, size, strlen(size));
}

/* C1.3 */
static void memory_sizes_are_read_from_sysfs(void **state)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	const char *root = test_dir(state);
	unsigned char raw[0x28] = { 17, 0x28 };

	segment_host_set_sysfs(root);
	assert_int_equal(weir_segment_stats(&stats), 0);
	assert_int_equal(stats.nodes, 1);
	assert_int_equal(stats.channels, 0);
	assert_int_equal(stats.ranks, 0);

	sys_file(root, "devices/system/node/online", "0-1,4\n", 6);
	dimm(root, "mc0/dimm0", "channel 0 slot 0 \n", "8192\n");
	dimm(root, "mc0/dimm1", "channel 0 slot 1 \n", "8192\n");
	dimm(root, "mc0/dimm2", "channel 1 slot 0 \n", "8192\n");
	dimm(root, "mc0/dimm3", "channel 2 slot 0 \n", "0\n");
	dimm(root, "mc1/rank0", "csrow 0 channel 0 \n", "8192\n");
	dimm(root, "mc1/rank1", "csrow 1 channel 0 \n", "8192\n");
	raw[0x0c] = 0x20;
	raw[0x1b] = 2;
	sys_file(root, "firmware/dmi/entries/17-0/raw", raw, sizeof(raw));
	raw[0x0c] = 0;
	raw[0x1b] = 4;
	sys_file(root, "firmware/dmi/entries/17-1/raw", raw, sizeof(raw));
	sys_file(root, "firmware/dmi/entries/17-2/raw", raw, 5);
	assert_int_equal(weir_segment_stats(&stats), 0);
	assert_int_equal(stats.nodes, 3);
	assert_int_equal(stats.channels, 3);
	assert_int_equal(stats.ranks, 2);
	segment_host_set_sysfs("/sys");
}

/* With several nodes each page is asked for; here they are all on node 0. */
static void the_node_is_asked_for_where_there_are_several(void **state)
{
	struct weir_segment seg = SEGMENT;
	const char *root = test_dir(state);
	char *p = pages(2);
	struct weir_mmap *m;
	int n;

	if (segment_host_nodes() != 1)
		skip_because("this machine has NUMA nodes of its own");
	sys_file(root, "devices/system/node/online", "0-1\n", 4);
	segment_host_set_sysfs(root);
	for (n = 0; n < 2; n++) {
		m = started_mmap(p, PAGE);
		assert_int_equal(weir_segment_find(&seg, p), 0);
		assert_true(seg.node == 0 || seg.node == -1);
		assert_int_equal(weir_segment_node_bytes(0), PAGE);
		weir_mmap_destroy(m);
		p[0] = 1;
	}
	segment_host_set_sysfs("/sys");
	pages_end(p, 2);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(page_without_data_has_no_physical_address),
		CASE(the_page_of_zeros_is_known_in_two_ways),
		CASE(mappings_of_one_page_have_one_address),
		CASE(physical_address_without_privilege_is_refused_with_the_reason),
		CASE(segments_without_privilege_work),
		CASE(failures_of_the_system_are_told),
		CASE(memory_sizes_are_read_from_sysfs),
		CASE(the_node_is_asked_for_where_there_are_several),
	};

	return harness_run_plain(cases, N_OF(cases));
}
