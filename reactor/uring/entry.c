/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submission entries that the caller fills in: <weir/uring.h>.
 *
 * The entry is made on the stack, because the function of the user's that fills
 * it may start other operations, and these would push out an entry of the queue
 * that is half done.  The operation keeps it until there is capacity: 64 bytes
 * in its parameters, and those beyond in .backend.  After the end the
 * first words hold the rest of a completion of 32 bytes.
 *
 * Its completion has a tag of its own, so that other operations do not pay for
 * what is different here.
 */

#include <errno.h>
#include <string.h>

#include <weir/uring.h>

#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/uring/uring.h"

#define ENTRY_LEN 64
#define ENTRY_WORDS (ENTRY_LEN / sizeof(uint64_t))

_Static_assert(sizeof(((struct weir_op *)0)->u) == ENTRY_LEN &&
	       sizeof(((struct weir_op *)0)->backend) == ENTRY_LEN &&
	       sizeof(struct io_uring_sqe) == ENTRY_LEN,
	       "an operation has to hold an entry");

/* An entry of 128 bytes; the rest is beyond those of the usual size. */
union entry {
	struct io_uring_sqe sqe;
	uint64_t words[2 * ENTRY_WORDS];
};

/* Newer than the headers that this may be compiled with; the numbers are the
 * kernel's. */
enum {
	OP_READ_MULTISHOT = 49,	/* Linux 6.7 */
	OP_RECV_ZC = 58,	/* 6.15 */
	OP_PIPE = 62,		/* 6.16 */
};

#define TIMEOUT_MULTISHOT (1u << 6)	/* 6.4 */
#define CMD_MULTISHOT (1u << 1)		/* 6.18 */

static uint64_t data_of(const struct weir_op *op)
{
	return (uintptr_t)op | TAG_ENTRY;
}

static bool is_multishot(const struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_POLL_ADD:
		return sqe->len;
	case IORING_OP_ACCEPT:
		return sqe->ioprio & IORING_ACCEPT_MULTISHOT;
	case IORING_OP_RECV:
	case IORING_OP_RECVMSG:
		return sqe->ioprio & IORING_RECV_MULTISHOT;
	case IORING_OP_TIMEOUT:
		return sqe->timeout_flags & TIMEOUT_MULTISHOT;
	case IORING_OP_URING_CMD:
		return sqe->uring_cmd_flags & CMD_MULTISHOT;
	case OP_READ_MULTISHOT:
	case OP_RECV_ZC:
		return true;
	default:
		return false;
	}
}

/* Whether it would change the table of registered files, which is ours. */
static bool takes_file_slot(const struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_FILES_UPDATE:
		return true;
	case IORING_OP_ACCEPT:
	case IORING_OP_CLOSE:
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
	case IORING_OP_SOCKET:
	case OP_PIPE:
		return sqe->file_index;
	default:
		return false;
	}
}

/* Whether it concerns requests or buffers that are ours. */
static bool is_ours(const struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_ASYNC_CANCEL:
	case IORING_OP_LINK_TIMEOUT:
	case IORING_OP_POLL_REMOVE:
	case IORING_OP_PROVIDE_BUFFERS:
	case IORING_OP_REMOVE_BUFFERS:
	case IORING_OP_TIMEOUT_REMOVE:
		return true;
	default:
		return false;
	}
}

static bool is_long(const union entry *e)
{
	for (size_t i = ENTRY_WORDS; i < 2 * ENTRY_WORDS; i++)
		if (e->words[i])
			return true;
	return false;
}

/* One entry has one end, which is the operation's, and nothing of the library's
 * changes without its knowledge. */
static int check_entry(const struct uring *u, const union entry *e)
{
	const struct io_uring_sqe *sqe = &e->sqe;

	if (sqe->flags & ~(IOSQE_FIXED_FILE | IOSQE_ASYNC))
		return why_static(-EINVAL, "weir_uring_submit: .flags of the "
				  "SQE may be IOSQE_FIXED_FILE and IOSQE_ASYNC; "
				  "use a chain for links, and a fence for a "
				  "drain");
	if (is_multishot(sqe))
		return why_static(-EINVAL, "weir_uring_submit: the SQE asks for "
				  "a multishot request; use a watch, an "
				  "acceptor or a receiver");
	if (takes_file_slot(sqe))
		return why_static(-EINVAL, "weir_uring_submit: the SQE changes "
				  "registered files; see weir_fd_register()");
	if (is_ours(sqe))
		return why_static(-EINVAL, "weir_uring_submit: this opcode "
				  "acts on other requests of the ring; use "
				  "weir_op_cancel() and weir_op_set_deadline()");
	if (!u->sqe_shift && is_long(e))
		return why_static(-EINVAL, "weir_uring_submit: the SQE has more "
				  "than 64 bytes; set .sqe128 when you create "
				  "the reactor");
	return 0;
}

/* The ring of @r, or NULL with a message in the name of @call. */
static struct uring *ring_of(struct weir_reactor *r, const char *call)
{
	reactor_check_thread(r);
	if (r->backend == &backend_uring || r->backend == &backend_uring_wide)
		return uring_of(r);
	why(-EOPNOTSUPP, "%s: the reactor's backend is %s, which has no SQEs; "
	    "see weir_reactor_describe()", call, r->backend->name);
	return NULL;
}

/* As uring_cancel(), of uring.c. */
static void entry_cancel(struct weir_op *op)
{
	struct uring *u = uring_of(op->reactor);

	debug_check(op->kind == IO_ENTRY && op->state == OP_PENDING);
	if (op->flags & OP_ENGAGED) {
		uring_cancel_request(u, data_of(op));
		op_repeat_cancel(op);
		return;
	}
	op_queue_del(&u->backlog, op);
	op->u.words[0] = op->u.words[1] = 0;
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class entry_class = {
	.name = "uring",
	.cancel = entry_cancel,
};

void uring_fill_entry(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	memcpy(sqe, op->u.words, ENTRY_LEN);
	if (u->sqe_shift)
		memcpy(sqe + 1, op->backend, ENTRY_LEN);
	sqe->user_data = data_of(op);
}

/*
 * A zero-copy send has its result first, and then the notification that ends
 * it.
 */
void uring_entry_cqe(struct uring *u, uint64_t user_data, int32_t res,
		     uint32_t flags)
{
	struct weir_op *op = (struct weir_op *)(uintptr_t)(user_data &
							   ~(uint64_t)TAG_MASK);

	debug_check(op->kind == IO_ENTRY && op->flags & OP_ENGAGED);
	if (flags & IORING_CQE_F_MORE) {
		op->res = res;
		return;
	}
	if (flags & IORING_CQE_F_NOTIF)
		res = (int32_t)op->res;
	u->ended += URING_ONE;
	op->flags &= (uint8_t)~OP_ENGAGED;
	op->detail.code = (int32_t)flags;
	op->u.words[0] = u->extra ? u->extra[0] : 0;
	op->u.words[1] = u->extra ? u->extra[1] : 0;
	if (res == -EINTR && op_cancel_wanted(op))
		res = -ECANCELED;
	op_complete(op, res);
}

int weir_uring_submit(struct weir_reactor *r, struct weir_op *op,
		      weir_uring_prep_fn *prep, void *arg)
{
	struct uring *u = ring_of(r, "weir_uring_submit");
	union entry e = { .words = { 0 } };
	int err;

	if (!u)
		return -EOPNOTSUPP;
	if (!prep)
		return why_static(-EINVAL, "weir_uring_submit: there is no "
				  "function that fills in the SQE");
	reactor_enter(r);
	prep(&e.sqe, arg);
	reactor_exit(r);
	u = uring_of(r);	/* weir_reactor_fd() may have replaced it. */
	err = check_entry(u, &e);
	if (err)
		return err;
	err = op_begin(r, op, &entry_class);
	if (err)
		return op_refused(err, op, "weir_uring_submit");
	op->kind = IO_ENTRY;
	memcpy(op->u.words, e.words, ENTRY_LEN);
	if (u->sqe_shift) {
		op->flags &= (uint8_t)~OP_TIMED;
		memcpy(op->backend, e.words + ENTRY_WORDS, ENTRY_LEN);
	}
	r->backend->submit(r, op);
	return 0;
}

int weir_uring_get_extra(const struct weir_op *op, uint64_t ret[2])
{
	if (op->state != OP_IDLE || op->cls != &entry_class)
		return why_static(-EINVAL, "weir_uring_get_extra: the operation "
				  "is in flight, or was not started by "
				  "weir_uring_submit()");
	ret[0] = op->u.words[0];
	ret[1] = op->u.words[1];
	return 0;
}

int weir_uring_has_opcode(struct weir_reactor *r, unsigned int opcode)
{
	const struct uring *u = ring_of(r, "weir_uring_has_opcode");

	if (!u)
		return -EOPNOTSUPP;
	return opcode < 64 * sizeof(u->opcodes) / sizeof(u->opcodes[0]) &&
	       u->opcodes[opcode / 64] >> opcode % 64 & 1;
}
