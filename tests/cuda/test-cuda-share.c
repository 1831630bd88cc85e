/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU in mmaps, and in other processes: exports, imports, leases, and what
 * is in flight when they end.
 *
 * The other process is this program again, which does what it is told by a socket.
 */

#include "tests/support/cuda-fixture.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/lease.h>
#include <weir/pool.h>

#define ILLEGAL_ADDRESS 700
#define SMALL ((size_t)2 << 20)
#define LARGE ((size_t)64 << 20)	/* More than is in flight. */
#define PEERS (WEIR_MMAP_WRITE | WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

/* One side: a GPU's memory, and a context for jobs. */
struct side {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_device *dev;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	uint64_t addr;
	size_t len;
	char *mem;			/* .len bytes here. */
	struct jrec j;
};

static void side_begin(struct side *s, struct weir_reactor *r)
{
	memset(s, 0, sizeof(*s));
	s->r = r;
	s->dma = start_dma(r, (struct weir_dma_opts){ 0 });
	assert_int_equal(weir_device_open_name(&s->dev, "cuda0"), 0);
	assert_int_equal(weir_inventory_create(&s->inv, r, NULL), 0);
	jrec_init(&s->j);
}

static void side_end(struct side *s)
{
	assert_int_equal(weir_inventory_destroy(s->inv), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	assert_int_equal(weir_cuda_free(s->dev, s->addr), 0);
	assert_int_equal(weir_dma_destroy(s->dma), 0);
	assert_int_equal(weir_device_close(s->dev), 0);
	free(s->mem);
}

static struct weir_mmap *mmap_of(struct side *s, uint64_t addr, size_t len,
				 uint32_t permissions)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_domain(m, weir_cuda_domain(s->dev), addr,
					      len), 0);
	assert_int_equal(weir_mmap_set_permissions(m, permissions), 0);
	assert_int_equal(weir_mmap_add_device(m, s->dev), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	return m;
}

static void exporter_begin(struct side *s, void **state, size_t len,
			   uint32_t permissions)
{
	side_begin(s, start_reactor(state));
	s->len = len;
	s->mem = malloc(len);
	assert_int_equal(weir_cuda_alloc(s->dev, &s->addr, len), 0);
	s->m = mmap_of(s, s->addr, len, permissions);
	assert_int_equal(weir_inventory_attach(s->inv, s->m), 0);
}

/* All of an mmap, as a buf. */
static int take_all(struct weir_buf **ret, struct side *s, struct weir_mmap *m)
{
	void *addr;
	size_t len;

	assert_int_equal(weir_mmap_memrange(m, &addr, &len), 0);
	return weir_inventory_get(ret, s->inv, m, addr, len, addr, len);
}

/* Start to copy all of @m to or from .mem. */
static int start_copy(struct side *s, struct weir_mmap *m, struct weir_buf **b,
		      bool to)
{
	int err = take_all(b, s, m);

	if (err)
		return err;
	if (to)
		weir_buf_reset(*b);
	weir_job_copy(&s->j.job, to ? weir_operand_buf(*b) :
				      weir_operand_mem(s->mem, s->len),
		      to ? weir_operand_mem(s->mem, s->len) :
			   weir_operand_buf(*b));
	err = weir_job_start(s->dma, &s->j.job);
	if (err)
		weir_buf_put(*b);
	return err;
}

static int64_t copy_all(struct side *s, struct weir_mmap *m, bool to)
{
	struct weir_buf *b;
	int64_t res = start_copy(s, m, &b, to);

	if (res)
		return res;
	res = jrec_finish(s->r, &s->j);
	weir_buf_put(b);
	return res;
}

static void set_all(struct side *s, int value)
{
	memset(s->mem, value, s->len);
	assert_int_equal(copy_all(s, s->m, true), s->len);
}

static bool is_all(struct side *s, int value)
{
	memset(s->mem, ~value, s->len);
	assert_int_equal(copy_all(s, s->m, false), s->len);
	for (size_t i = 0; i < s->len; i++)
		if (s->mem[i] != (char)value)
			return false;
	return true;
}

static void export(struct side *s, struct weir_export_desc *ret)
{
	*ret = (struct weir_export_desc){ .size = sizeof(*ret) };
	assert_int_equal(weir_mmap_export_device(s->m, s->dev, NULL, ret), 0);
}

/* The other process. */

enum what { IMPORT, READ, WRITE, BEGIN, FINISH, BREAK, FORK, BESIDE, STORM, MAKE };

struct order {
	enum what what;
	int value;
	size_t len;
	uint8_t bytes[1024];
};

struct reply {
	int64_t res;
	uint64_t done;		/* Bytes of a job that failed. */
	char first, last;	/* Of what was read. */
	size_t len;
	uint8_t bytes[1024];
};

struct other {
	pid_t pid;
	int fd;
};

static void all_bytes(ssize_t (*fn)(int, void *, size_t, int), int fd, void *p,
		      size_t len)
{
	assert_int_equal(fn(fd, p, len, MSG_WAITALL), len);
}

static ssize_t send_some(int fd, void *p, size_t len, int flags)
{
	(void)flags;
	return send(fd, p, len, MSG_NOSIGNAL);
}

static void other_begin(struct other *o)
{
	char self[PATH_MAX] = "";
	int fds[2];

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds),
			 0);
	o->pid = fork();
	if (!o->pid) {
		dup2(fds[1], 0);
		execl(self, self, "other", (char *)NULL);
		_exit(1);
	}
	assert_true(o->pid > 0);
	close(fds[1]);
	o->fd = fds[0];
}

static void other_send(struct other *o, const struct order *order)
{
	all_bytes(send_some, o->fd, (void *)order, sizeof(*order));
}

static struct reply other_reply(struct other *o)
{
	struct reply r;

	all_bytes(recv, o->fd, &r, sizeof(r));
	return r;
}

static struct reply other_do(struct other *o, enum what what, int value)
{
	struct order order = { .what = what, .value = value };

	other_send(o, &order);
	return other_reply(o);
}

static int64_t other_imports(struct other *o, const struct weir_export_desc *d)
{
	struct order order = { .what = IMPORT, .len = d->len };

	assert_true(d->len <= sizeof(order.bytes));
	memcpy(order.bytes, d->bytes, d->len);
	other_send(o, &order);
	return other_reply(o).res;
}

/* It ends when the socket does. */
static void other_end(struct other *o)
{
	int status;

	close(o->fd);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, 0);
}

/* Its children keep the socket. */
static void other_kill_alone(struct other *o)
{
	int status;

	kill(o->pid, SIGKILL);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
}

static void other_kill(struct other *o)
{
	other_kill_alone(o);
	close(o->fd);
}

static int do_import(struct side *s, const struct order *order)
{
	int err = weir_mmap_import_device(&s->m, s->dev, order->bytes, order->len,
					  NULL);

	if (err)
		return err;
	assert_int_equal(weir_mmap_memrange(s->m, NULL, &s->len), 0);
	assert_int_equal(weir_inventory_attach(s->inv, s->m), 0);
	free(s->mem);
	s->mem = malloc(s->len);
	return 0;
}

/* Write until it is refused. */
static int64_t storm(struct side *s, int value)
{
	int64_t res;

	memset(s->mem, value, s->len);
	do
		res = copy_all(s, s->m, true);
	while (res == (int64_t)s->len);
	return res;
}

/* Become an exporter. */
static void make(struct side *s, int value, struct reply *reply)
{
	struct weir_export_desc desc;

	s->len = SMALL;
	s->mem = malloc(s->len);
	assert_int_equal(weir_cuda_alloc(s->dev, &s->addr, s->len), 0);
	s->m = mmap_of(s, s->addr, s->len, PEERS);
	assert_int_equal(weir_inventory_attach(s->inv, s->m), 0);
	set_all(s, value);
	export(s, &desc);
	memcpy(reply->bytes, desc.bytes, desc.len);
	reply->len = desc.len;
}

/* A child that has the driver's files, and ours, until the socket ends. */
static pid_t child_that_stays(void)
{
	pid_t pid = fork();
	char c;

	if (!pid)
		_exit(recv(0, &c, 1, 0) != 0);
	return pid;
}

/* Copy the first bytes of the import by the domain of the device. */
static int64_t read_beside(struct side *s)
{
	void *addr;

	assert_int_equal(weir_mmap_memrange(s->m, &addr, NULL), 0);
	weir_job_copy(&s->j.job, weir_operand_mem(s->mem, 8),
		      weir_operand_at(weir_cuda_domain(s->dev), (uintptr_t)addr,
				      8));
	return weir_job_start(s->dma, &s->j.job);
}

static struct reply obey(struct side *s, const struct order *order)
{
	static struct weir_buf *b;
	struct reply reply = { .res = 0 };

	switch (order->what) {
	case IMPORT:
		reply.res = do_import(s, order);
		break;
	case READ:
		reply.res = copy_all(s, s->m, false);
		reply.first = s->mem[0];
		reply.last = s->mem[s->len - 1];
		break;
	case WRITE:
		memset(s->mem, order->value, s->len);
		reply.res = copy_all(s, s->m, true);
		break;
	case BEGIN:
		hold(1);
		memset(s->mem, order->value, s->len);
		reply.res = start_copy(s, s->m, &b, true);
		some_turns(s->r, 3);
		break;
	case FINISH:
		hold(0);
		reply.res = jrec_finish(s->r, &s->j);
		weir_buf_put(b);
		break;
	case BREAK:
		break_it(ILLEGAL_ADDRESS);
		reply.res = jrec_finish(s->r, &s->j);
		weir_buf_put(b);
		break;
	case FORK:
		reply.res = child_that_stays();
		break;
	case BESIDE:
		reply.res = read_beside(s);
		break;
	case STORM:
		all_bytes(send_some, 0, &reply, sizeof(reply));
		reply.res = storm(s, order->value);
		break;
	case MAKE:
		make(s, order->value, &reply);
		break;
	}
	reply.done = s->j.detail.bytes;
	return reply;
}

static int be_the_other(void)
{
	struct order order;
	struct reply reply;
	struct side s;
	struct weir_reactor *r;

	if (weir_reactor_create(&r, NULL))
		return 1;
	side_begin(&s, r);
	while (recv(0, &order, sizeof(order), MSG_WAITALL) ==
	       (ssize_t)sizeof(order)) {
		reply = obey(&s, &order);
		all_bytes(send_some, 0, &reply, sizeof(reply));
	}
	side_end(&s);
	return weir_reactor_destroy(r) ? 1 : 0;
}

/* An export and its import in this process. */
struct both {
	struct side s, im;
	struct weir_export_desc desc;
};

/* What .desc says. */
static void take_here(struct both *b)
{
	side_begin(&b->im, b->s.r);
	b->im.len = b->s.len;
	b->im.mem = calloc(1, b->s.len);
	assert_int_equal(weir_mmap_import_device(&b->im.m, b->im.dev,
						 b->desc.bytes, b->desc.len,
						 NULL), 0);
	assert_int_equal(weir_inventory_attach(b->im.inv, b->im.m), 0);
}

static void import_here(struct both *b)
{
	export(&b->s, &b->desc);
	take_here(b);
}

static void both_begin(struct both *b, void **state, size_t len)
{
	exporter_begin(&b->s, state, len, PEERS);
	import_here(b);
}

static void both_end(struct both *b)
{
	side_end(&b->im);
	side_end(&b->s);
}

/* Tests. */

static void bufs_of_the_gpus_memory_are_copied(void **state)
{
	struct weir_buf *b = NULL;
	struct side s;

	exporter_begin(&s, state, SMALL, WEIR_MMAP_WRITE);
	fill_pattern(s.mem, s.len, 0, 3);
	assert_int_equal(copy_all(&s, s.m, true), s.len);
	memset(s.mem, 0, s.len);
	assert_int_equal(copy_all(&s, s.m, false), s.len);
	assert_true(is_pattern(s.mem, s.len, 0, 3));

	/* It has no pages of this process. */
	assert_int_equal(take_all(&b, &s, s.m), 0);
	assert_int_equal(weir_mmap_registered(s.m, s.r, NULL), 0);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	weir_buf_put(b);
	side_end(&s);
}

static void pool_is_made_of_the_gpus_memory(void **state)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4,
				       .buf_size = 65536, .align = 4096 };
	struct weir_pool *pool = NULL;
	struct weir_buf *a, *b;
	struct side s;

	exporter_begin(&s, state, SMALL, WEIR_MMAP_WRITE);
	opts.mmap = s.m;
	assert_int_equal(weir_pool_create(&pool, s.r, &opts), 0);
	assert_int_equal(weir_pool_get(&a, pool), 0);
	assert_int_equal(weir_pool_get(&b, pool), 0);
	fill_pattern(s.mem, 65536, 0, 4);
	weir_job_copy(&s.j.job, weir_operand_buf(a),
		      weir_operand_mem(s.mem, 65536));
	assert_int_equal(jrec_run(s.dma, &s.j), 65536);
	weir_job_copy(&s.j.job, weir_operand_buf(b), weir_operand_buf(a));
	assert_int_equal(jrec_run(s.dma, &s.j), 65536);
	memset(s.mem, 0, 65536);
	weir_job_copy(&s.j.job, weir_operand_mem(s.mem, 65536),
		      weir_operand_buf(b));
	assert_int_equal(jrec_run(s.dma, &s.j), 65536);
	assert_true(is_pattern(s.mem, 65536, 0, 4));
	weir_buf_put(a);
	weir_buf_put(b);
	assert_int_equal(weir_pool_destroy(pool), 0);
	side_end(&s);
}

/* Two imports are two domains of one place. */
static void export_is_imported_in_the_same_process(void **state)
{
	struct both b;

	both_begin(&b, state, SMALL);
	set_all(&b.s, 'a');
	assert_true(is_all(&b.im, 'a'));
	set_all(&b.im, 'b');
	assert_true(is_all(&b.s, 'b'));
	assert_int_equal(weir_mmap_is_stale(b.im.m), 0);
	assert_int_equal(weir_cuda_free(b.s.dev, b.s.addr), -EBUSY);

	assert_int_equal(weir_mmap_revoke(b.s.m, NULL, NULL), 0);
	assert_int_equal(copy_all(&b.im, b.im.m, false), -ESTALE);
	assert_int_equal(weir_mmap_is_stale(b.im.m), 1);
	assert_int_equal(copy_all(&b.im, b.im.m, true), -ESTALE);
	assert_true(is_all(&b.s, 'b'));
	both_end(&b);
}

static void import_for_reading_is_not_written(void **state)
{
	struct weir_export_opts opts = { .size = sizeof(opts),
					 .permissions = WEIR_MMAP_PEER_READ };
	struct both b;

	exporter_begin(&b.s, state, SMALL, PEERS);
	b.desc = (struct weir_export_desc){ .size = sizeof(b.desc) };
	assert_int_equal(weir_mmap_export_device(b.s.m, b.s.dev, &opts, &b.desc),
			 0);
	take_here(&b);
	set_all(&b.s, 'a');
	assert_true(is_all(&b.im, 'a'));
	assert_int_equal(copy_all(&b.im, b.im.m, true), -EACCES);
	weir_job_copy(&b.im.j.job, weir_operand_at(weir_mmap_domain(b.im.m),
						   b.s.addr, 8),
		      weir_operand_mem(b.im.mem, 8));
	assert_int_equal(weir_job_start(b.im.dma, &b.im.j.job), -EACCES);
	both_end(&b);
}

/* Importers get whole blocks of an allocation. */
static void part_of_an_allocation_is_not_exported(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m;
	uint64_t small;
	struct side s;

	exporter_begin(&s, state, 2 * SMALL, PEERS);
	m = mmap_of(&s, s.addr, SMALL, PEERS);
	assert_int_equal(weir_mmap_export_device(m, s.dev, NULL, &desc),
			 -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_mmap_export_device: ");
	assert_int_equal(weir_mmap_destroy(m), 0);

	assert_int_equal(weir_cuda_alloc(s.dev, &small, 65536), 0);
	m = mmap_of(&s, small, 65536, PEERS);
	assert_int_equal(weir_mmap_export_device(m, s.dev, NULL, &desc),
			 -EOPNOTSUPP);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_cuda_free(s.dev, small), 0);

	/* Nor memory in pages of its own, for which there are no handles. */
	assert_int_equal(weir_cuda_alloc_pages(s.dev, &small, SMALL, NULL), 0);
	m = mmap_of(&s, small, SMALL, PEERS);
	assert_int_equal(weir_mmap_export_device(m, s.dev, NULL, &desc),
			 -EOPNOTSUPP);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_cuda_free(s.dev, small), 0);

	/* Nor memory of this process. */
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(m, s.mem, 4096), 0);
	assert_int_equal(weir_mmap_set_permissions(m, PEERS), 0);
	assert_int_equal(weir_mmap_add_device(m, s.dev), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_export_device(m, s.dev, NULL, &desc),
			 -EOPNOTSUPP);
	assert_int_equal(weir_mmap_destroy(m), 0);
	side_end(&s);
}

static void another_process_reads_and_writes_the_gpus_memory(void **state)
{
	struct weir_export_desc desc, old;
	struct other o, second;
	struct reply reply;
	uint8_t bytes[1024];
	struct side s;

	exporter_begin(&s, state, SMALL, PEERS);
	set_all(&s, 'x');
	export(&s, &desc);
	other_begin(&o);
	assert_int_equal(other_imports(&o, &desc), 0);
	reply = other_do(&o, READ, 0);
	assert_int_equal(reply.res, s.len);
	assert_int_equal(reply.first, 'x');
	assert_int_equal(reply.last, 'x');
	assert_int_equal(other_do(&o, WRITE, 'y').res, s.len);
	assert_true(is_all(&s, 'y'));
	other_begin(&second);
	assert_int_equal(other_imports(&second, &desc), 0);
	assert_int_equal(other_do(&second, READ, 0).last, 'y');

	/* Taken back, and exported anew. */
	assert_true(desc.len <= sizeof(bytes));
	old = desc;
	old.bytes = memcpy(bytes, desc.bytes, desc.len);
	assert_int_equal(weir_inventory_detach(s.inv, s.m), 0);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	assert_int_equal(other_do(&o, READ, 0).res, -ESTALE);
	assert_int_equal(other_do(&second, WRITE, 'z').res, -ESTALE);
	other_end(&second);
	assert_int_equal(weir_mmap_start(s.m), 0);
	assert_int_equal(weir_inventory_attach(s.inv, s.m), 0);
	assert_true(is_all(&s, 'y'));
	other_begin(&second);
	assert_int_equal(other_imports(&second, &old), -ESRCH);
	export(&s, &desc);
	assert_int_equal(other_imports(&second, &desc), 0);
	assert_int_equal(other_do(&second, READ, 0).first, 'y');
	other_end(&second);
	other_end(&o);
	side_end(&s);
}

/* The copy of an importer is broken off, and a stop waits for what the GPU has. */
static void stop_waits_for_the_copy_of_an_importer(void **state)
{
	char text[64];
	struct weir_export_desc desc;
	struct reply reply;
	struct other o;
	struct side s;

	exporter_begin(&s, state, LARGE, PEERS);
	export(&s, &desc);
	other_begin(&o);
	assert_int_equal(other_imports(&o, &desc), 0);
	if (!hold) {
		other_end(&o);
		side_end(&s);
		skip();
	}
	assert_int_equal(other_do(&o, BEGIN, 'x').res, 0);
	assert_int_equal(weir_mmap_revoke(s.m, NULL, NULL), -EINPROGRESS);
	snprintf(text, sizeof(text), "still use the memory: process %d;", o.pid);
	assert_non_null(strstr(weir_why(), text));
	assert_int_equal(weir_mmap_revoke(s.m, NULL, NULL), -EINPROGRESS);
	assert_int_equal(weir_inventory_detach(s.inv, s.m), 0);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	assert_non_null(strstr(weir_why(), "process"));
	reply = other_do(&o, FINISH, 0);
	assert_int_equal(reply.res, -ESTALE);
	assert_true(reply.done > 0 && reply.done < LARGE);
	assert_int_equal(weir_mmap_revoke(s.m, NULL, NULL), 0);
	assert_int_equal(other_do(&o, WRITE, 'y').res, -ESTALE);
	other_end(&o);
	side_end(&s);
}

static void revoke_until_it_is_done(struct side *s)
{
	int err;

	do
		err = weir_mmap_revoke(s->m, NULL, NULL);
	while (err == -EINPROGRESS);
	assert_int_equal(err, 0);
}

/* Begin to write to the export of @s in @o; or else, without the mock, import it. */
static void busy_importer_begin(struct side *s, struct other *o, void **state)
{
	struct weir_export_desc desc;

	exporter_begin(s, state, SMALL, PEERS);
	export(s, &desc);
	other_begin(o);
	assert_int_equal(other_imports(o, &desc), 0);
	if (!hold)
		return;
	assert_int_equal(other_do(o, BEGIN, 'x').res, 0);
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), -EINPROGRESS);
}

/* What it had begun may come until all of its files are closed. */
static void killed_importer_is_waited_for_until_it_has_ended(void **state)
{
	siginfo_t info = { .si_pid = 0 };
	struct other o;
	struct side s;

	busy_importer_begin(&s, &o, state);
	kill(o.pid, SIGKILL);
	revoke_until_it_is_done(&s);
	if (hold) {
		assert_int_equal(waitid(P_PID, (id_t)o.pid, &info,
					WEXITED | WNOHANG | WNOWAIT), 0);
		assert_int_equal(info.si_pid, o.pid);
	}
	other_kill(&o);
	side_end(&s);
}

static void child_that_has_the_files_of_a_killed_importer_is_waited_for(void **state)
{
	struct other o;
	struct side s;

	busy_importer_begin(&s, &o, state);
	assert_true(other_do(&o, FORK, 0).res > 0);
	other_kill_alone(&o);
	if (hold)
		assert_int_equal(weir_mmap_revoke(s.m, NULL, NULL), -EINPROGRESS);
	close(o.fd);
	revoke_until_it_is_done(&s);
	side_end(&s);
}

/* Nobody knows what its GPU still does. */
static void importer_that_has_lost_its_gpu_is_waited_for_until_it_has_ended(
	void **state)
{
	struct other o;
	struct side s;

	busy_importer_begin(&s, &o, state);
	if (hold) {
		assert_int_equal(other_do(&o, BREAK, 0).res, -EIO);
		assert_int_equal(weir_mmap_revoke(s.m, NULL, NULL), -EINPROGRESS);
	}
	other_kill(&o);
	revoke_until_it_is_done(&s);
	side_end(&s);
}

/* Where they would not be counted. */
static void imported_memory_is_not_used_by_the_domain_of_the_device(void **state)
{
	struct weir_export_desc desc;
	struct other o;
	struct side s;

	exporter_begin(&s, state, SMALL, PEERS);
	export(&s, &desc);
	other_begin(&o);
	assert_int_equal(other_imports(&o, &desc), 0);
	assert_int_equal(other_do(&o, BESIDE, 0).res, -ERANGE);
	assert_int_equal(other_do(&o, READ, 0).res, s.len);
	other_end(&o);
	side_end(&s);
}

/* The GPU has begun a copy of the import. */
static struct weir_buf *begin_here(struct both *b)
{
	struct weir_buf *buf = NULL;

	if (!hold) {
		both_end(b);
		skip();
	}
	hold(1);
	assert_int_equal(start_copy(&b->im, b->im.m, &buf, true), 0);
	some_turns(b->s.r, 3);
	return buf;
}

static void end_early(void **state, bool is_late)
{
	struct weir_buf *buf;
	struct both b;
	uint64_t end;

	both_begin(&b, state, LARGE);
	buf = begin_here(&b);
	end = weir_reactor_now(b.s.r) + WEIR_USEC;
	if (is_late) {
		assert_int_equal(weir_op_set_deadline(&b.im.j.job.op, end), 0);
		UNTIL(b.s.r, weir_reactor_now(b.s.r) > end + WEIR_MSEC);
	} else {
		assert_int_equal(weir_op_cancel(&b.im.j.job.op), 0);
	}
	some_turns(b.s.r, 3);
	assert_int_equal(weir_mmap_revoke(b.s.m, NULL, NULL), -EINPROGRESS);
	hold(0);
	assert_int_equal(jrec_finish(b.s.r, &b.im.j),
			 is_late ? -ETIMEDOUT : -ECANCELED);
	assert_int_equal(weir_mmap_revoke(b.s.m, NULL, NULL), 0);
	weir_buf_put(buf);
	both_end(&b);
}

static void cancelled_job_of_an_importer_counts_until_the_gpu_has_ended(void **state)
{
	end_early(state, false);
}

static void late_job_of_an_importer_counts_until_the_gpu_has_ended(void **state)
{
	end_early(state, true);
}

static void operations_of_the_exporter_wait_for_an_importer(void **state)
{
	int (*const calls[])(struct weir_mmap *, struct weir_reactor *,
			     struct weir_op *) = {
		weir_mmap_revoke, weir_mmap_stop, weir_mmap_drain,
	};
	struct weir_buf *buf;
	struct rec rec;
	struct both b;

	both_begin(&b, state, LARGE);
	for (size_t i = 0; i < N_OF(calls); i++) {
		buf = begin_here(&b);
		rec_init(&rec);
		STARTS(calls[i](b.s.m, b.s.r, &rec.op));
		some_turns(b.s.r, 3);
		assert_int_equal(rec.calls, 0);
		hold(0);
		assert_int_equal(finish(b.s.r, &rec), 0);
		assert_int_equal(b.im.j.calls, 1);
		assert_int_equal(b.im.j.res, -ESTALE);
		assert_int_equal(weir_mmap_is_stale(b.im.m), 1);
		weir_buf_put(buf);
		side_end(&b.im);
		if (i) {
			assert_int_equal(weir_mmap_start(b.s.m), 0);
			assert_int_equal(weir_inventory_attach(b.s.inv, b.s.m), 0);
		}
		import_here(&b);
	}
	both_end(&b);
}

static void export_after_a_revoke_is_another(void **state)
{
	struct weir_mmap *m = NULL;
	struct weir_buf *buf;
	struct both b, again;
	uint8_t bytes[1024];

	both_begin(&b, state, LARGE);
	memcpy(bytes, b.desc.bytes, b.desc.len);
	buf = begin_here(&b);
	assert_int_equal(weir_mmap_revoke(b.s.m, NULL, NULL), -EINPROGRESS);
	assert_int_equal(weir_mmap_import_device(&m, b.s.dev, bytes, b.desc.len,
						 NULL), -ESTALE);
	again.s = b.s;
	import_here(&again);
	assert_int_equal(weir_mmap_is_stale(again.im.m), 0);
	hold(0);
	assert_int_equal(jrec_finish(b.s.r, &b.im.j), -ESTALE);
	assert_int_equal(copy_all(&again.im, again.im.m, true), LARGE);
	weir_buf_put(buf);
	side_end(&again.im);
	both_end(&b);
}

/* The side that was counted is not any more. */
static void job_that_one_import_refuses_does_not_use_the_other(void **state)
{
	struct weir_buf *from, *to;
	struct both a, b;

	both_begin(&a, state, SMALL);
	side_begin(&b.s, a.s.r);
	b.s.len = SMALL;
	assert_int_equal(weir_cuda_alloc(b.s.dev, &b.s.addr, SMALL), 0);
	b.s.m = mmap_of(&b.s, b.s.addr, SMALL, PEERS);
	import_here(&b);
	assert_int_equal(weir_inventory_attach(a.im.inv, b.im.m), 0);
	assert_int_equal(weir_mmap_revoke(b.s.m, NULL, NULL), 0);
	assert_int_equal(take_all(&from, &a.im, a.im.m), 0);
	assert_int_equal(take_all(&to, &a.im, b.im.m), 0);
	weir_buf_reset(to);
	weir_job_copy(&a.im.j.job, weir_operand_buf(to), weir_operand_buf(from));
	assert_int_equal(weir_job_start(a.im.dma, &a.im.j.job), -ESTALE);
	assert_int_equal(weir_mmap_is_stale(a.im.m), 0);
	assert_int_equal(weir_mmap_is_stale(b.im.m), 1);
	weir_buf_put(from);
	weir_buf_put(to);
	assert_int_equal(weir_mmap_revoke(a.s.m, NULL, NULL), 0);
	assert_int_equal(weir_inventory_detach(a.im.inv, b.im.m), 0);
	both_end(&b);
	both_end(&a);
}

/* It goes when a later call finds its domain free. */
static void import_whose_domain_is_in_use_ends_later(void **state)
{
	struct both b;

	both_begin(&b, state, SMALL);
	if (!hold) {
		both_end(&b);
		skip();
	}
	hold(1);
	weir_job_copy(&b.im.j.job,
		      weir_operand_at(weir_mmap_domain(b.im.m), b.s.addr, 8),
		      weir_operand_mem(b.im.mem, 8));
	assert_int_equal(weir_job_start(b.im.dma, &b.im.j.job), 0);
	some_turns(b.s.r, 3);
	assert_int_equal(weir_inventory_detach(b.im.inv, b.im.m), 0);
	assert_int_equal(weir_mmap_destroy(b.im.m), 0);
	b.im.m = NULL;
	assert_int_equal(weir_mmap_revoke(b.s.m, NULL, NULL), -EINPROGRESS);
	hold(0);
	jrec_finish(b.s.r, &b.im.j);
	assert_int_equal(weir_mmap_revoke(b.s.m, NULL, NULL), 0);
	both_end(&b);
}

#define PLACES 63
#define SPACES 256

static void importers_have_limits(void **state)
{
	struct weir_mmap *im[SPACES] = { NULL };
	struct side s, more[SPACES / PLACES];
	struct weir_export_desc desc;
	size_t n = 0, k;
	int err = 0;

	exporter_begin(&s, state, SMALL, PEERS);
	export(&s, &desc);
	while (!err && n < SPACES)
		err = weir_mmap_import_device(&im[n++], s.dev, desc.bytes,
					      desc.len, NULL);
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(--n, PLACES);
	assert_int_equal(weir_mmap_destroy(im[--n]), 0);
	assert_int_equal(weir_mmap_import_device(&im[n++], s.dev, desc.bytes,
						 desc.len, NULL), 0);
	for (k = 0; k < N_OF(more); k++) {
		side_begin(&more[k], s.r);
		assert_int_equal(weir_cuda_alloc(s.dev, &more[k].addr, SMALL), 0);
		more[k].m = mmap_of(&more[k], more[k].addr, SMALL, PEERS);
		export(&more[k], &desc);
		for (err = 0; !err && n < PLACES * (k + 2);)
			err = weir_mmap_import_device(&im[n++], s.dev, desc.bytes,
						      desc.len, NULL);
	}
	assert_int_equal(err, -ENOSPC);
	while (n--)
		assert_int_equal(weir_mmap_destroy(im[n]), 0);
	while (k--)
		side_end(&more[k]);
	side_end(&s);
}

static void memory_of_a_killed_exporter_stays_with_its_importer(void **state)
{
	struct reply reply;
	unsigned int calls;
	struct other o;
	struct side s;
	void *addr;

	side_begin(&s, start_reactor(state));
	other_begin(&o);
	reply = other_do(&o, MAKE, 'k');
	assert_int_equal(reply.res, 0);
	assert_int_equal(weir_mmap_import_device(&s.m, s.dev, reply.bytes,
						 reply.len, NULL), 0);
	assert_int_equal(weir_mmap_memrange(s.m, &addr, &s.len), 0);
	assert_int_equal(weir_inventory_attach(s.inv, s.m), 0);
	s.mem = malloc(s.len);
	assert_true(is_all(&s, 'k'));
	other_kill(&o);
	assert_true(is_all(&s, 'k'));
	set_all(&s, 'l');
	assert_true(is_all(&s, 'l'));
	assert_int_equal(weir_inventory_detach(s.inv, s.m), 0);
	calls = count ? count(MOCK_CUDA_IPC) : 0;
	assert_int_equal(weir_mmap_destroy(s.m), 0);
	assert_int_equal(count ? count(MOCK_CUDA_IPC) : 1, calls + 1);
	s.m = NULL;
	assert_int_equal(weir_mmap_import_device(&s.m, s.dev, reply.bytes,
						 reply.len, NULL), -ESRCH);
	assert_starts_with(weir_why(), "weir_mmap_import_device: ");
	side_end(&s);
}

static void lease_of_the_gpus_memory_ends_by_itself(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_lease_opts opts = { .size = sizeof(opts),
					.duration_ns = 20 * WEIR_MSEC };
	struct weir_lease *lease = NULL;
	struct other o;
	struct rec rec;
	struct side s;

	exporter_begin(&s, state, SMALL, PEERS);
	opts.device = s.dev;
	other_begin(&o);
	assert_int_equal(weir_lease_create(&lease, s.r, s.m, &opts), 0);
	assert_int_equal(weir_lease_export(lease, &desc), 0);
	assert_int_equal(other_imports(&o, &desc), 0);
	assert_int_equal(other_do(&o, WRITE, 'x').res, s.len);
	rec_init(&rec);
	STARTS(weir_lease_wait(lease, &rec.op));
	UNTIL(s.r, rec.calls);
	assert_int_equal(rec.res, 0);
	assert_int_equal(other_do(&o, WRITE, 'y').res, -ESTALE);
	assert_true(is_all(&s, 'x'));
	assert_int_equal(weir_lease_destroy(lease), 0);
	other_end(&o);
	side_end(&s);
}

/* Whenever an export ends, nothing that its importers had begun comes later. */
static void late_write_of_an_importer_does_not_arrive(void **state)
{
	int n = want_long() ? 2000 : 20;
	struct order order = { .what = STORM, .value = 's' };
	struct weir_export_desc desc;
	struct other o;
	struct side s;

	exporter_begin(&s, state, 4 * SMALL, PEERS);
	for (int i = 0; i < n; i++) {
		export(&s, &desc);
		other_begin(&o);
		assert_int_equal(other_imports(&o, &desc), 0);
		other_send(&o, &order);
		assert_int_equal(other_reply(&o).res, 0);
		some_turns(s.r, i % 7);
		revoke_until_it_is_done(&s);
		set_all(&s, 'e');
		assert_int_equal(other_reply(&o).res, -ESTALE);
		assert_true(is_all(&s, 'e'));
		other_end(&o);
	}
	side_end(&s);
}

static const struct harness_case cases[] = {
	CASE(bufs_of_the_gpus_memory_are_copied),
	CASE(pool_is_made_of_the_gpus_memory),
	CASE(export_is_imported_in_the_same_process),
	CASE(import_for_reading_is_not_written),
	CASE(part_of_an_allocation_is_not_exported),
	REAL(another_process_reads_and_writes_the_gpus_memory),
	REAL(stop_waits_for_the_copy_of_an_importer),
	REAL(killed_importer_is_waited_for_until_it_has_ended),
	REAL(child_that_has_the_files_of_a_killed_importer_is_waited_for),
	REAL(importer_that_has_lost_its_gpu_is_waited_for_until_it_has_ended),
	REAL(imported_memory_is_not_used_by_the_domain_of_the_device),
	CASE(cancelled_job_of_an_importer_counts_until_the_gpu_has_ended),
	CASE(late_job_of_an_importer_counts_until_the_gpu_has_ended),
	CASE(operations_of_the_exporter_wait_for_an_importer),
	CASE(export_after_a_revoke_is_another),
	CASE(job_that_one_import_refuses_does_not_use_the_other),
	CASE(import_whose_domain_is_in_use_ends_later),
	CASE(importers_have_limits),
	REAL(memory_of_a_killed_exporter_stays_with_its_importer),
	REAL(lease_of_the_gpus_memory_ends_by_itself),
	REAL(late_write_of_an_importer_does_not_arrive),
};

int main(int argc, char **argv)
{
	if (!cuda_begin())
		return 0;
	if (argc > 1 && !strcmp(argv[1], "other"))
		return be_the_other();
	cuda_say();
	return harness_run_all(cases, N_OF(cases));
}
