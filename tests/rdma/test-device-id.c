/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who an RDMA device is (A2.4), over a tree like /sys of our own: soft-RoCE
 * has no bus, InfiniBand has no MAC address, Ethernet no LID.
 */

#include "tests/support/harness.h"

#include <weir/device.h>
#include <weir/rdma/device.h>

#include "base/fault.h"
#include "rdma/device.h"

/* Directories end in a slash; "PATH -> TO" is a link. */
static const struct {
	const char *path, *text;
} tree[] = {
	{ "class/net/eth7/address", "02:00:5e:10:00:ff\n" },
	{ "class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n" },
	{ "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth7\n" },
	{ "class/infiniband/mlx5_0/ports/1/lid", "0x0\n" },
	{ "devices/0001:3b:00.1/numa_node", "1\n" },
	{ "class/infiniband/ib0/ports/1/link_layer", "InfiniBand\n" },
	{ "class/infiniband/ib0/ports/1/lid", "0x1c\n" },
	{ "devices/0000:af:00.0/net/ibp1/mtu", "2044\n" },
	{ "class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n" },
	{ "class/infiniband/rxe0/parent", "lo\n" },
	{ "class/infiniband/bare/node_desc", "nothing\n" },
	{ "class/infiniband/empty/ports/1/link_layer", "" },
};

static const struct {
	const char *link, *to;
} links[] = {
	{ "class/infiniband/mlx5_0/device", "../../../devices/0001:3b:00.1" },
	{ "class/infiniband/ib0/device", "../../../devices/0000:af:00.0" },
};

static void put_file(const char *root, const char *path, const char *text)
{
	char full[300];
	char *slash;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (slash = full + strlen(root) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = 0;
		if (mkdir(full, 0700))
			assert_int_equal(errno, EEXIST);
		*slash = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void make_tree(void **state)
{
	const char *root = test_dir(state);
	char full[300];
	size_t i;

	for (i = 0; i < N_OF(tree); i++)
		put_file(root, tree[i].path, tree[i].text);
	for (i = 0; i < N_OF(links); i++) {
		snprintf(full, sizeof(full), "%s/%s", root, links[i].link);
		assert_int_equal(symlink(links[i].to, full), 0);
	}
	device_sysfs = root;
}

static struct weir_devinfo **all, *unknown[16];

/* RDMA devices that rdma-core does not know.  Returns how many. */
static size_t list_unknown(void)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	size_t n, i, n_unknown = 0;

	assert_int_equal(weir_device_list(&all, &n), 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(weir_devinfo_caps(all[i], &caps), 0);
		if (caps.kind == WEIR_DEVICE_RDMA &&
		    strstr(caps.why, "rdma-core has no driver"))
			unknown[n_unknown++] = all[i];
		assert_true(n_unknown < N_OF(unknown));
	}
	unknown[n_unknown] = NULL;
	return n_unknown;
}

/* Those of the tree. */
static struct weir_devinfo **list_tree(void **state)
{
	make_tree(state);
	assert_int_equal(list_unknown(), 5);
	return unknown;
}

static void done(struct weir_devinfo **list)
{
	assert_ptr_equal(list, unknown);
	weir_device_list_free(all);
	device_sysfs = "/sys";
}

static struct weir_devinfo *named(struct weir_devinfo **list, const char *name)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };

	for (; *list; list++) {
		assert_int_equal(weir_devinfo_caps(*list, &caps), 0);
		if (!strcmp(caps.name, name))
			return *list;
	}
	fail_msg("no %s", name);
	return NULL;
}

static int get_lid(const struct weir_devinfo *info, char *buf, size_t size)
{
	uint16_t lid;
	int err = weir_devinfo_lid(info, &lid);

	if (!err)
		snprintf(buf, size, "%u", lid);
	return err;
}

static int get_mac(const struct weir_devinfo *info, char *buf, size_t size)
{
	uint8_t m[6];
	int err = weir_devinfo_mac(info, m);

	if (!err)
		snprintf(buf, size, "%x:%x:%x:%x:%x:%x", m[0], m[1], m[2],
			 m[3], m[4], m[5]);
	return err;
}

static int get_ipv4(const struct weir_devinfo *info, char *buf, size_t size)
{
	uint8_t a[4];
	int err = weir_devinfo_ipv4(info, a);

	if (!err)
		snprintf(buf, size, "%u.%u.%u.%u", a[0], a[1], a[2], a[3]);
	return err;
}

static int get_ipv6(const struct weir_devinfo *info, char *buf, size_t size)
{
	uint8_t a[16];
	int err = weir_devinfo_ipv6(info, a);

	if (!err)
		snprintf(buf, size, "...%x", a[15]);
	return err;
}

typedef int get_fn(const struct weir_devinfo *info, char *buf, size_t size);

/* NULL as name: the processor, which is no RDMA device. */
static const struct {
	const char *name;
	get_fn *get;
	int err;
	const char *is;
} answers[] = {
	{ "mlx5_0", weir_devinfo_ibdev, 0, "mlx5_0" },
	{ "mlx5_0", weir_devinfo_pci, 0, "0001:3b:00.1" },
	{ "mlx5_0", weir_devinfo_iface, 0, "eth7" },
	{ "mlx5_0", get_mac, 0, "2:0:5e:10:0:ff" },
	{ "mlx5_0", get_lid, -EOPNOTSUPP, "is Ethernet" },
	{ "mlx5_0", get_ipv4, -ENOENT, "eth7" },
	{ "ib0", weir_devinfo_pci, 0, "0000:af:00.0" },
	{ "ib0", weir_devinfo_iface, 0, "ibp1" },
	{ "ib0", get_mac, -EOPNOTSUPP, "is InfiniBand" },
	{ "ib0", get_lid, 0, "28" },
	{ "rxe0", weir_devinfo_ibdev, 0, "rxe0" },
	{ "rxe0", weir_devinfo_pci, -EOPNOTSUPP, "no PCI bus" },
	{ "rxe0", weir_devinfo_iface, 0, "lo" },
	{ "rxe0", get_ipv4, 0, "127.0.0.1" },
	{ "rxe0", get_mac, -ENOENT, "interface" },
	{ "bare", weir_devinfo_iface, -ENOENT, "no network interface" },
	{ "bare", get_ipv6, -ENOENT, "no network interface" },
	{ "bare", get_mac, -ENOENT, "link layer" },
	{ "empty", get_lid, -EIO, "link layer" },
	{ NULL, weir_devinfo_ibdev, -EOPNOTSUPP, "no RDMA" },
	{ NULL, weir_devinfo_pci, -EOPNOTSUPP, "no RDMA" },
	{ NULL, weir_devinfo_iface, -EOPNOTSUPP, "no RDMA" },
	{ NULL, get_mac, -EOPNOTSUPP, "no RDMA" },
	{ NULL, get_lid, -EOPNOTSUPP, "no RDMA" },
	{ NULL, get_ipv4, -EOPNOTSUPP, "no RDMA" },
	{ NULL, get_ipv6, -EOPNOTSUPP, "no RDMA" },
};

static void device_answers_by_its_kind_of_link(void **state)
{
	struct weir_devinfo **list = list_tree(state);
	struct weir_device *cpu;
	const struct weir_devinfo *info;
	char buf[64];
	size_t i;
	int err;

	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	for (i = 0; i < N_OF(answers); i++) {
		info = answers[i].name ? named(list, answers[i].name) :
					 weir_device_info(cpu);
		strcpy(buf, "untouched");
		err = answers[i].get(info, buf, sizeof(buf));
		if (err != answers[i].err)
			fail_msg("line %zu: %d: %s", i, err, weir_why());
		assert_string_equal(buf, err ? "untouched" : answers[i].is);
		if (err && !strstr(weir_why(), answers[i].is))
			fail_msg("line %zu: %s", i, weir_why());
	}
	assert_int_equal(weir_device_close(cpu), 0);
	done(list);
}

/* As the kernel lists them, which is not how the library asks. */
static bool lo_has_ipv6(void)
{
	FILE *f = fopen("/proc/net/if_inet6", "re");
	char name[32];
	bool found = false;

	while (f && !found && fscanf(f, "%*s %*s %*s %*s %*s %31s", name) == 1)
		found = !strcmp(name, "lo");
	if (f)
		fclose(f);
	return found;
}

static void device_is_found_by_an_ipv6_address(void **state)
{
	struct weir_devinfo **list = list_tree(state);
	char buf[64];
	int err = get_ipv6(named(list, "rxe0"), buf, sizeof(buf));

	done(list);
	if (!lo_has_ipv6()) {
		assert_int_equal(err, -ENOENT);
		skip_because("lo has no IPv6 address here");
	}
	assert_int_equal(err, 0);
	assert_string_equal(buf, "...1");
}

static void pci_addresses_are_compared_long_and_short(void **state)
{
	static const struct {
		const char *name, *addr;
		int res;
	} cases[] = {
		{ "ib0", "0000:af:00.0", 1 },
		{ "ib0", "af:00.0", 1 },
		{ "ib0", "AF:00.0", 1 },
		{ "ib0", "0000:AF:00.0", 1 },
		{ "ib0", "af:00.1", 0 },
		{ "ib0", "0001:af:00.0", 0 },
		{ "mlx5_0", "0001:3b:00.1", 1 },
		{ "mlx5_0", "3b:00.1", 0 },	/* That is domain 0. */
		{ "ib0", "", -EINVAL },
		{ "ib0", "af:00", -EINVAL },
		{ "ib0", "af:00.0 ", -EINVAL },
		{ "ib0", "af:00.00", -EINVAL },
		{ "ib0", "af:-1.0", -EINVAL },
		{ "ib0", " af:00.0", -EINVAL },
		{ "ib0", "0000:af:00.0x", -EINVAL },
		{ "ib0", "0000:0xaf:00.0", -EINVAL },
		{ "rxe0", "af:00.0", -EOPNOTSUPP },
		{ "rxe0", "mlx5_0", -EINVAL },
	};
	struct weir_devinfo **list = list_tree(state);
	size_t i;
	int res;

	for (i = 0; i < N_OF(cases); i++) {
		res = weir_devinfo_is_pci(named(list, cases[i].name),
					  cases[i].addr);
		if (res != cases[i].res)
			fail_msg("\"%s\": %d", cases[i].addr, res);
	}
	done(list);
}

static void id_that_does_not_fit_is_refused(void **state)
{
	struct weir_devinfo **list = list_tree(state);
	const struct weir_devinfo *info = named(list, "mlx5_0");
	char buf[16] = "x";

	assert_int_equal(weir_devinfo_pci(info, buf, 12), -EMSGSIZE);
	assert_int_equal(weir_devinfo_ibdev(info, buf, 6), -EMSGSIZE);
	assert_int_equal(weir_devinfo_iface(info, buf, 0), -EMSGSIZE);
	assert_string_equal(buf, "x");
	assert_int_equal(weir_devinfo_pci(info, buf, 13), 0);
	assert_int_equal(weir_devinfo_ibdev(info, buf, 7), 0);
	assert_int_equal(weir_devinfo_iface(info, buf, 5), 0);
	done(list);
}

static void device_without_verbs_says_what_to_install(void **state)
{
	struct weir_devinfo **list = list_tree(state);
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_device *dev;
	size_t i;

	for (i = 0; list[i]; i++) {
		assert_int_equal(weir_devinfo_caps(list[i], &caps), 0);
		assert_int_equal(caps.kind, WEIR_DEVICE_RDMA);
		assert_int_equal(caps.flags, 0);
		assert_non_null(strstr(caps.why, "install ibverbs-providers"));
		assert_int_equal(caps.numa_node,
				 !strcmp(caps.name, "mlx5_0") ? 1 : -1);
		assert_int_equal(weir_device_open(&dev, list[i]), -EOPNOTSUPP);
	}
	done(list);
}

static void a_system_without_such_a_directory_has_none(void **state)
{
	device_sysfs = test_dir(state);
	assert_int_equal(list_unknown(), 0);
	done(unknown);
}

/* Whatever fails, the answer is an error, and the buffer as it was. */
static void failing_call_of_device_lookup_is_an_error(void **state)
{
	struct weir_devinfo **list = list_tree(state);
	char buf[64];
	bool fired;
	size_t i;
	long nth;
	int err;

	for (i = 0; i < N_OF(answers); i++) {
		if (!answers[i].name)
			continue;
		fired = true;
		for (nth = 0; fired; nth++) {
			assert_true(nth < 20);
			strcpy(buf, "untouched");
			fault_arm(nth);
			err = answers[i].get(named(list, answers[i].name), buf,
					     sizeof(buf));
			fired = fault_disarm();
			assert_true(fired || err == answers[i].err);
			if (err)
				assert_string_equal(buf, "untouched");
		}
	}
	done(list);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(device_answers_by_its_kind_of_link),
		CASE(device_is_found_by_an_ipv6_address),
		CASE(pci_addresses_are_compared_long_and_short),
		CASE(id_that_does_not_fit_is_refused),
		CASE(device_without_verbs_says_what_to_install),
		CASE(a_system_without_such_a_directory_has_none),
		CASE(failing_call_of_device_lookup_is_an_error),
	};

	return harness_run_plain(cases, N_OF(cases));
}
