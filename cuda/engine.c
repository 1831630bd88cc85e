/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: copies and fills on streams of a GPU.
 *
 * A context has, for each GPU that its jobs use, three streams: to the GPU, from it,
 * and within it.  Jobs wait in the stream's queue in order, and their parts
 * ("slices") are given to the driver as long as the stream has little to do, so that
 * a cancel finds what has not begun.  After some slices, and at the end of a turn's,
 * comes an event: so often that the next jobs are there before the stream is idle.
 *
 * While the reactor is awake a poll hook asks for the events.  Before it sleeps,
 * another stream is made to wait for the oldest event and to call a function that
 * signals an eventfd.  That stream has nothing else, because the function delays what
 * is behind it.  The driver does not call it after an error of the GPU, so a timer
 * looks after what is in flight for long.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <weir/buf.h>
#include <weir/domain-user.h>
#include <weir/job.h>
#include <weir/poll-hook.h>
#include <weir/reactor.h>
#include <weir/timer.h>

#include "cuda/share.h"

#define SLICE_MAX ((uint64_t)8 << 20)
#define IN_FLIGHT_MAX ((uint64_t)32 << 20)	/* Bytes of a stream. */
#define SLICES 1024			/* In flight in a stream, at most. */
#define BATCHES 128			/* Events, likewise. */
#define BATCH_SLICES 16			/* An event comes after so many, or */
#define BATCH_BYTES ((uint64_t)256 << 10) /* so much. */
#define SLOT ((size_t)256 << 10)	/* Of staging. */
#define SLOTS 16
#define TOUCH_MAX ((uint64_t)1 << 20)	/* Bytes that a turn copies to or from
					 * staging. */
#define PAST_MIN ((uint64_t)4096)	/* Copied out of staging past the */
#define PAST_JOB ((uint64_t)1 << 20)	/* caches, for jobs from here on. */
#define PIECES 16			/* Looked at together. */
#define LOOK_NS (100 * WEIR_MSEC)	/* Whether the GPU has failed. */

enum { TO_GPU, FROM_GPU, WITHIN, STREAMS };

struct stream;

/* In the job's area. */
struct cuda_job {
	struct weir_job *next;
	struct weir_job **pprev;	/* NULL: not in the queue of the stream. */
	struct stream *stream;
	uint64_t posted;		/* Bytes given to the driver, */
	uint64_t done;			/* and finished. */
	uint32_t in_flight;		/* Slices. */
	int32_t res;			/* 0: nothing has ended it early. */
	int32_t code;			/* The driver's. */
	bool staged;			/* Memory that is not page-locked. */
	struct cuda_import *src, *dst;	/* NULL: not of another process. */
};

_Static_assert(sizeof(struct cuda_job) <= WEIR_JOB_AREA, "it fits");

struct slice {
	struct weir_job *job;
	uint64_t len;
	char *slot;			/* Staging, */
	void *to;			/* and where its bytes go afterwards. */
};

struct batch {
	CUevent event;
	uint32_t end;			/* Slices up to here, counted for ever. */
	bool told;			/* The eventfd will tell of it. */
};

struct stream {
	struct gpu *gpu;
	CUstream stream;
	struct weir_job *first, **last;	/* Jobs of which not all was posted. */
	struct slice slices[SLICES];	/* From .ended to .posted, modulo. */
	uint32_t posted, ended;
	uint64_t bytes;			/* In flight. */
	struct batch batches[BATCHES];	/* From .b_ended to .b_posted, modulo. */
	uint32_t b_posted, b_ended;
};

struct gpu {
	struct gpu *next;
	struct engine *engine;
	struct cuda_device *device;
	CUstream tells;
	struct stream streams[STREAMS];
	char *staging;			/* NULL: not needed yet. */
	char *slots[SLOTS];		/* Those that are free. */
	uint32_t n_slots;
	uint64_t touched;		/* Bytes of staging, in this turn. */
	struct cuda_range known;	/* Of weir_cuda_alloc(), looked up last; */
	uint64_t frees;			/* when that was. */
};

struct engine {
	struct weir_reactor *reactor;
	struct weir_poll_hook *hook;	/* NULL: no job yet. */
	struct weir_timer *timer;	/* Likewise. */
	struct gpu *gpus;
	int fd;				/* The eventfd; -1: no job yet. */
	struct cuda_device *lost;	/* Its driver may still signal .fd. */
	struct engine *next_kept;	/* At that device. */
};

static struct cuda_job *part_of(struct weir_job *job)
{
	return weir_job_area(job);
}

static void queue_push(struct stream *s, struct weir_job *job)
{
	struct cuda_job *p = part_of(job);

	p->next = NULL;
	p->pprev = s->last;
	*s->last = job;
	s->last = &p->next;
}

static void queue_del(struct stream *s, struct cuda_job *p)
{
	*p->pprev = p->next;
	if (p->next)
		part_of(p->next)->pprev = p->pprev;
	else
		s->last = p->pprev;
	p->pprev = NULL;
}

/* Imports, of which a job has at most two. */

static void leave_imports(const struct cuda_job *p)
{
	if (p->src)
		cuda_import_leave(p->src);
	if (p->dst)
		cuda_import_leave(p->dst);
}

/* Counts the job, until leave_imports(). */
static int enter_imports(const struct cuda_job *p)
{
	int err = p->src ? cuda_import_enter(p->src) : 0;

	if (err || !p->dst)
		return err;
	err = cuda_import_enter(p->dst);
	if (err && p->src)
		cuda_import_leave(p->src);
	return err;
}

static bool is_stale(const struct cuda_import *import)
{
	return import && cuda_import_is_stale(import);
}

static bool imports_are_stale(const struct cuda_job *p)
{
	return is_stale(p->src) || is_stale(p->dst);
}

static void tell_revoked(const struct cuda_import *import,
			 const struct weir_operand *o)
{
	if (is_stale(import) && o->buf)
		weir_provider_revoked(weir_buf_mmap(o->buf));
}

static int refuse_stale(struct weir_job *job, const struct cuda_job *p)
{
	tell_revoked(p->src, &job->src);
	tell_revoked(p->dst, &job->dst);
	return weir_why_set(-ESTALE, "weir_job_start: the exporter has taken the "
			    "memory back");
}

/* After an error of the GPU its copies of another process's memory may still go on.
 * They stay counted until this process ends, which it has to anyway. */
static void keep_counted(struct cuda_import **import)
{
	if (*import && (*import)->start)
		*import = NULL;
}

static void end(struct weir_job *job, struct cuda_job *p)
{
	if (p->pprev)
		queue_del(p->stream, p);
	leave_imports(p);
	weir_job_end(job, p->done, p->res, p->code);
}

/* Whatever has failed, the GPU no longer reads or writes the jobs' memory then; a
 * context that is of no use returns at once. */
static void wait_for_all(struct gpu *gpu)
{
	const struct cuda_driver *d = gpu->device->driver;

	if (d->ctx_push(gpu->device->ctx))
		return;
	for (int i = 0; i < STREAMS; i++)
		d->stream_sync(gpu->streams[i].stream);
	cuda_leave(gpu->device);
}

static void fail(struct cuda_job *p, CUresult code)
{
	p->res = -EIO;
	p->code = code;
	keep_counted(&p->src);
	keep_counted(&p->dst);
}

/* Ends all jobs of @gpu: its context has failed with @code. */
static void fail_all(struct gpu *gpu, CUresult code)
{
	struct weir_job *job;
	struct cuda_job *p;
	struct stream *s;

	wait_for_all(gpu);
	cuda_lose(gpu->device, code);
	if (!gpu->engine->lost) {
		gpu->engine->lost = gpu->device;
		cuda_ref(gpu->device);
	}
	for (int i = 0; i < STREAMS; i++) {
		s = &gpu->streams[i];
		/* What was posted first: a job with slices may wait, too. */
		for (; s->ended != s->posted; s->ended++) {
			job = s->slices[s->ended % SLICES].job;
			p = part_of(job);
			fail(p, code);
			if (!--p->in_flight)
				end(job, p);
		}
		s->bytes = 0;
		s->b_ended = s->b_posted;
		while ((job = s->first)) {
			p = part_of(job);
			fail(p, code);
			end(job, p);
		}
	}
}

/* Slices, from the job to the driver. */

static CUresult fill(struct stream *s, const struct weir_job *job,
		     CUdeviceptr at, uint64_t len, uint64_t phase)
{
	const struct cuda_driver *d = s->gpu->device->driver;
	CUresult err = CUDA_SUCCESS;
	unsigned char byte[8];
	uint32_t word[2];
	bool is_one = true;
	unsigned int i;

	for (i = 0; i < 8; i++) {
		byte[i] = (unsigned char)(job->pattern >> (phase + i) % 8 * 8);
		is_one &= byte[i] == byte[0];
	}
	if (is_one)
		return d->fill_8(at, byte[0], len, s->stream);
	memcpy(word, byte, sizeof(word));
	if (!(at % 4) && !(len % 8)) {
		err = d->fill_2d_32(at, 8, word[0], 1, len / 8, s->stream);
		return err ? err : d->fill_2d_32(at + 4, 8, word[1], 1, len / 8,
						 s->stream);
	}
	for (i = 0; i < 8 && i < len && !err; i++)
		err = d->fill_2d_8(at + i, 8, byte[i], 1, (len - i + 7) / 8,
				   s->stream);
	return err;
}

/* How much of @job from .posted on is one piece of each side. */
static uint64_t next_piece(const struct weir_job *job, const struct cuda_job *p,
			   struct iovec *src, struct iovec *dst)
{
	uint64_t len = weir_job_bytes(job) - p->posted;

	*src = *dst = (struct iovec){ NULL, 0 };
	weir_job_pieces(job, WEIR_JOB_DST, p->posted, dst, 1);
	if (job->kind != WEIR_JOB_FILL)
		weir_job_pieces(job, WEIR_JOB_SRC, p->posted, src, 1);
	if (dst->iov_len < len)
		len = dst->iov_len;
	if (job->kind != WEIR_JOB_FILL && src->iov_len < len)
		len = src->iov_len;
	return len < SLICE_MAX ? len : SLICE_MAX;
}

static CUresult post_slice(struct stream *s, struct weir_job *job,
			   struct slice *slice)
{
	const struct cuda_driver *d = s->gpu->device->driver;
	struct cuda_job *p = part_of(job);
	struct iovec src, dst;
	CUdeviceptr from, to;

	*slice = (struct slice){ .job = job,
				 .len = next_piece(job, p, &src, &dst) };
	from = (uintptr_t)src.iov_base;
	to = (uintptr_t)dst.iov_base;
	if (job->kind == WEIR_JOB_FILL)
		return fill(s, job, to, slice->len, p->posted);
	if (p->staged) {
		if (slice->len > SLOT)
			slice->len = SLOT;
		slice->slot = s->gpu->slots[--s->gpu->n_slots];
		if (s == &s->gpu->streams[TO_GPU]) {
			memcpy(slice->slot, src.iov_base, slice->len);
			s->gpu->touched += slice->len;
			from = (uintptr_t)slice->slot;
		} else {
			slice->to = dst.iov_base;
			to = (uintptr_t)slice->slot;
		}
	}
	return d->copy(to, from, slice->len, s->stream);
}

static bool has_capacity(const struct stream *s, const struct cuda_job *p)
{
	return s->posted - s->ended < SLICES &&
	       s->bytes <= IN_FLIGHT_MAX - SLICE_MAX &&
	       s->b_posted - s->b_ended < BATCHES &&
	       (!p->staged || (s->gpu->n_slots &&
			       s->gpu->touched < TOUCH_MAX));
}

/* No more of @job: it ends when its other slices have. */
static void break_off(struct stream *s, struct weir_job *job, int32_t res,
		      CUresult code)
{
	struct cuda_job *p = part_of(job);

	p->res = res;
	p->code = code;
	queue_del(s, p);
	if (!p->in_flight)
		end(job, p);
}

/* Returns the error that has ended the context. */
static CUresult refused(struct stream *s, struct weir_job *job,
			struct slice *slice, CUresult err)
{
	const struct cuda_driver *d = s->gpu->device->driver;
	CUresult res = CUDA_SUCCESS;

	/* A fill is several calls, of which the driver may have taken some. */
	if (job->kind == WEIR_JOB_FILL)
		res = d->stream_sync(s->stream);
	if (res)
		return res;
	if (slice->slot)
		s->gpu->slots[s->gpu->n_slots++] = slice->slot;
	break_off(s, job, err == CUDA_ERROR_INVALID_VALUE ? -EFAULT :
							   cuda_errno(err), err);
	return CUDA_SUCCESS;
}

/* Ends the batch of the slices that were posted last; without its event they would
 * never end. */
static CUresult end_batch(struct stream *s)
{
	const struct cuda_driver *d = s->gpu->device->driver;
	struct batch *batch = &s->batches[s->b_posted % BATCHES];
	CUresult err = d->event_record(batch->event, s->stream);

	batch->end = s->posted;
	batch->told = false;
	if (!err)
		s->b_posted++;
	return err;
}

/* Gives the driver as much of the jobs as @s has capacity for.  Returns the error that
 * has ended the context. */
static CUresult post(struct stream *s)
{
	uint32_t begun = s->posted;
	uint64_t bytes = 0;
	CUresult err = CUDA_SUCCESS;
	struct weir_job *job;
	struct slice *slice;
	struct cuda_job *p;

	while (!err && (job = s->first) && has_capacity(s, p = part_of(job))) {
		if (imports_are_stale(p)) {
			refuse_stale(job, p);
			break_off(s, job, -ESTALE, 0);
			continue;
		}
		slice = &s->slices[s->posted % SLICES];
		err = post_slice(s, job, slice);
		if (cuda_is_fatal(err))
			return err;
		if (err) {
			err = refused(s, job, slice, err);
			continue;
		}
		s->posted++;
		s->bytes += slice->len;
		bytes += slice->len;
		p->posted += slice->len;
		p->in_flight++;
		if (p->posted == weir_job_bytes(job))
			queue_del(s, p);
		if (s->posted - begun < BATCH_SLICES && bytes < BATCH_BYTES)
			continue;
		err = end_batch(s);
		begun = s->posted;
		bytes = 0;
	}
	return err || s->posted == begun ? err : end_batch(s);
}

#ifdef __SSE2__
/* Past the caches, which would read what is overwritten: a large job's memory is not
 * there, and would not stay there.  memcpy() does so only in one call for all of it. */
static void copy_past(char *to, const char *from, size_t len)
{
	size_t head = -(uintptr_t)to % 16, i;

	memcpy(to, from, head);
	for (i = head; i + 16 <= len; i += 16)
		_mm_stream_si128((__m128i *)(to + i),
				 _mm_loadu_si128((const __m128i *)(from + i)));
	memcpy(to + i, from + i, len - i);
	_mm_sfence();
}
#else
#define copy_past memcpy
#endif

static void copy_out(const struct slice *slice)
{
	if (slice->len >= PAST_MIN && weir_job_bytes(slice->job) >= PAST_JOB)
		copy_past(slice->to, slice->slot, slice->len);
	else
		memcpy(slice->to, slice->slot, slice->len);
}

/* Its bytes are where they belong, or in staging. */
static void slice_ended(struct stream *s, const struct slice *slice)
{
	struct cuda_job *p = part_of(slice->job);

	if (slice->slot) {
		if (slice->to) {
			copy_out(slice);
			s->gpu->touched += slice->len;
		}
		s->gpu->slots[s->gpu->n_slots++] = slice->slot;
	}
	s->bytes -= slice->len;
	p->done += slice->len;
	p->in_flight--;
	if (!p->in_flight &&
	    (p->res || p->done == weir_job_bytes(slice->job)))
		end(slice->job, p);
}

/* Ends the slices of events that have come.  Returns whether there were any, or the
 * error that has ended the context. */
static int reap(struct stream *s, CUresult *err)
{
	const struct cuda_driver *d = s->gpu->device->driver;
	const struct batch *batch;
	int found = 0;

	while (s->b_ended != s->b_posted && s->gpu->touched < TOUCH_MAX) {
		batch = &s->batches[s->b_ended % BATCHES];
		*err = d->event_query(batch->event);
		if (*err)
			break;
		s->b_ended++;
		found = 1;
		while (s->ended != batch->end) {
			s->ended++;
			slice_ended(s, &s->slices[(s->ended - 1) % SLICES]);
		}
	}
	if (*err == CUDA_ERROR_NOT_READY)
		*err = CUDA_SUCCESS;
	return found;
}

static bool is_busy(const struct gpu *gpu)
{
	for (int i = 0; i < STREAMS; i++)
		if (gpu->streams[i].first ||
		    gpu->streams[i].ended != gpu->streams[i].posted)
			return true;
	return false;
}

static int turn(struct gpu *gpu)
{
	CUresult err = CUDA_SUCCESS;
	int found = 0;

	gpu->touched = 0;
	if (!is_busy(gpu))
		return 0;
	err = cuda_enter(gpu->device);
	if (!err) {
		for (int i = 0; i < STREAMS && !err; i++) {
			found |= reap(&gpu->streams[i], &err);
			if (!err)
				err = post(&gpu->streams[i]);
		}
		cuda_leave(gpu->device);
	}
	if (err) {
		fail_all(gpu, err);
		return 1;
	}
	return found || gpu->touched;
}

/* The hook. */

static int poll_all(void *arg)
{
	struct engine *e = arg;
	int found = 0;

	for (struct gpu *gpu = e->gpus; gpu; gpu = gpu->next)
		found |= turn(gpu);
	return found;
}

/* On a thread of the driver's, which may not call it. */
static void on_host(void *arg)
{
	struct engine *e = arg;

	eventfd_write(e->fd, 1);
}

/* The driver has nothing of its jobs, which a turn's limit on staging has kept back. */
static bool has_to_post(const struct stream *s)
{
	return s->first && s->b_ended == s->b_posted;
}

static CUresult tell(struct stream *s)
{
	const struct cuda_driver *d = s->gpu->device->driver;
	struct batch *batch = &s->batches[s->b_ended % BATCHES];
	CUresult err;

	if (s->b_ended == s->b_posted || batch->told)
		return CUDA_SUCCESS;
	err = d->stream_wait(s->gpu->tells, batch->event, 0);
	if (!err)
		err = d->host_func(s->gpu->tells, on_host, s->gpu->engine);
	batch->told = !err;
	return err;
}

/* The turn that it makes polls. */
static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
}

static int before_sleep(void *arg, int *fd)
{
	struct engine *e = arg;
	bool is_any = false;
	CUresult err;

	*fd = e->fd;
	for (struct gpu *gpu = e->gpus; gpu; gpu = gpu->next) {
		if (!is_busy(gpu))
			continue;
		is_any = true;
		for (int i = 0; i < STREAMS; i++)
			if (has_to_post(&gpu->streams[i]))
				return 1;
		err = cuda_enter(gpu->device);
		if (!err) {
			for (int i = 0; i < STREAMS && !err; i++)
				err = tell(&gpu->streams[i]);
			cuda_leave(gpu->device);
		}
		if (cuda_is_fatal(err)) {
			fail_all(gpu, err);
			return 1;
		}
		if (err)
			return cuda_errno(err);
	}
	/* An event that came before the eventfd could tell is signalled there. */
	if (is_any)
		weir_timer_start(e->timer, weir_reactor_now(e->reactor) + LOOK_NS,
				 0);
	else
		weir_timer_stop(e->timer);
	return 0;
}

static void after_sleep(void *arg, int readable)
{
	struct engine *e = arg;
	eventfd_t n;

	if (readable)
		eventfd_read(e->fd, &n);
}

static const struct weir_poll_hook_ops hook_ops = {
	.size = sizeof(hook_ops), .name = "cuda", .poll = poll_all,
	.before_sleep = before_sleep, .after_sleep = after_sleep,
};

/* A GPU is made ready at the first job that uses it. */

static void gpu_free(struct gpu *gpu)
{
	const struct cuda_driver *d = gpu->device->driver;
	struct stream *s;

	if (!cuda_enter(gpu->device)) {
		if (gpu->tells) {
			d->stream_sync(gpu->tells);
			d->stream_destroy(gpu->tells);
		}
		for (int i = 0; i < STREAMS; i++) {
			s = &gpu->streams[i];
			if (s->stream)
				d->stream_destroy(s->stream);
			for (int k = 0; k < BATCHES; k++)
				if (s->batches[k].event)
					d->event_destroy(s->batches[k].event);
		}
		if (gpu->staging)
			d->host_free(gpu->staging);
		cuda_leave(gpu->device);
	}
	cuda_unref(gpu->device);
	free(gpu);
}

static CUresult stream_init(struct stream *s, struct gpu *gpu)
{
	const struct cuda_driver *d = gpu->device->driver;
	CUresult err = d->stream_create(&s->stream, CU_STREAM_NON_BLOCKING);

	s->gpu = gpu;
	s->last = &s->first;
	for (int i = 0; i < BATCHES && !err; i++)
		err = d->event_create(&s->batches[i].event,
				      CU_EVENT_DISABLE_TIMING);
	return err;
}

static int refuse(const struct cuda_device *device, CUresult err)
{
	return weir_why_set(cuda_is_fatal(err) ? -EIO : cuda_errno(err),
			    "weir_job_start: cuda%d: %s%s", device->number,
			    cuda_error(err), cuda_is_fatal(err) ?
			    "; the driver works again in another process" : "");
}

static int gpu_make(struct gpu **ret, struct engine *e,
		    struct cuda_device *device)
{
	struct gpu *gpu = weir_fault("malloc") ? NULL : calloc(1, sizeof(*gpu));
	CUresult err;

	if (!gpu)
		return weir_why_set(-ENOMEM, "weir_job_start: no memory");
	gpu->engine = e;
	gpu->device = device;
	cuda_ref(device);
	err = cuda_enter(device);
	if (!err) {
		err = device->driver->stream_create(&gpu->tells,
						    CU_STREAM_NON_BLOCKING);
		for (int i = 0; i < STREAMS && !err; i++)
			err = stream_init(&gpu->streams[i], gpu);
		cuda_leave(device);
	}
	if (err) {
		gpu_free(gpu);
		return refuse(device, err);
	}
	gpu->next = e->gpus;
	*ret = e->gpus = gpu;
	return 0;
}

static int make_hook(struct engine *e)
{
	int err = 0;

	if (e->hook)
		return 0;
	if (e->fd < 0 && !weir_fault("eventfd"))
		e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->fd < 0)
		return weir_why_set(-EMFILE, "weir_job_start: no eventfd for the "
				    "engine cuda; see ulimit -n");
	if (!e->timer)
		err = weir_timer_create(&e->timer, e->reactor, on_timer, NULL);
	return err ? err :
		     weir_poll_hook_create(&e->hook, e->reactor, &hook_ops, e);
}

static int gpu_of(struct gpu **ret, struct engine *e, struct cuda_device *device)
{
	struct gpu *gpu = e->gpus;
	int err;

	while (gpu && gpu->device != device)
		gpu = gpu->next;
	if (gpu) {
		*ret = gpu;
		return 0;
	}
	err = make_hook(e);
	return err ? err : gpu_make(ret, e, device);
}

static int make_staging(struct gpu *gpu)
{
	void *p = NULL;
	CUresult err;

	if (gpu->staging)
		return 0;
	err = cuda_enter(gpu->device);
	if (!err) {
		err = gpu->device->driver->host_alloc(&p, SLOT * SLOTS,
						      CU_MEMHOSTALLOC_PORTABLE);
		cuda_leave(gpu->device);
	}
	if (err)
		return refuse(gpu->device, err);
	gpu->staging = p;
	for (gpu->n_slots = 0; gpu->n_slots < SLOTS; gpu->n_slots++)
		gpu->slots[gpu->n_slots] = gpu->staging + gpu->n_slots * SLOT;
	return 0;
}

/* Jobs, at their start. */

static bool is_within(const struct cuda_range *range, uint64_t addr, uint64_t len)
{
	return range->len && addr >= range->start && len <= range->len &&
	       addr - range->start <= range->len - len;
}

/* Whether all of @addr is memory that the driver knows, of a GPU or page-locked. */
static bool is_known(struct gpu *gpu, uint64_t addr, uint64_t len, bool is_host)
{
	uint64_t frees = atomic_load_explicit(&cuda_frees, memory_order_relaxed);
	struct cuda_range range;

	if (gpu->frees != frees) {
		gpu->known.len = 0;
		gpu->frees = frees;
	}
	if (!is_host && is_within(&gpu->known, addr, len))
		return true;
	if (cuda_enter(gpu->device))
		return false;
	range = cuda_look_up(gpu->device, addr);
	cuda_leave(gpu->device);
	if (range.is_host != is_host || !is_within(&range, addr, len))
		return false;
	/* It has a domain of its own, whose jobs are counted. */
	if (!is_host && cuda_is_imported(range.start))
		return false;
	/* What is not ours the program may free without our knowing: the driver
	 * takes a GPU's address that it does not know for one of this process. */
	if (!is_host && cuda_has_allocated(range.start))
		gpu->known = range;
	return true;
}

/* Returns whether all pieces of a side of @job are such memory. */
static bool side_is_known(struct gpu *gpu, const struct weir_job *job, int side,
			  bool is_host)
{
	struct iovec iov[PIECES];
	uint64_t at = 0;
	uint32_t n, i;

	while ((n = weir_job_pieces(job, side, at, iov, PIECES)))
		for (i = 0; i < n; at += iov[i++].iov_len)
			if (!is_known(gpu, (uintptr_t)iov[i].iov_base,
				      iov[i].iov_len, is_host))
				return false;
	return true;
}

/* Bufs of an mmap with this device are page-locked. */
static bool bufs_are_locked(struct gpu *gpu, const struct weir_job *job, int side)
{
	struct weir_device *dev = atomic_load(&gpu->device->dev);
	struct weir_provider_key keys[PIECES];
	struct iovec iov[PIECES];
	uint64_t at = 0;
	uint32_t n, i;

	if (!dev)
		return false;
	while ((n = weir_job_pieces(job, side, at, iov, PIECES))) {
		if (weir_job_keys(job, side, at, dev, NULL, keys, n) !=
		    (int)n)
			return false;
		for (i = 0; i < n; i++)
			at += iov[i].iov_len;
	}
	return true;
}

static bool is_staged(struct gpu *gpu, const struct weir_job *job, int side)
{
	const struct weir_operand *o = side == WEIR_JOB_SRC ? &job->src :
							      &job->dst;

	if (o->buf && bufs_are_locked(gpu, job, side))
		return false;
	return !side_is_known(gpu, job, side, true);
}

/* An import's domain has its bounds; of a device only the driver knows what is there. */
static bool is_there(struct gpu *gpu, const struct weir_job *job, int side,
		     const struct cuda_space *space)
{
	return !space || space->import || side_is_known(gpu, job, side, false);
}

static int check(struct gpu *gpu, struct weir_job *job,
		 const struct cuda_space *src, const struct cuda_space *dst)
{
	struct cuda_job *p = part_of(job);

	if (!is_there(gpu, job, WEIR_JOB_SRC, src) ||
	    !is_there(gpu, job, WEIR_JOB_DST, dst))
		return weir_why_set(-ERANGE, "weir_job_start: an address is not in "
				    "one allocation of the memory of a GPU; what "
				    "was imported is in a domain of its own");
	*p = (struct cuda_job){ .stream = &gpu->streams[WITHIN] };
	p->src = src ? src->import : NULL;
	p->dst = dst ? dst->import : NULL;
	if (job->kind == WEIR_JOB_FILL || (src && dst))
		return 0;
	p->stream = &gpu->streams[dst ? TO_GPU : FROM_GPU];
	p->staged = is_staged(gpu, job, dst ? WEIR_JOB_SRC : WEIR_JOB_DST);
	return p->staged ? make_staging(gpu) : 0;
}

static bool is_memory(const struct weir_domain *d)
{
	uint32_t kind = weir_domain_kind(d);

	return kind == WEIR_DOMAIN_SYSTEM || kind == WEIR_DOMAIN_HUGEPAGE;
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	bool src = q->src && cuda_space_of(q->src);
	bool dst = q->dst && cuda_space_of(q->dst);

	(void)arg;
	*why = "only copies and fills of memory of a GPU";
	switch (q->kind) {
	case WEIR_JOB_FILL:
		return dst;
	case WEIR_JOB_COPY:
	case WEIR_JOB_PULL:
	case WEIR_JOB_PUSH:
		return (src || dst) && (src || is_memory(q->src)) &&
		       (dst || is_memory(q->dst));
	default:
		return 0;
	}
}

static int start(void *arg, struct weir_job *job)
{
	struct weir_domain *d = weir_job_domain(job, WEIR_JOB_SRC);
	const struct cuda_space *src = d ? cuda_space_of(d) : NULL;
	const struct cuda_space *dst;
	struct cuda_device *device;
	struct gpu *gpu = NULL;
	int err;

	dst = cuda_space_of(weir_job_domain(job, WEIR_JOB_DST));
	if (!src && !dst)
		return -EXDEV;
	device = dst ? dst->device : src->device;
	err = atomic_load_explicit(&device->lost, memory_order_relaxed);
	if (err)
		return refuse(device, err);
	err = gpu_of(&gpu, arg, device);
	if (!err)
		err = check(gpu, job, src, dst);
	if (!err && enter_imports(part_of(job)))
		err = refuse_stale(job, part_of(job));
	if (!err)
		queue_push(part_of(job)->stream, job);
	return err;
}

static void cancel(void *arg, struct weir_job *job)
{
	struct cuda_job *p = part_of(job);

	(void)arg;
	if (!p->pprev)
		return; /* All of it was posted: too late. */
	p->res = -ECANCELED;
	queue_del(p->stream, p);
	if (!p->in_flight)
		end(job, p);
}

static void flush(void *arg)
{
	struct engine *e = arg;
	CUresult err;

	for (struct gpu *gpu = e->gpus; gpu; gpu = gpu->next) {
		if (!is_busy(gpu))
			continue;
		err = cuda_enter(gpu->device);
		if (!err) {
			for (int i = 0; i < STREAMS && !err; i++)
				err = post(&gpu->streams[i]);
			cuda_leave(gpu->device);
		}
		if (err)
			fail_all(gpu, err);
	}
}

const struct weir_engine_ops cuda_engine_ops = {
	.size = sizeof(cuda_engine_ops), .name = "cuda",
	.flags = WEIR_ENGINE_FOREIGN | WEIR_ENGINE_NO_FILES,
	.can = can, .start = start,
	.cancel = cancel, .flush = flush,
};

int cuda_engine_open(void *arg, struct weir_reactor *r, void **engine)
{
	struct engine *e;

	(void)arg;
	if (!cuda_driver_is_there())
		return -ENODEV;
	e = weir_fault("malloc") ? NULL : calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->reactor = r;
	e->fd = -1;
	*engine = e;
	return 0;
}

static void engine_free(struct engine *e)
{
	if (e->fd >= 0)
		close(e->fd);
	free(e);
}

void cuda_engine_close(void *engine)
{
	struct engine *e = engine;
	struct cuda_device *lost;
	struct gpu *gpu;

	weir_poll_hook_destroy(e->hook);
	weir_timer_destroy(e->timer);
	while ((gpu = e->gpus)) {
		e->gpus = gpu->next;
		gpu_free(gpu);
	}
	/* After a failure the driver may call the function until its context has
	 * ended. */
	lost = e->lost;
	if (!lost) {
		engine_free(e);
		return;
	}
	cuda_keep(lost, e, &e->next_kept);
	cuda_unref(lost);
}

void cuda_engines_free(struct engine *e)
{
	struct engine *next;

	for (; e; e = next) {
		next = e->next_kept;
		engine_free(e);
	}
}
