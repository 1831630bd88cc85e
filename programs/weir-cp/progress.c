/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Progress: bytes, rate, and when it will be done.
 *
 * How much there is to do is counted beside the copying, on a worker: until
 * that is finished nothing is said about the end.
 */
#define _GNU_SOURCE 1
#include <ftw.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <weir/timer.h>

#include "weir-cp.h"

#define PERIOD_TTY (100 * WEIR_MSEC)
#define PERIOD (1 * WEIR_SEC)
/* A file that takes less is not worth a line that comes and goes. */
#define FIRST (500 * WEIR_MSEC)

/* nftw() has no argument for its user; there is one counting at a time. */
static struct cp *counting;

static int count_one(const char *path, const struct stat *st, int type,
		     struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	if (type == FTW_F && S_ISREG(st->st_mode)) {
		atomic_fetch_add(&counting->total,
				 (unsigned long long)st->st_size);
		atomic_fetch_add(&counting->total_files, 1);
	}
	return atomic_load(&counting->stop);
}

static int64_t count_work(void *arg)
{
	struct cp *cp = arg;
	int flags = cp->opts.follow == FOLLOW_ALL ? 0 : FTW_PHYS;
	int err = 0;

	counting = cp;
	for (int i = 0; i < cp->opts.n_sources && !err; i++)
		err = nftw(cp->opts.sources[i], count_one, 4, flags);
	return err;
}

static void on_counted(struct weir_op *op, int64_t res)
{
	struct cp *cp = weir_container_of(op, struct cp, count_op);

	/* Without it, there is no estimate; that is all. */
	atomic_store(&cp->counted, res == 0);
	cp_idle(cp);
}

void print_size(char *buf, size_t len, double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB",
					     "PiB" };
	int i = 0;

	for (; bytes >= 1000 && i < 5; i++)
		bytes /= 1024;
	snprintf(buf, len, i && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes,
		 units[i]);
}

static void print_total(struct cp *cp, double total)
{
	char size[16];

	print_size(size, sizeof(size), total);
	fprintf(stderr, " of %s, %.0f %%", size,
		total > 0 ? (double)cp->bytes * 100 / total : 100);
}

static void print_time_left(struct cp *cp, double total)
{
	double left = total - (double)cp->bytes;
	uint64_t s;

	if (cp->rate < 1)
		return;
	s = left > 0 ? (uint64_t)(left / cp->rate) : 0;
	if (s >= 3600)
		fprintf(stderr, ", %" PRIu64 ":%02" PRIu64, s / 3600,
			s / 60 % 60);
	else
		fprintf(stderr, ", %" PRIu64, s / 60);
	fprintf(stderr, ":%02" PRIu64 " left", s % 60);
}

/* The largest file in flight: it may be all that there is to see for long. */
static void print_largest(struct cp *cp)
{
	const struct file *largest = NULL;
	char done[16], size[16];

	for (uint32_t i = 0; i < cp->files_max; i++) {
		const struct file *f = &cp->files[i];

		if (f->state == FILE_MOVING &&
		    (!largest || f->st.st_size > largest->st.st_size))
			largest = f;
	}
	if (!largest)
		return;
	print_size(done, sizeof(done), (double)largest->counted);
	print_size(size, sizeof(size), (double)largest->st.st_size);
	fputs("; ", stderr);
	print_name(stderr, largest->name);
	fprintf(stderr, "%s %s of %s", largest->comparing ? " being verified:" : ":",
		done, size);
}

static void show(struct cp *cp)
{
	char done[16], rate[16];
	bool counted = atomic_load(&cp->counted);

	print_size(done, sizeof(done), (double)cp->bytes);
	print_size(rate, sizeof(rate), cp->rate);
	if (cp->tty)
		fputs("\r\033[K", stderr);
	fprintf(stderr, "%" PRIu64, cp->n_files);
	if (counted)
		fprintf(stderr, " of %llu", atomic_load(&cp->total_files));
	fprintf(stderr, " files, %s", done);
	if (counted)
		print_total(cp, (double)atomic_load(&cp->total));
	fprintf(stderr, ", %s/s", rate);
	if (counted)
		print_time_left(cp, (double)atomic_load(&cp->total));
	print_largest(cp);
	if (!cp->tty)
		putc('\n', stderr);
	cp->shown = true;
}

/* The rate of the last seconds: older ones count less and less. */
static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct cp *cp = arg;
	uint64_t now = weir_reactor_now(cp->reactor);
	double s = (double)(now - cp->shown_ns) / 1e9;
	double rate;

	(void)timer;
	(void)n;
	if (s <= 0)
		return;
	rate = cp->bytes > cp->shown_bytes ?
		       (double)(cp->bytes - cp->shown_bytes) / s : 0;
	if (cp->shown_bytes)
		rate = cp->rate + (rate - cp->rate) * s / (s + 2);
	cp->rate = rate;
	cp->shown_bytes = cp->bytes;
	cp->shown_ns = now;
	show(cp);
}

static bool wanted(struct cp *cp)
{
	cp->tty = isatty(STDERR_FILENO);
	if (cp->opts.quiet)
		return false;
	return cp->opts.progress || (cp->tty && !cp->opts.json);
}

int progress_start(struct cp *cp)
{
	uint64_t now = weir_reactor_now(cp->reactor);
	int err;

	if (!wanted(cp))
		return 0;
	err = weir_timer_create(&cp->timer, cp->reactor, on_timer, cp);
	if (err)
		return err;
	cp->shown_ns = now;
	if (cp->opts.progress)
		show(cp);
	weir_timer_start(cp->timer, now + FIRST,
			 cp->tty ? PERIOD_TTY : PERIOD);
	weir_op_init(&cp->count_op, on_counted);
	cp_busy(cp);
	err = weir_work(cp->reactor, &cp->count_op, count_work, cp);
	if (err)
		cp->busy--;
	return err;
}

/* Before something else is written: the line with the progress goes. */
void progress_clear(struct cp *cp)
{
	if (cp->shown && cp->tty)
		fputs("\r\033[K", stderr);
}

void progress_stop(struct cp *cp)
{
	progress_clear(cp);
	weir_timer_destroy(cp->timer);
	cp->timer = NULL;
}
