/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The device, from its making to its end:
 *
 *	server_open()    ADD and SET_PARAMS, or START_RECOVERY, and /dev/ublkcN is opened
 *	                 (the queues begin: each tag fetches)
 *	server_start()   START or END_RECOVERY, which wait for that
 *	server_stop()    STOP: the kernel's users are gone, what it has is written, and each
 *	                 fetch ends; so it does if another process stops the device
 *	                 (each queue ends; after the last one the export is flushed)
 *	server_close()   DELETE
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <weir/crc32c.h>

#include "../common/json.h"
#include "weir-ublk.h"

/* For another process that has had the device, and for udev. */
unsigned int attempts = 200;
#define ATTEMPT_NS 50000000
#define LOCK_AT (INT64_C(1) << 62) /* Behind all bytes, and behind the locks of others. */
#define AGAIN_NS (20 * WEIR_MSEC)
#define INSIST_NS (10 * WEIR_SEC)

void say(const char *fmt, ...)
{
	va_list ap;

	flockfile(stderr);	/* Each queue is a thread. */
	fputs("weir-ublk: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	funlockfile(stderr);
}

struct server *server_new(void)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->control_fd = -1;
	s->fd = -1;
	s->block.fd = -1;
	s->block.durable_fd = -1;
	return s;
}

bool server_copies(const struct server *s)
{
	return s->info.flags & UBLK_F_USER_COPY;
}

static bool with_path(const struct server *s)
{
	return s->info.flags & UBLK_F_UNPRIVILEGED;
}

static int command(struct server *s, uint32_t code, uint32_t id, bool path, void *data,
		   size_t len)
{
	return control_do(s->control_fd, code, id, path, data, len, 0, NULL);
}

static uint8_t shift_of(uint32_t n)
{
	uint8_t shift = 0;

	while (UINT32_C(1) << shift < n)
		shift++;
	return shift;
}

static struct ublk_params params_of(const struct server *s)
{
	const struct block *b = &s->block;
	uint32_t page = 4096 > s->block_size ? 4096 : s->block_size;
	/* Memory is lost with this process, flushed or not. */
	bool has_cache = b->can & BLOCK_CAN_FLUSH && !b->base;
	struct ublk_params p = {
		.len = UBLK_PARAMS_LEN, .types = UBLK_PARAM_BASIC,
		.basic = {
			.attrs = (b->can & BLOCK_CAN_WRITE ? 0 : UBLK_READ_ONLY) |
				 (has_cache ? UBLK_VOLATILE_CACHE | UBLK_FUA : 0),
			.logical_shift = shift_of(s->block_size),
			.physical_shift = shift_of(page),
			.io_min_shift = shift_of(s->block_size),
			.io_opt_shift = shift_of(page),
			.max_sectors = s->info.io_max / SECTOR,
			.sectors = atomic_load(&s->sectors),
		},
	};

	if (b->can & (BLOCK_CAN_TRIM | BLOCK_CAN_ZERO)) {
		p.types |= UBLK_PARAM_DISCARD;
		p.discard.granularity = page;
		p.discard.max_segments = 1;
		p.discard.max_sectors = b->can & BLOCK_CAN_TRIM ? ZEROES_MAX : 0;
		p.discard.max_zeroes_sectors = b->can & BLOCK_CAN_ZERO ? ZEROES_MAX : 0;
	}
	return p;
}

/*
 * What is served, as a number: a device that was kept is given to a server of the same
 * only.  0: it is nothing that another process could have.
 */
static uint64_t identity(const struct block *b)
{
	struct { uint64_t dev, ino, rdev; } of;
	struct stat st;
	uint32_t crc;

	if (b->plugin.path) {
		crc = weir_crc32c(0, b->plugin.path, strlen(b->plugin.path) + 1);
		if (b->plugin.args)
			crc = weir_crc32c(crc, b->plugin.args, strlen(b->plugin.args));
		return UINT64_C(2) << 32 | crc;
	}
	if (!b->path || fstat(b->fd, &st))
		return 0;
	memset(&of, 0, sizeof(of));
	of.rdev = S_ISBLK(st.st_mode) ? (uint64_t)st.st_rdev : 0;
	of.dev = of.rdev ? 0 : (uint64_t)st.st_dev;
	of.ino = of.rdev ? 0 : (uint64_t)st.st_ino;
	return UINT64_C(1) << 32 | weir_crc32c(0, &of, sizeof(of));
}

/* The zombie of a process has no device open. */
static bool is_alive(int32_t pid)
{
	char path[32], state = 'Z';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	fclose(f);
	return state != 'Z' && state != 'X';
}

static void pause_for_attempt(void)
{
	const struct timespec t = { .tv_nsec = ATTEMPT_NS };

	nanosleep(&t, NULL);
}

/* Returns 0, -EAGAIN, or another errno: there are no locks there. */
static int lock_one(int fd, int which)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
			      .l_start = LOCK_AT + which, .l_len = 1 };

	if (fd < 0 || !fcntl(fd, F_OFD_SETLK, &lock))
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

/*
 * One server at a time writes to a file.  The lock is that of an open file, which what is
 * in flight holds, too: so a server that follows one that was killed begins when the
 * last write of that one has ended, and none overtakes its own.
 */
static int lock_export(struct server *s, unsigned int n)
{
	int err = 0;

	for (unsigned int i = 0; i <= n && !s->block.read_only; i++) {
		err = lock_one(s->block.fd, 0);
		if (err != -EAGAIN)
			err = lock_one(s->block.durable_fd, 1);
		if (err != -EAGAIN)
			return 0;
		pause_for_attempt();
	}
	if (err)
		say("%s: another weir-ublk serves it", block_title(&s->block));
	return err;
}

static int open_device(struct server *s)
{
	char path[PATH_LEN];
	int i;

	control_path(path, s->info.dev_id);
	for (i = 0; i < (int)attempts; i++) {
		s->fd = open(path, O_RDWR | O_CLOEXEC);
		if (s->fd >= 0)
			return 0;
		if (errno != ENOENT && errno != EACCES && errno != EBUSY)
			break;
		pause_for_attempt();
	}
	i = errno;
	say("%s: %s%s", path, strerror(i), i == EACCES ?
	    "; a udev rule has to give it to its owner" : "");
	return -i;
}

static int make(struct server *s)
{
	uint64_t own = identity(&s->block);
	struct ublk_info info = {
		.queues = (uint16_t)s->opts.queues, .depth = (uint16_t)s->opts.depth,
		.io_max = IO_MAX, .dev_id = s->opts.id,
		.flags = UBLK_F_IOCTL_ENCODE | UBLK_F_UNPRIVILEGED |
			 UBLK_F_UPDATE_SIZE, .server_flags = own,
	}, wanted;
	struct ublk_params params;
	/* Somebody waits for this; it is soon known. */
	int err = lock_export(s, attempts / 5);

	if (err)
		return err;
	if (s->opts.keep && own)
		info.flags |= UBLK_F_RECOVERY | UBLK_F_REISSUE;
	wanted = info;
	if (s->block.base)
		info.flags |= UBLK_F_USER_COPY;
	err = command(s, UBLK_ADD, s->opts.id, false, &info, sizeof(info));
	/* Only privileged users may fill in what is read so. */
	if (err == -EINVAL && s->block.base) {
		info = wanted;
		err = command(s, UBLK_ADD, s->opts.id, false, &info, sizeof(info));
	}
	if (err < 0) {
		say("make a device: %s", strerror(-err));
		return err;
	}
	s->info = info;
	s->made = true;
	/* Whoever may open it may set it up. */
	err = open_device(s);
	if (err)
		return err;
	params = params_of(s);
	err = command(s, UBLK_SET_PARAMS, info.dev_id, with_path(s), &params,
		      UBLK_PARAMS_LEN);
	if (err < 0) {
		say("set up device %u: %s", info.dev_id, strerror(-err));
		return err;
	}
	return 0;
}

/* Whether it is the device of an earlier server of the same. */
static int check_kept(struct server *s)
{
	struct ublk_params has = { .len = UBLK_PARAMS_LEN }, ours;
	int err;

	if (!s->info.server_flags || s->info.server_flags != identity(&s->block)) {
		say("device %u is of another export", s->info.dev_id);
		return -EEXIST;
	}
	err = command(s, UBLK_GET_PARAMS, s->info.dev_id, with_path(s), &has,
		      UBLK_PARAMS_LEN);
	if (err < 0) {
		say("device %u: %s", s->info.dev_id, strerror(-err));
		return err;
	}
	ours = params_of(s);
	if (has.basic.attrs != ours.basic.attrs ||
	    has.basic.logical_shift != ours.basic.logical_shift) {
		say("device %u was served with other options: ro, or direct", s->info.dev_id);
		return -EEXIST;
	}
	if (has.basic.sectors != ours.basic.sectors) {
		say("device %u has %" PRIu64 " sectors, and the export has %" PRIu64,
		    s->info.dev_id, (uint64_t)has.basic.sectors,
		    (uint64_t)ours.basic.sectors);
		return -EEXIST;
	}
	return 0;
}

/* Its server was killed: the kernel keeps what is asked of it meanwhile. */
static int recover(struct server *s)
{
	uint32_t id = s->info.dev_id;
	int err = check_kept(s);

	for (unsigned int i = 0; i < attempts && !err; i++) {
		err = command(s, UBLK_START_RECOVERY, id, with_path(s), NULL, 0);
		if (err != -EBUSY)
			break;
		/* It is being served, or its server is just ending. */
		if (s->info.state == UBLK_LIVE && is_alive(s->info.pid))
			break;
		err = 0;
		pause_for_attempt();
	}
	/* A server has been killed that had just begun to take it over. */
	if (err == -EINVAL && s->info.state == UBLK_QUIESCED)
		err = 0;
	s->recovered = err >= 0;
	s->made = s->recovered;
	if (err == -EBUSY)
		say("device %u is served by process %d", id, s->info.pid);
	else if (err == -EINVAL)
		say("device %u exists, and was not to be kept for another server", id);
	else if (err < 0 && err != -EEXIST)
		say("take over device %u: %s", id, strerror(-err));
	if (err >= 0)
		err = lock_export(s, attempts);
	return err < 0 ? err : open_device(s);
}

/* What is left of a device that the kernel has removed, as its server was killed: it has
 * its number still.  Returns whether it is gone now. */
static bool remove_rest(struct server *s, const struct ublk_info *info)
{
	char path[PATH_LEN];
	int fd;

	if (info->state != UBLK_DEAD)
		return false;
	control_path(path, info->dev_id);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;	/* It is another server's, which is just beginning. */
	close(fd);
	return command(s, UBLK_DELETE, info->dev_id, info->flags & UBLK_F_UNPRIVILEGED, NULL,
		       0) >= 0;
}

static int make_or_recover(struct server *s)
{
	struct ublk_info info = { .queues = 0 };
	int err = -ENODEV;

	if (s->opts.id != UINT32_MAX)
		err = command(s, UBLK_GET_INFO, s->opts.id, true, &info, sizeof(info));
	if (err == -ENODEV || (err >= 0 && remove_rest(s, &info)))
		return make(s);
	if (err < 0) {
		say("device %u: %s", s->opts.id, strerror(-err));
		return err;
	}
	s->info = info;
	return recover(s);
}

int server_open(struct server *s)
{
	char why[512];
	int err = block_open(&s->block);

	if (err) {
		say("%s: %s", block_title(&s->block), block_why(&s->block, err));
		return err;
	}
	s->block_size = s->block.block_min < SECTOR ? SECTOR : s->block.block_min;
	atomic_store(&s->sectors, s->block.size / s->block_size * (s->block_size / SECTOR));
	if (!atomic_load(&s->sectors)) {
		say("%s: it has less than a block of %u bytes", block_title(&s->block),
		    s->block_size);
		return -EINVAL;
	}
	if (s->block.size % s->block_size && !s->opts.quiet)
		say("%s: its last %" PRIu64 " bytes are not part of the device",
		    block_title(&s->block), s->block.size % s->block_size);
	s->control_fd = control_open(why, sizeof(why));
	if (s->control_fd < 0) {
		say("%s", why);
		return s->control_fd;
	}
	return make_or_recover(s);
}

static void print_device(const struct server *s)
{
	uint64_t size = atomic_load(&s->sectors) * SECTOR;

	if (s->opts.quiet)
		return;
	if (s->opts.json)
		printf("{\"device\":\"/dev/ublkb%u\",\"id\":%u,\"size\":%" PRIu64
		       ",\"queues\":%u,\"depth\":%u,\"recovered\":%s}\n",
		       s->info.dev_id, s->info.dev_id, size, s->info.queues,
		       s->info.depth, s->recovered ? "true" : "false");
	else
		printf("/dev/ublkb%u\n", s->info.dev_id);
	fflush(stdout);
}

/* The end: all queues are over, and the command to stop. */
static void on_synced(struct weir_op *op, int64_t res)
{
	struct server *s = weir_container_of(op, struct server, sync_op);
	int err = res < 0 ? (int)res : atomic_load(&s->block.lost);

	if (err) {
		say("%s: %s", block_title(&s->block), strerror(-err));
		s->failed = true;
	}
	weir_group_stop(s->group);
}

static void check_end(struct server *s)
{
	struct weir_reactor *r = weir_group_reactor(s->group, 0);
	int err = -EOPNOTSUPP;

	if (s->ending || s->queues_over < s->info.queues ||
	    weir_op_is_busy(&s->control.op))
		return;
	s->ending = true;
	weir_op_init(&s->sync_op, on_synced);
	if (!s->block.read_only)
		err = block_sync(&s->block, r, &s->sync_op);
	if (err)
		on_synced(&s->sync_op, err == -EOPNOTSUPP ? 0 : err);
}

static void send_stop(struct server *s);

/* The commands of a queue have reached the driver after the stop: it is to end them, too. */
static void on_again(struct weir_op *op, int64_t res)
{
	struct server *s = weir_container_of(op, struct server, again_op);

	if (res < 0 || s->queues_over == s->info.queues)
		return;
	s->stop_sent = false;
	send_stop(s);
}

static void on_stopped(struct control *c, int res)
{
	struct server *s = weir_container_of(c, struct server, control);

	s->stop_done = res >= 0;
	if (res < 0 && res != -ENODEV) {
		say("stop device %u: %s", s->info.dev_id, strerror(-res));
		s->failed = true;
		weir_group_stop(s->group);
		return;
	}
	weir_op_init(&s->again_op, on_again);
	if (s->queues_over < s->info.queues) {
		struct weir_reactor *r = weir_group_reactor(s->group, 0);

		(void)weir_sleep_until(r, &s->again_op, weir_reactor_now(r) + AGAIN_NS);
	}
	check_end(s);
}

static void send_stop(struct server *s)
{
	struct weir_reactor *r = weir_group_reactor(s->group, 0);
	int err;

	if (s->stop_sent || weir_op_is_busy(&s->control.op))
		return;	/* After what is in flight: see on_started(). */
	s->stop_sent = true;
	control_set(&s->control, s->control_fd, UBLK_STOP, s->info.dev_id, with_path(s),
		    NULL, 0, 0);
	err = control_start(&s->control, r, on_stopped);
	if (err)
		on_stopped(&s->control, err);
}

static void on_started(struct control *c, int res)
{
	struct server *s = weir_container_of(c, struct server, control);

	if (res < 0) {
		say("start device %u: %s", s->info.dev_id, strerror(-res));
		s->failed = true;
		s->stopping = true;
	} else {
		s->started = true;
		print_device(s);
	}
	if (s->stopping)
		send_stop(s);
	else
		check_end(s);
}

int server_start(struct server *s)
{
	struct weir_reactor *r = weir_group_reactor(s->group, 0);
	int err = 0;

	for (uint32_t i = 0; i < s->info.queues && !err; i++)
		err = weir_post(s->queues[i].reactor, queue_fetch, &s->queues[i]);
	control_set(&s->control, s->control_fd, s->recovered ? UBLK_END_RECOVERY : UBLK_START,
		    s->info.dev_id, with_path(s), NULL, 0, (uint64_t)getpid());
	if (!err)
		err = control_start(&s->control, r, on_started);
	if (!err)
		return 0;
	say("start device %u: %s", s->info.dev_id, strerror(-err));
	/* What the queues have fetched ends by that. */
	(void)command(s, UBLK_STOP, s->info.dev_id, with_path(s), NULL, 0);
	return err;
}

void server_queue_over(void *server)
{
	struct server *s = server;

	s->queues_over++;
	/* One whose commands were refused; the driver would wait for them. */
	if (!s->started && !s->stop_sent && weir_op_is_busy(&s->control.op))
		weir_op_cancel(&s->control.op);
	else
		check_end(s);
}

/* The first signal asks, one that follows soon insists. */
void server_stop(struct server *s)
{
	uint64_t now = weir_reactor_now(weir_group_reactor(s->group, 0));

	if (s->stopping)
		return;
	if (s->started && now > s->insist_until && device_is_in_use(s->info.dev_id)) {
		say("/dev/ublkb%u is in use, perhaps mounted; another signal within "
		    "10 seconds stops it all the same", s->info.dev_id);
		s->insist_until = now + INSIST_NS;
		return;
	}
	s->stopping = true;
	if (!s->started)
		weir_op_cancel(&s->control.op);
	send_stop(s);
}

static void on_resized(struct control *c, int res)
{
	struct server *s = weir_container_of(c, struct server, control);

	if (res < 0)
		say("the device keeps its size: %s", res == -EOPNOTSUPP || res == -EINVAL ?
		    "that takes Linux 6.16" : strerror(-res));
	if (s->stopping)
		send_stop(s);
	else
		check_end(s);
}

void server_resize(struct server *s)
{
	struct weir_reactor *r = weir_group_reactor(s->group, 0);
	uint64_t was = atomic_load(&s->sectors);
	int res = block_measure(&s->block), err = 0;

	if (res < 0)
		say("%s: %s", block_title(&s->block), strerror(-res));
	if (res <= 0 || !s->started || weir_op_is_busy(&s->control.op))
		return;
	atomic_store(&s->sectors, s->block.size / s->block_size * (s->block_size / SECTOR));
	if (atomic_load(&s->sectors) == was)
		return;
	control_set(&s->control, s->control_fd, UBLK_UPDATE_SIZE, s->info.dev_id,
		    with_path(s), NULL, 0, atomic_load(&s->sectors));
	err = control_start(&s->control, r, on_resized);
	if (err)
		say("the device keeps its size: %s", strerror(-err));
}

/* A device that another process stops is that one's to delete: once it is closed, its
 * number may be another's. */
void server_close(struct server *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	if (s->stop_done || (s->made && !s->started && !s->recovered))
		(void)command(s, UBLK_DELETE, s->info.dev_id, with_path(s), NULL, 0);
	if (s->control_fd >= 0)
		close(s->control_fd);
	block_close(&s->block);
}

void server_free(struct server *s)
{
	if (s)
		free(s->queues);
	free(s);
}
