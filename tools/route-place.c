/* SPDX-License-Identifier: BSD-3-Clause */

/* The places of weir route: system, file:PATH, ... */

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/buf.h>
#include <weir/device.h>
#include <weir/dm.h>
#include <weir/domain-user.h>
#include <weir/inventory.h>
#include <weir/mmap.h>

#include "route.h"
#include "tool.h"

/* No memory is mapped there: a plan uses addresses, not their contents. */
#define ADDRESS(side) (UINT64_C(1) << (40 + (side)))

static int cannot(const char *word)
{
	return failed("route: %s: %s", word, weir_why());
}

static int begin_memory(struct place *p, struct weir_domain *domain,
			uint64_t bytes, int side)
{
	p->operand = weir_operand_at(domain, ADDRESS(side), bytes);
	return EXIT_OK;
}

static int begin_file(struct place *p, const char *word, const char *path,
		      uint64_t bytes, int flags)
{
	p->fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	if (p->fd < 0)
		return failed("route: %s: %s", word, strerror(errno));
	if (weir_domain_file_create(&p->domain, p->fd, NULL))
		return cannot(word);
	p->operand = weir_operand_at(p->domain, 0, bytes);
	return EXIT_OK;
}

static int begin_process(struct place *p, const char *word, const char *text,
			 uint64_t bytes, int side)
{
	char *end;
	long pid;

	errno = 0;
	pid = strtol(text, &end, 10);
	if (errno || end == text || *end || pid <= 0 || pid > INT32_MAX)
		return usage_error("route: '%s' is no number of a process",
				   text);
	if (weir_domain_process_create(&p->domain, (int)pid, NULL))
		return cannot(word);
	p->operand = weir_operand_at(p->domain, ADDRESS(side), bytes);
	return EXIT_OK;
}

/* The planner needs only the kind of the domain.  A connection would also need
 * a card. */
bool place_is_reached(const struct place *p)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	bool reached = false;
	size_t n, i;

	if (!p->remote)
		return true;
	if (weir_device_list(&list, &n))
		return false;
	for (i = 0; i < n && !reached; i++)
		reached = !weir_devinfo_caps(list[i], &caps) &&
			  (caps.flags & WEIR_DEVICE_USABLE) &&
			  (caps.domains & WEIR_DEVICE_BIT(WEIR_DOMAIN_REMOTE));
	weir_device_list_free(list);
	return reached;
}

/* Memory of a peer that is not connected, with any key. */
static int begin_remote(struct place *p, const char *word, uint64_t bytes,
			int side)
{
	if (weir_domain_remote_create(&p->domain, NULL))
		return cannot(word);
	p->operand = weir_operand_at(p->domain, ADDRESS(side), bytes);
	p->operand.ctx = &p->key;
	p->remote = true;
	return EXIT_OK;
}

static int no_move(struct weir_domain *domain, struct weir_reactor *r,
		   struct weir_op *op, const struct weir_domain_move *move)
{
	(void)domain, (void)r, (void)op, (void)move;
	return -EOPNOTSUPP;
}

/* Set the functions that @list names, separated by commas. */
static int set_functions(struct weir_domain *domain, const char *list)
{
	static const struct {
		const char *name;
		int (*set)(struct weir_domain *d, weir_domain_move_fn *fn);
	} functions[] = {
		{ "pull", weir_domain_set_pull },
		{ "push", weir_domain_set_push },
		{ "transfer", weir_domain_set_transfer },
		{ "fill", weir_domain_set_fill },
	};
	const size_t n = sizeof(functions) / sizeof(functions[0]);
	size_t len, i;

	for (; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		for (i = 0; i < n; i++)
			if (strlen(functions[i].name) == len &&
			    !strncmp(list, functions[i].name, len))
				break;
		if (i == n)
			return usage_error("route: a domain has no '%.*s'; it "
					   "may have pull, push, transfer and "
					   "fill", (int)len, list);
		functions[i].set(domain, no_move);
	}
	return EXIT_OK;
}

static int begin_user(struct place *p, const char *word, const char *list,
		      uint64_t bytes)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .id = word,
	};

	if (weir_domain_create(&p->domain, &opts))
		return cannot(word);
	p->operand = weir_operand_at(p->domain, 0, bytes);
	return set_functions(p->domain, list);
}

/* The first device, or software twin, with @bytes of free memory. */
static int alloc_dm(struct place *p, uint64_t bytes)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	size_t n, i;

	if (weir_device_list(&list, &n))
		return -ENODEV;
	for (i = 0; i < n && !p->dm; i++) {
		if (weir_devinfo_caps(list[i], &caps) ||
		    !(caps.caps & WEIR_DEVICE_CAP_DM) ||
		    weir_device_open(&p->device, list[i]))
			continue;
		if (weir_dm_alloc(&p->dm, p->device, bytes, 0)) {
			p->dm = NULL;
			weir_device_close(p->device);
			p->device = NULL;
		}
	}
	weir_device_list_free(list);
	return p->dm ? 0 : -ENODEV;
}

static int make_dmabuf(size_t len)
{
	struct udmabuf_create create = { .size = len };
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int memfd = memfd_create("weir route",
				 MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd = -1;

	if (dev >= 0 && memfd >= 0 && !ftruncate(memfd, (off_t)len) &&
	    !fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK)) {
		create.memfd = (uint32_t)memfd;
		create.flags = UDMABUF_FLAGS_CLOEXEC;
		fd = ioctl(dev, UDMABUF_CREATE, &create);
	}
	if (memfd >= 0)
		close(memfd);
	if (dev >= 0)
		close(dev);
	return fd;
}

/* A buf over all of @p->mmap, whose range is set. */
static int take_buf(struct place *p, struct weir_reactor *r, const char *word,
		    uint64_t bytes, int side)
{
	void *addr = NULL;
	size_t len;

	if (weir_mmap_set_permissions(p->mmap, WEIR_MMAP_WRITE) ||
	    weir_mmap_start(p->mmap) ||
	    weir_inventory_create(&p->inv, r, NULL) ||
	    weir_inventory_attach(p->inv, p->mmap) ||
	    weir_mmap_memrange(p->mmap, &addr, &len))
		return cannot(word);
	if (weir_inventory_get(&p->buf, p->inv, p->mmap, addr, bytes, NULL,
			       side == 1 ? 0 : bytes))
		return cannot(word);
	p->operand = weir_operand_buf(p->buf);
	return EXIT_OK;
}

static int begin_device(struct place *p, struct weir_reactor *r,
			const char *word, uint64_t bytes, int side)
{
	if (alloc_dm(p, bytes))
		return failed("route: device: no device here has %llu bytes of "
			      "memory to give; weir info shows them",
			      (unsigned long long)bytes);
	if (weir_mmap_create(&p->mmap, NULL) ||
	    weir_mmap_set_dm(p->mmap, p->dm, 0, bytes))
		return cannot(word);
	return take_buf(p, r, word, bytes, side);
}

static int begin_dmabuf(struct place *p, struct weir_reactor *r,
			const char *word, uint64_t bytes, int side)
{
	p->fd = make_dmabuf((bytes + 4095) & ~UINT64_C(4095));
	if (p->fd < 0)
		return failed("route: dmabuf: /dev/udmabuf, which makes one of "
			      "memory, cannot be used: %s", strerror(errno));
	if (weir_mmap_create(&p->mmap, NULL) ||
	    weir_mmap_set_dmabuf(p->mmap, p->fd, 0, bytes))
		return cannot(word);
	return take_buf(p, r, word, bytes, side);
}

/* The text after "@name:" in @word, or NULL. */
static const char *after(const char *word, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(word, name, len) && word[len] == ':' ? word + len + 1 :
							       NULL;
}

int place_begin(struct place *p, struct weir_reactor *r, const char *word,
		uint64_t bytes, int side)
{
	int mode = side == 1 ? O_WRONLY : O_RDONLY;
	const char *arg;

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	if (!strcmp(word, "system"))
		return begin_memory(p, weir_domain_system(), bytes, side);
	if (!strcmp(word, "hugepage"))
		return begin_memory(p, weir_domain_hugepage(), bytes, side);
	if ((arg = after(word, "file")))
		return begin_file(p, word, arg, bytes, mode);
	if ((arg = after(word, "direct")))
		return begin_file(p, word, arg, bytes, mode | O_DIRECT);
	if ((arg = after(word, "process")))
		return begin_process(p, word, arg, bytes, side);
	if ((arg = after(word, "user")))
		return begin_user(p, word, arg, bytes);
	if (!strcmp(word, "user"))
		return begin_user(p, word, "pull,push", bytes);
	if (!strcmp(word, "remote"))
		return begin_remote(p, word, bytes, side);
	if (!strcmp(word, "device"))
		return begin_device(p, r, word, bytes, side);
	if (!strcmp(word, "dmabuf"))
		return begin_dmabuf(p, r, word, bytes, side);
	return usage_error("route: there is no place '%s'; weir route --help "
			   "lists them", word);
}

void place_end(struct place *p)
{
	if (p->buf)
		weir_buf_put(p->buf);
	weir_inventory_destroy(p->inv);
	weir_mmap_destroy(p->mmap);
	weir_dm_free(p->dm);
	if (p->device)
		weir_device_close(p->device);
	weir_domain_destroy(p->domain);
	if (p->fd >= 0)
		close(p->fd);
}
