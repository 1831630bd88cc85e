/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider: which namespaces there are, and what they say of themselves. */

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <weir/domain-user.h>

#include "nvme/nvme.h"

#define PATH_LEN 256
#define IDENTIFY_LEN 4096
#define BLOCKS_MAX 65536	/* Of a command. */
#define UNKNOWN_TRANSFER 0x10000u /* If neither sysfs nor the device limits it. */

static struct weir_provider *provider;

/* Those whose domain is in use after their last close. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct card *kept;

/* Which files there are. */

/* Calls @fn for each, until it returns another value than 0, which is returned. */
static int for_each_path(int (*fn)(const char *path, void *arg), void *arg)
{
	const char *at = getenv("WEIR_NVME_DEVICES"), *end;
	char path[PATH_LEN];
	unsigned int x, y;
	struct dirent *e;
	int err = 0, n;
	DIR *dir;

	if (at && *at) {
		for (; !err && *at; at = *end ? end + 1 : end) {
			end = strchrnul(at, ':');
			n = snprintf(path, sizeof(path), "%.*s",
				     (int)(end - at), at);
			if (n > 0 && n < PATH_LEN)
				err = fn(path, arg);
		}
		return err;
	}
	dir = weir_fault("opendir") ? NULL : opendir("/dev");
	if (!dir)
		return 0;
	while (!err && (e = readdir(dir))) {
		n = 0;
		if (sscanf(e->d_name, "ng%un%u%n", &x, &y, &n) != 2 ||
		    e->d_name[n])
			continue;
		snprintf(path, sizeof(path), "/dev/ng%un%u", x, y);
		err = fn(path, arg);
	}
	closedir(dir);
	return err;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* What a file of sysfs says of the block device of ng@xn@y; 0: nothing. */
static uint64_t sysfs(const char *name, const char *what)
{
	unsigned long long value = 0;
	char path[PATH_LEN];
	unsigned int x, y;
	FILE *f;

	if (sscanf(name, "ng%un%u", &x, &y) != 2)
		return 0;
	snprintf(path, sizeof(path), "/sys/block/nvme%un%u/queue/%s", x, y, what);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu", &value) != 1)
		value = 0;
	fclose(f);
	return value;
}

/* Identify. */

static uint16_t le16_at(const uint8_t *at)
{
	uint16_t n;

	memcpy(&n, at, sizeof(n));
	return le16toh(n);
}

static uint32_t le32_at(const uint8_t *at)
{
	uint32_t n;

	memcpy(&n, at, sizeof(n));
	return le32toh(n);
}

static uint64_t le64_at(const uint8_t *at)
{
	uint64_t n;

	memcpy(&n, at, sizeof(n));
	return le64toh(n);
}

/* Text that is padded with blanks. */
static void text_at(char *to, const uint8_t *at, size_t len)
{
	while (len && (at[len - 1] == ' ' || !at[len - 1]))
		len--;
	memcpy(to, at, len);
	to[len] = 0;
}

static int identify(int fd, uint32_t nsid, uint32_t what, uint8_t *page)
{
	struct nvme_passthru_cmd cmd = {
		.opcode = NVME_IDENTIFY, .nsid = nsid, .cdw10 = what,
		.addr = (uintptr_t)page, .data_len = IDENTIFY_LEN,
	};
	int res = ioctl(fd, NVME_IOCTL_ADMIN_CMD, &cmd);

	return res < 0 ? -errno : nvme_errno(res);
}

static void take_controller(struct weir_nvme_info *info, const uint8_t *page,
			    uint64_t *mdts)
{
	uint16_t oncs = le16_at(page + 520);

	text_at(info->serial, page + 4, 20);
	text_at(info->model, page + 24, 40);
	text_at(info->firmware, page + 64, 8);
	/* In pages of the controller, which have 4 KiB at least. */
	*mdts = page[77] && page[77] < 20 ? UINT64_C(4096) << page[77] : 0;
	info->flags |= page[525] & 1 ? WEIR_NVME_CACHE : 0;
	info->flags |= oncs & 1 ? WEIR_NVME_COMPARE : 0;
	info->flags |= oncs & 4 ? WEIR_NVME_DSM : 0;
	info->flags |= oncs & 8 ? WEIR_NVME_WRITE_ZEROES : 0;
	info->flags |= oncs & 0x100 ? WEIR_NVME_COPY : 0;
}

/* Type 3 has no reference tag that could be checked. */
static uint32_t control_of(int type)
{
	if (!type)
		return 0;
	return NVME_PRACT | NVME_PRCHK_GUARD | (type == 3 ? 0 : NVME_PRCHK_REF);
}

/* Returns NULL, or why it cannot be used. */
static const char *take_namespace(struct weir_nvme_info *info,
				  const uint8_t *page, uint32_t *control)
{
	uint32_t format = (page[26] & 15) | (page[26] & 0x60) >> 1;
	const uint8_t *lbaf = page + 128 + 4 * format;
	uint64_t copy = le16_at(page + 74);

	if (lbaf[2] < 9 || lbaf[2] > 16)
		return "its blocks have a size that is not known";
	info->blocks = le64_at(page);
	if (!info->blocks || info->blocks > UINT64_MAX >> lbaf[2])
		return "it is not active";
	info->block_size = 1u << lbaf[2];
	info->metadata_size = le16_at(lbaf);
	*control = control_of(page[29] & 7);
	info->flags |= *control ? WEIR_NVME_PI : 0;
	info->flags |= page[99] & 1 ? WEIR_NVME_READ_ONLY : 0;
	if (!(info->flags & WEIR_NVME_COPY))
		return NULL;
	if (le32_at(page + 76) < copy)
		copy = le32_at(page + 76);
	/* Copied protection information would have the tags of other blocks. */
	if (!*control)
		info->max_copy = (uint32_t)copy << lbaf[2];
	if (!copy)
		info->flags &= ~WEIR_NVME_COPY;
	return NULL;
}

/*
 * What the device, the kernel and a job put into one command: a buffer at any address
 * takes a segment for each of its pages, and one more.
 */
static void set_transfer(struct weir_nvme_info *info, const char *name,
			 uint64_t mdts)
{
	uint64_t kib = sysfs(name, "max_hw_sectors_kb");
	uint64_t segments = sysfs(name, "max_segments");
	uint64_t max = TRANSFER_MAX;

	if (!kib && !mdts)
		max = UNKNOWN_TRANSFER;
	if (mdts && mdts < max)
		max = mdts;
	if (kib && kib << 10 < max)
		max = kib << 10;
	if (segments > 1 && (segments - 1) * 4096 < max)
		max = (segments - 1) * 4096;
	if (max / info->block_size > BLOCKS_MAX)
		max = (uint64_t)BLOCKS_MAX * info->block_size;
	max -= max % info->block_size;
	info->max_transfer = (uint32_t)(max ? max : info->block_size);
}

/* Fills @info from @fd.  Returns 0, or an errno with *@why. */
static int read_info(int fd, const char *name, struct weir_nvme_info *info,
		     uint32_t *control, const char **why)
{
	uint8_t *page = weir_fault("malloc") ? NULL :
			aligned_alloc(4096, IDENTIFY_LEN);
	uint64_t mdts = 0;
	int err, nsid = ioctl(fd, NVME_IOCTL_ID);

	*why = nsid < 0 ? "it is no NVMe namespace" : NULL;
	err = nsid < 0 ? -ENODEV : page ? 0 : -ENOMEM;
	if (!err) {
		info->nsid = (uint32_t)nsid;
		memset(page, 0, IDENTIFY_LEN);
		err = identify(fd, 0, 1, page);
	}
	if (!err) {
		take_controller(info, page, &mdts);
		memset(page, 0, IDENTIFY_LEN);
		err = identify(fd, info->nsid, 0, page);
	}
	if (err == -EACCES || err == -EPERM)
		*why = "the kernel does not let this process identify it: it takes "
		       "CAP_SYS_ADMIN before Linux 6.2";
	else if (err && !*why)
		*why = strerrordesc_np(-err);
	if (!err) {
		*why = take_namespace(info, page, control);
		err = *why ? -EOPNOTSUPP : 0;
	}
	if (!err)
		set_transfer(info, name, mdts);
	free(page);
	return err;
}

/* Opens @path, for reading only if it must be. */
static int open_path(const char *path, struct weir_nvme_info *info)
{
	int fd = weir_fault("open") ? -1 : open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			info->flags |= WEIR_NVME_READ_ONLY;
	}
	return fd < 0 ? -errno : fd;
}

/* Devices. */

static void set_caps(struct weir_device_caps *caps,
		     const struct weir_nvme_info *info)
{
	caps->flags = WEIR_DEVICE_USABLE;
	caps->dm_size = info->blocks * info->block_size;
	caps->align = info->block_size;
	caps->domains = WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) |
			WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE);
	caps->jobs = WEIR_DEVICE_BIT(WEIR_JOB_COPY) |
		     WEIR_DEVICE_BIT(WEIR_JOB_PULL) |
		     WEIR_DEVICE_BIT(WEIR_JOB_PUSH) |
		     WEIR_DEVICE_BIT(WEIR_JOB_FILL);
}

static int list_one(const char *path, void *list)
{
	struct weir_device_caps caps = {
		.size = sizeof(caps), .kind = WEIR_DEVICE_NVME,
		.numa_node = -1, .align = 1, .address_bits = 64,
		.max_segments = WEIR_JOB_PIECES_MAX,
	};
	struct weir_nvme_info info = { .size = sizeof(info) };
	const char *why = NULL;
	uint32_t control;
	int err, fd = open_path(path, &info);

	snprintf(caps.name, sizeof(caps.name), "%s", name_of(path));
	if (fd < 0) {
		snprintf(caps.why, sizeof(caps.why), "%.160s: %s%s", path,
			 strerrordesc_np(-fd), fd == -EACCES ? ": have its "
			 "owner or root give you access" : "");
	} else {
		if (read_info(fd, caps.name, &info, &control, &why))
			snprintf(caps.why, sizeof(caps.why), "%.100s: %s", path,
				 why);
		else
			set_caps(&caps, &info);
		close(fd);
	}
	err = weir_provider_list_add(list, &caps);
	return err == -EEXIST ? 0 : err;
}

static int list_devices(void *arg, struct weir_provider_list *list)
{
	(void)arg;
	return for_each_path(list_one, list);
}

static int make_domain(struct card *card)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_NVME,
		.id = card->name, .ctx = card, .place = card,
		.len = card->info.blocks * card->info.block_size,
	};

	if (card->info.metadata_size && !(card->info.flags & WEIR_NVME_PI &&
					  card->info.metadata_size == 8))
		return 0;
	if (card->info.flags & WEIR_NVME_READ_ONLY)
		opts.flags = WEIR_DOMAIN_READ_ONLY;
	return weir_domain_create(&card->domain, &opts);
}

/* Opens the one that is called so.  Returns 1 when it is found. */
static int open_one(const char *path, void *arg)
{
	struct card *card = arg;
	const char *name = name_of(path);

	if (strcmp(name, card->name))
		return 0;
	card->fd = open_path(path, &card->info);
	return 1;
}

static int open_card(struct card *card)
{
	static const char call[] = "weir_device_open";
	const char *why;
	int err;

	card->fd = -ENODEV;
	for_each_path(open_one, card);
	if (card->fd < 0)
		return weir_why_set(card->fd, "%s: %s: %s", call, card->name,
				    strerrordesc_np(-card->fd));
	err = read_info(card->fd, card->name, &card->info, &card->control,
			&why);
	if (err)
		return weir_why_set(err, "%s: %s: %s", call, card->name, why);
	return make_domain(card);
}

static int open_device(void *arg, struct weir_device *dev, void **ret)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct card *card = weir_fault("malloc") ? NULL :
			    calloc(1, sizeof(*card));
	int err;

	(void)arg;
	if (!card)
		return -ENOMEM;
	weir_devinfo_caps(weir_device_info(dev), &caps);
	strcpy(card->name, caps.name);
	card->info.size = sizeof(card->info);
	atomic_init(&card->refs, 1);
	err = open_card(card);
	if (err) {
		if (card->fd >= 0)
			close(card->fd);
		free(card);
		return err;
	}
	*ret = card;
	return 0;
}

/* Frees those of @kept whose domain nothing uses any more. */
static void retry(void)
{
	struct card **at = &kept, *card;

	while ((card = *at)) {
		if (card->domain && weir_domain_destroy(card->domain)) {
			at = &card->next;
			continue;
		}
		*at = card->next;
		free(card);
	}
}

/* One of @kept stays closed, although its domain may be used for a start yet. */
bool card_ref(struct card *card)
{
	int n = atomic_load(&card->refs);

	while (n && !atomic_compare_exchange_weak(&card->refs, &n, n + 1))
		;
	return n;
}

void card_unref(struct card *card)
{
	if (atomic_fetch_sub(&card->refs, 1) > 1)
		return;
	close(card->fd);
	pthread_mutex_lock(&lock);
	card->next = kept;
	kept = card;
	retry();
	pthread_mutex_unlock(&lock);
}

static void close_device(void *card)
{
	card_unref(card);
}

static const struct weir_provider_ops ops = {
	.size = sizeof(ops), .name = "nvme", .list = list_devices,
	.open = open_device, .close = close_device,
	.engine = &nvme_engine_ops, .engine_open = nvme_engine_open,
	.engine_close = nvme_engine_close,
};

static void register_provider(void)
{
	weir_provider_register(&provider, &ops, NULL);
}

__attribute__((constructor)) void weir_nvme_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_provider);
}

/* Public calls. */

struct card *card_of(const struct weir_device *dev)
{
	return provider && dev ? weir_provider_card(provider, dev) : NULL;
}

int weir_nvme_info(const struct weir_device *dev, struct weir_nvme_info *ret)
{
	struct card *card = card_of(dev);
	size_t size;

	if (!card || !ret || ret->size < sizeof(ret->size))
		return weir_why_set(-EINVAL, "weir_nvme_info: the device is not one "
				    "of libweir-nvme, or .size of the answer is "
				    "not set");
	size = ret->size;
	memcpy(ret, &card->info, size < sizeof(*ret) ? size : sizeof(*ret));
	ret->size = size;
	return 0;
}

struct weir_domain *weir_nvme_domain(const struct weir_device *dev)
{
	struct card *card = card_of(dev);

	if (!card)
		weir_why_set(-EINVAL, "weir_nvme_domain: the device is not one of "
			     "libweir-nvme");
	else if (!card->domain)
		weir_why_set(-EOPNOTSUPP, "weir_nvme_domain: the blocks of %s have "
			     "%u bytes of metadata, which jobs do not have: use "
			     "weir_nvme_submit()", card->name,
			     card->info.metadata_size);
	return card ? card->domain : NULL;
}
