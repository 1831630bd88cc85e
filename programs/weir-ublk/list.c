/* SPDX-License-Identifier: CC0-1.0 */
/* What devices there are, and their end at the hands of another process. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/number.h"
#include "weir-ublk.h"

bool device_is_in_use(uint32_t dev_id)
{
	char path[PATH_LEN];
	int fd;

	snprintf(path, sizeof(path), "%s/ublkb%u", device_dir, dev_id);
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == EBUSY;
	close(fd);
	return false;
}

static int get_info(int fd, uint32_t id, struct ublk_info *ret)
{
	return control_do(fd, UBLK_GET_INFO, id, true, ret, sizeof(*ret), 0, NULL);
}

static uint64_t sectors_of(int fd, const struct ublk_info *info)
{
	struct ublk_params p = { .len = UBLK_PARAMS_LEN };
	int err = control_do(fd, UBLK_GET_PARAMS, info->dev_id,
			     info->flags & UBLK_F_UNPRIVILEGED, &p, UBLK_PARAMS_LEN, 0, NULL);

	return err < 0 ? 0 : p.basic.sectors;
}

static void print_one(int fd, const struct ublk_info *i, bool json)
{
	static const char *const states[] = { "dead", "live", "waiting", "failing" };
	const char *state = i->state < 4 ? states[i->state] : "?";
	uint64_t size = sectors_of(fd, i) * SECTOR;

	if (json)
		printf("{\"device\":\"/dev/ublkb%u\",\"id\":%u,\"size\":%" PRIu64
		       ",\"queues\":%u,\"depth\":%u,\"state\":\"%s\",\"pid\":%d}\n",
		       i->dev_id, i->dev_id, size, i->queues, i->depth, state, i->pid);
	else
		printf("/dev/ublkb%-6u %-8s %15" PRIu64 " %3u x %-4u %d\n", i->dev_id, state,
		       size, i->queues, i->depth, i->pid);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The numbers of all devices.  Returns how many, or an errno. */
static int find(uint32_t **ret)
{
	DIR *dir = opendir(device_dir);
	uint32_t *ids = NULL, *more;
	struct dirent *d;
	uint64_t id;
	int n = 0;

	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		if (strncmp(d->d_name, "ublkc", 5) ||
		    number_parse(d->d_name + 5, 0, DEVICES_MAX - 1, &id))
			continue;
		more = realloc(ids, (size_t)(n + 1) * sizeof(*ids));
		if (!more) {
			free(ids);
			closedir(dir);
			return -ENOMEM;
		}
		ids = more;
		ids[n++] = (uint32_t)id;
	}
	closedir(dir);
	if (n)
		qsort(ids, (size_t)n, sizeof(*ids), compare);
	*ret = ids;
	return n;
}

static int open_or_say(void)
{
	char why[512];
	int fd = control_open(why, sizeof(why));

	if (fd < 0)
		say("%s", why);
	return fd;
}

int list_devices(bool json)
{
	struct ublk_info info;
	uint32_t *ids = NULL;
	int fd = open_or_say(), n, err;

	if (fd < 0)
		return EXIT_SETUP;
	n = find(&ids);
	if (n < 0) {
		say("%s: %s", device_dir, strerror(-n));
		close(fd);
		return EXIT_FAILED;
	}
	if (n && !json)
		printf("%-16s %-8s %15s %-10s %s\n", "DEVICE", "STATE", "SIZE", "QUEUES",
		       "PID");
	for (int i = 0; i < n; i++) {
		memset(&info, 0, sizeof(info));
		err = get_info(fd, ids[i], &info);
		if (err >= 0)
			print_one(fd, &info, json);
		else if (err != -ENODEV && err != -EPERM && err != -EACCES)
			say("device %u: %s", ids[i], strerror(-err));
	}
	free(ids);
	close(fd);
	return EXIT_OK;
}

static int do_one(int fd, uint32_t code, const struct ublk_info *info)
{
	return control_do(fd, code, info->dev_id, info->flags & UBLK_F_UNPRIVILEGED, NULL, 0,
			  0, NULL);
}

int stop_device(uint32_t dev_id, bool force)
{
	struct ublk_info info = { .queues = 0 };
	int fd = open_or_say(), err;

	if (fd < 0)
		return EXIT_SETUP;
	err = get_info(fd, dev_id, &info);
	if (err >= 0 && !force && device_is_in_use(dev_id)) {
		say("/dev/ublkb%u is in use, perhaps mounted; --force stops it all the same",
		    dev_id);
		close(fd);
		return EXIT_FAILED;
	}
	if (err >= 0)
		err = do_one(fd, UBLK_STOP, &info);
	/* Its server closes it, and this waits for that. */
	if (err >= 0)
		err = do_one(fd, UBLK_DELETE, &info);
	close(fd);
	if (err >= 0)
		return EXIT_OK;
	if (err == -ENODEV)
		say("there is no device %u", dev_id);
	else
		say("stop device %u: %s", dev_id, strerror(-err));
	return EXIT_FAILED;
}
