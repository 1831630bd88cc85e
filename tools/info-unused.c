/* SPDX-License-Identifier: BSD-3-Clause */

/* Features that are not used here: why, and the remedy. */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/domain.h>
#include <weir/segment.h>

#include "info.h"

#define MEMLOCK_ENOUGH ((uint64_t)64 << 20)
#define NOFILE_ENOUGH 1024

static struct unused *add(struct info *info, const char *what)
{
	struct unused *u = add_item(info, &info->unused, &info->n_unused,
				    sizeof(*u));

	if (u)
		snprintf(u->what, sizeof(u->what), "%s", what);
	return u;
}

__attribute__((format(printf, 4, 5))) static void say(
	struct info *info, const char *what, const char *remedy,
	const char *fmt, ...)
{
	struct unused *u = add(info, what);
	va_list ap;

	if (!u)
		return;
	snprintf(u->remedy, sizeof(u->remedy), "%s", remedy);
	va_start(ap, fmt);
	vsnprintf(u->why, sizeof(u->why), fmt, ap);
	va_end(ap);
}

/* Messages of the library are "reason; remedy". */
static void say_message(struct info *info, const char *what, const char *s)
{
	const char *at = strstr(s, "; ");
	int len = (int)(at ? (size_t)(at - s) : strlen(s));

	say(info, what, at ? at + 2 : "", "%.*s", len, s);
}

static const struct {
	uint32_t feature;
	const char *name, *costs, *since;
} features[] = {
	{ WEIR_URING_COOP_TASKRUN, "cooperative task work",
	  "each completion may interrupt the thread", "5.19" },
	{ WEIR_URING_DEFER_TASKRUN, "deferred task work",
	  "completions are worked on when the kernel likes", "6.1" },
	{ WEIR_URING_RING_FD, "registered ring",
	  "each system call looks the ring up", "5.18" },
	{ WEIR_URING_FILES, "registered files",
	  "each operation looks its file up", "5.19" },
	{ WEIR_URING_BUFFERS, "registered buffers",
	  "each transfer pins its pages", "5.19" },
	{ WEIR_URING_BUFFER_RINGS, "buffer rings",
	  "a receiver reads after it was told that it can", "5.19" },
	{ WEIR_URING_SEND_ZC, "zero-copy send",
	  "what is sent is copied", "6.0" },
	{ WEIR_URING_CQE_SKIP, "silent cancels",
	  "each cancel has a completion of its own", "5.17" },
	{ WEIR_URING_SQE128, "SQEs of 128 bytes",
	  "a drive takes no commands by io_uring", "5.19" },
	{ WEIR_URING_CQE_MIXED, "mixed CQEs",
	  "with .cqe32 each completion has 32 bytes", "6.18" },
	{ WEIR_URING_NAPI, "NAPI busy poll",
	  ".napi_us has no effect", "6.9" },
	{ WEIR_URING_RECV_BUNDLES, "receive bundles",
	  "each buffer of a receiver has a completion of its own", "6.16" },
};

static void unused_backends(struct info *info)
{
	char remedy[64];
	size_t i;

	if (!info->uring.usable)
		say_message(info, "io_uring", info->uring.why);
	if (!info->ev.usable)
		say_message(info, "libev", info->ev.why);
	for (i = 0; info->uring.usable && i < N_OF(features); i++) {
		if (info->features.features & features[i].feature)
			continue;
		snprintf(remedy, sizeof(remedy), "Linux %s or later",
			 features[i].since);
		say(info, features[i].name, remedy,
		    "the kernel does not offer it: %s", features[i].costs);
	}
}

#ifdef HAVE_VERBS
#define RDMA_REMEDY "a card; or in software, as root: rdma link add rxe0 " \
		    "type rxe netdev eth0"
#define RDMA_WHY "there is no RDMA device here"
#else
#define RDMA_REMEDY "libibverbs-dev and librdmacm-dev when weir is configured"
#define RDMA_WHY "this weir was built without rdma-core"
#endif

static void unused_devices(struct info *info)
{
	bool rdma = false, dm = false;
	const struct device *d;
	size_t i;

	for (i = 0; i < info->n_devices; i++) {
		d = &info->devices[i];
		if (d->caps.kind == WEIR_DEVICE_RDMA) {
			rdma = true;
			dm = dm || d->caps.dm_size;
		}
		/* io_uring is listed with the backends. */
		if (!is_usable(d) && d->caps.kind != WEIR_DEVICE_IO_URING)
			say_message(info, d->caps.name, d->caps.why);
	}
	if (!rdma)
		say(info, "RDMA", RDMA_REMEDY, RDMA_WHY);
	if (!dm)
		say(info, "memory of a card", "an RDMA card with memory that "
		    "can be allocated, such as ConnectX-5",
		    "no card here has any; soft-dm stands in for it");
}

static void unused_limits(struct info *info)
{
	if (info->uring.usable && !info->may_lock &&
	    info->memlock.soft < MEMLOCK_ENOUGH)
		say(info, "registered memory", "ulimit -l unlimited; "
		    "LimitMEMLOCK= of a unit; memlock in "
		    "/etc/security/limits.conf", "ulimit -l is %llu KiB: what "
		    "is beyond is used without",
		    (unsigned long long)info->memlock.soft >> 10);
	if (info->nofile.soft < NOFILE_ENOUGH)
		say(info, "registered files", "ulimit -n 1024, or more",
		    "ulimit -n is %llu: there are no more than that",
		    (unsigned long long)info->nofile.soft);
}

static void unused_pages(struct info *info)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < info->n_huge; i++)
		if (info->huge[i].total != UNKNOWN)
			total += info->huge[i].total;
	if (!info->n_huge)
		say(info, "huge pages", "a kernel with CONFIG_HUGETLBFS",
		    "the kernel has none");
	else if (!total)
		say(info, "huge pages", "as root: sysctl vm.nr_hugepages=512",
		    "none are reserved: ordinary pages are used");
	if (!info->thp[0] || !strcmp(info->thp, "never"))
		say(info, "transparent huge pages", "as root: echo madvise "
		    ">/sys/kernel/mm/transparent_hugepage/enabled",
		    "they are switched off, or the kernel has none");
}

static void unused_addresses(struct info *info)
{
	const char *s;

	if (!weir_segment_phys_allowed())
		return;
	/* Skip the name of the call. */
	s = strstr(weir_why(), ": ");
	say_message(info, "physical addresses", s ? s + 2 : weir_why());
}

static void unused_sharing(struct info *info)
{
	if (!info->keys)
		say_message(info, "keyed exports", info->keys_why);
	if (!info->memfd)
		say(info, "export", "allow memfd_create(2)",
		    "memfd_create is refused: no memory can be shared");
	if (info->ptrace_scope != UNKNOWN && info->ptrace_scope)
		say(info, "memory of processes", "as root: sysctl "
		    "kernel.yama.ptrace_scope=0", "ptrace_scope is %llu: "
		    "only a child's can be reached without CAP_SYS_PTRACE",
		    (unsigned long long)info->ptrace_scope);
	if (info->udmabuf)
		return;
	if (access("/dev/udmabuf", F_OK))
		say(info, "udmabuf", "a kernel with CONFIG_UDMABUF: memory as "
		    "a dma-buf", "/dev/udmabuf is not there");
	else
		say(info, "udmabuf", "join the group of /dev/udmabuf, often "
		    "kvm", "/dev/udmabuf may not be opened");
}

static bool is_reached(const struct info *info, uint32_t kind)
{
	size_t i;

	for (i = 0; i < info->n_devices; i++)
		if (reaches(&info->devices[i], kind))
			return true;
	return false;
}

static void unused_domains(struct info *info)
{
	char what[64];
	size_t i;

	for (i = 0; i < n_domain_kinds; i++) {
		if (is_reached(info, domain_kinds[i].kind))
			continue;
		snprintf(what, sizeof(what), "domain %s",
			 domain_kinds[i].name);
		say(info, what, domain_kinds[i].remedy,
		    "no device that can be used reaches it");
	}
}

void find_unused(struct info *info)
{
	unused_backends(info);
	unused_devices(info);
	unused_domains(info);
	unused_limits(info);
	unused_pages(info);
	unused_addresses(info);
	unused_sharing(info);
}
