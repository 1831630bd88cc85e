/* SPDX-License-Identifier: BSD-3-Clause */
/* Aimed faults: which call is one's aim, and what happens to it. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <weir/sim/aim.h>

#include "base/opts.h"
#include "base/why.h"
#include "sim/file.h"
#include "sim/socket.h"

#define STREAM 201		/* Of draws. */

struct sim_aim {
	struct sim_aim *next;
	enum weir_sim_at at;
	enum weir_sim_aim_what what;
	uint64_t nth, seen;	/* 0: at each call. */
	int error;
	char *peer;		/* NULL: any. */
	char *name;
};

struct aims {
	struct sim_part part;
	struct sim_rng rng;
	struct sim_aim *first;
};

static const char *const whats[WEIR_SIM_AIMS] = {
	[WEIR_SIM_AIM_ERROR] = "error",
	[WEIR_SIM_AIM_STUCK] = "stuck",
	[WEIR_SIM_AIM_KILL] = "kill",
	[WEIR_SIM_AIM_POWER] = "power",
	[WEIR_SIM_AIM_RESET] = "reset",
	[WEIR_SIM_AIM_LOST] = "lost",
	[WEIR_SIM_AIM_MISDIRECTED] = "misdirected",
	[WEIR_SIM_AIM_ROTTEN] = "rotten",
};

/* Whether @what can happen to such a call. */
static bool goes_with(enum weir_sim_aim_what what, enum weir_sim_at at)
{
	switch (what) {
	case WEIR_SIM_AIM_RESET:
		return at == WEIR_SIM_AT_SEND || at == WEIR_SIM_AT_RECEIVE;
	case WEIR_SIM_AIM_LOST:
		return at == WEIR_SIM_AT_SYNC || at == WEIR_SIM_AT_WRITE;
	case WEIR_SIM_AIM_MISDIRECTED:
	case WEIR_SIM_AIM_ROTTEN:
		return at == WEIR_SIM_AT_WRITE;
	default:
		return (unsigned int)what < WEIR_SIM_AIMS;
	}
}

static int copy(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

static void aim_free(struct sim_aim *aim)
{
	free(aim->name);
	free(aim->peer);
	free(aim);
}

static void destroy(struct sim_part *part)
{
	struct aims *aims = weir_container_of(part, struct aims, part);
	struct sim_aim *aim;

	while ((aim = aims->first)) {
		aims->first = aim->next;
		aim_free(aim);
	}
	free(aims);
}

static enum sim_aimed aimed(struct weir_sim *sim, struct weir_op *op,
			    struct sim_fd *f, int64_t *res,
			    struct sim_aim **ret);
static void spoil(struct weir_sim *sim, struct sim_aim *aim,
		  struct weir_op *op, struct sim_fd *f, int64_t res);

/* Those of @sim, made by the first call; NULL: no memory. */
static struct aims *aims_of(struct weir_sim *sim)
{
	struct sim_part *part = sim_part(sim, "aims");
	struct aims *aims;

	if (part)
		return weir_container_of(part, struct aims, part);
	aims = calloc(1, sizeof(*aims));
	if (!aims)
		return NULL;
	aims->part.name = "aims";
	aims->part.destroy = destroy;
	sim_rng_init(&aims->rng, sim->seed, STREAM);
	sim_part_add(sim, &aims->part);
	sim->aimed = aimed;
	sim->spoil = spoil;
	return aims;
}

int weir_sim_aim(struct weir_sim *sim, const struct weir_sim_aim *user)
{
	struct sim_aim *aim, **at;
	struct weir_sim_aim opts;
	struct aims *aims;
	int err = opts_load(&opts, sizeof(opts), user, "weir_sim_aim");

	if (err)
		return err;
	if ((unsigned int)opts.at >= WEIR_SIM_ATS ||
	    !goes_with(opts.what, opts.at) || opts.error > 0)
		return why(-EINVAL, "weir_sim_aim: .at or .what is unknown, "
			   "they do not go together, or .error is positive");
	aims = aims_of(sim);
	aim = aims ? calloc(1, sizeof(*aim)) : NULL;
	if (!aim || copy(&aim->name, opts.name) ||
	    copy(&aim->peer, opts.peer)) {
		if (aim)
			aim_free(aim);
		return why(-ENOMEM, "weir_sim_aim: no memory");
	}
	aim->at = opts.at;
	aim->what = opts.what;
	aim->nth = opts.nth;
	aim->error = opts.error ? opts.error : -EIO;
	for (at = &aims->first; *at; at = &(*at)->next)
		;
	*at = aim;
	return 0;
}
static bool matches(const char *pattern, const char *name)
{
	size_t len = pattern ? strlen(pattern) : 0;

	if (!pattern || !strcmp(pattern, name))
		return true;
	if (len && (pattern[len - 1] == '/' || pattern[len - 1] == ':'))
		return !strncmp(pattern, name, len);
	return !strncmp(pattern, name, len) && len == strcspn(name, "/:");
}

/* A call, as aims see it. */
struct call {
	enum weir_sim_at at;
	const char *name, *other;	/* Of a rename: both names. */
	const char *peer;
};

static bool file_call(struct call *ret, const struct weir_op *op,
		      struct file *file)
{
	switch (op->kind) {
	case IO_READ: case IO_READV:
		ret->at = WEIR_SIM_AT_READ;
		break;
	case IO_WRITE: case IO_WRITEV:
		ret->at = WEIR_SIM_AT_WRITE;
		break;
	case IO_FSYNC:
		ret->at = WEIR_SIM_AT_SYNC;
		break;
	default:
		return false;
	}
	ret->name = file->inode && file->inode->kind != INODE_DIR ?
			    file->inode->name->path : file->dir;
	return true;
}

static bool socket_call(struct call *ret, const struct weir_op *op,
			struct end *e)
{
	switch (op->kind) {
	case IO_CONNECT:
		ret->at = WEIR_SIM_AT_CONNECT;
		break;
	case IO_SEND: case IO_SENDV: case IO_SENDMSG:
	case IO_WRITE: case IO_WRITEV:
		ret->at = WEIR_SIM_AT_SEND;
		break;
	case IO_RECV: case IO_RECVMSG: case IO_READ: case IO_READV:
		ret->at = WEIR_SIM_AT_RECEIVE;
		break;
	default:
		return false;
	}
	ret->name = e->name;
	ret->peer = e->conn ? e->conn->name[!e->side] : e->to;
	return true;
}

static bool path_call(struct call *ret, const struct weir_op *op,
		      const char *name, const char *to)
{
	switch (op->kind) {
	case IO_OPEN:
		ret->at = WEIR_SIM_AT_OPEN;
		break;
	case IO_RENAME:
		ret->at = WEIR_SIM_AT_RENAME;
		ret->other = to;
		break;
	case IO_UNLINK:
		ret->at = WEIR_SIM_AT_UNLINK;
		break;
	default:
		return false;
	}
	ret->name = name;
	return true;
}

/* The aim that @call hits; each that it matches counts it. */
static struct sim_aim *find(struct aims *aims, const struct call *call)
{
	struct sim_aim *aim, *found = NULL;

	for (aim = aims->first; aim; aim = aim->next) {
		if (aim->at != call->at || !matches(aim->peer, call->peer) ||
		    !(matches(aim->name, call->name) ||
		      (call->other && matches(aim->name, call->other))))
			continue;
		aim->seen++;
		if (!found && (!aim->nth || aim->seen == aim->nth))
			found = aim;
	}
	return found;
}

/* What the call is; false: no aim can be taken at it. */
static bool describe(struct call *ret, struct weir_sim *sim,
		     const struct weir_op *op, struct sim_fd *f, char *name,
		     char *to)
{
	*ret = (struct call){ .name = "", .peer = "" };
	if (!f)
		return sim_names_path(op) &&
		       !sim_path_names(sim, op, name, to) &&
		       path_call(ret, op, name, to);
	if (file_of(f))
		return file_call(ret, op, file_of(f));
	if (f->cls == &socket_class)
		return socket_call(ret, op, end_of(f));
	if (op->kind != IO_ACCEPT || !f->cls->accept)
		return false;
	ret->at = WEIR_SIM_AT_ACCEPT;
	ret->name = weir_container_of(f, struct listener, f)->name;
	return true;
}

/* The host of the program that makes the call goes down. */
static enum sim_aimed end_host(struct weir_sim *sim, bool off)
{
	if (!sim->here)
		return AIMED_NOT;
	if (off)
		weir_sim_host_power_off(sim->here);
	else
		weir_sim_host_kill(sim->here);
	return AIMED_STUCK;
}

/* The call goes on, and sees the reset. */
static enum sim_aimed reset(struct end *e)
{
	if (e->conn && e->state == END_UP)
		conn_reset(e->conn, e->side, -ECONNRESET);
	return AIMED_NOT;
}

static enum sim_aimed aimed(struct weir_sim *sim, struct weir_op *op,
			    struct sim_fd *f, int64_t *res,
			    struct sim_aim **ret)
{
	char name[PATH_BYTES], to[PATH_BYTES];
	struct call call;
	struct sim_aim *aim;

	if (sim->healed || (f && (f->dead || f->fd < 0)) ||
	    !describe(&call, sim, op, f, name, to))
		return AIMED_NOT;
	aim = find(aims_of(sim), &call);
	if (!aim)
		return AIMED_NOT;
	*ret = aim;
	sim_trace(sim, "aimed fault: %s: %s of '%s'", whats[aim->what],
		  sim_io_name(op), call.name);
	sim_mix(sim, aim->what);
	switch (aim->what) {
	case WEIR_SIM_AIM_ERROR:
		*res = aim->error;
		return AIMED_FAILS;
	case WEIR_SIM_AIM_KILL:
	case WEIR_SIM_AIM_POWER:
		return end_host(sim, aim->what == WEIR_SIM_AIM_POWER);
	case WEIR_SIM_AIM_RESET:
		return reset(end_of(f));
	case WEIR_SIM_AIM_STUCK:
		return AIMED_STUCK;
	default:
		return op->kind == IO_FSYNC ? AIMED_DONE : AIMED_SPOILT;
	}
}

/* Sector @s of @c is on the medium at @off of the file, in all its states. */
static void misdirect(struct inode *i, const struct chunk *c, uint32_t s,
		      uint64_t off)
{
	struct chunk *to = inode_need(i, off / CHUNK);
	uint32_t at = (uint32_t)(off % CHUNK);
	const unsigned char *data = c->now + s * SECTOR;

	if (!to || (to == c && at == s * SECTOR))
		return;
	memcpy(to->now + at, data, SECTOR);
	if (to->old)
		memcpy(to->old + at, data, SECTOR);
	if (to->mid)
		memcpy(to->mid + at, data, SECTOR);
}

/* The disk lies about the bytes that were just written there: no sync will write
 * their sectors.  With @elsewhere they are on other sectors of the file, drawn
 * from it, instead. */
static void lose(struct inode *i, uint64_t off, uint64_t len,
		 struct sim_rng *elsewhere)
{
	uint64_t sectors = (i->size + SECTOR - 1) / SECTOR, at;
	struct chunk *c;
	uint32_t s;

	for (at = off / SECTOR; at * SECTOR < off + len; at++) {
		c = inode_chunk(i, at / SECTORS);
		s = (uint32_t)(at % SECTORS);
		if (!c)
			continue;
		if (elsewhere && sectors)
			misdirect(i, c, s, sim_below(elsewhere, sectors) *
					   SECTOR);
		if (!(c->dirty >> s & 1))
			continue;	/* Written by O_DSYNC: durable. */
		c->dirty &= (uint8_t)~(1u << s);
		c->lost |= (uint8_t)(1u << s);
	}
}

static void spoil(struct weir_sim *sim, struct sim_aim *aim,
		  struct weir_op *op, struct sim_fd *f, int64_t res)
{
	struct sim_rng *rng = &aims_of(sim)->rng;
	struct inode *i = file_of(f)->inode;
	struct io_step step;
	uint64_t off;

	if (res <= 0)
		return;
	io_step_next(op, &step);
	off = step.off == WEIR_OFF_STREAM ? file_of(f)->pos - (uint64_t)res :
	      f->flags & O_APPEND ? i->size - (uint64_t)res : step.off;
	if (aim->what == WEIR_SIM_AIM_ROTTEN)
		inode_flip(i, off + sim_below(rng, (uint64_t)res),
			   (unsigned char)(1u << sim_below(rng, 8)));
	else
		lose(i, off, (uint64_t)res,
		     aim->what == WEIR_SIM_AIM_LOST ? NULL : rng);
}
