/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client may say to weir-nbd.  The first byte of the input says whether
 * it begins with the handshake or after a good one, to which export, and with
 * which replies; the second into how large pieces the rest is cut.
 *
 * Whatever it is, the connection ends when the client has said all, everything
 * is given back, and a stream of structured replies can be taken apart.
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/domain.h>

#include "programs/block/backing.h"
#include "programs/weir-nbd/weir-nbd.h"
#include "tests/fuzz/fuzz-fixture.h"

const char fuzz_name[] = "nbd";

#define EXPORT_SIZE (300u << 10)	/* More than a piece. */
#define TURNS_MAX 1000000

/* How the replies are taken apart. */
struct stream {
	uint64_t skip;		/* Bytes that are not looked at. */
	uint8_t head[20];
	size_t have;
};

static struct {
	struct weir_reactor *r;
	struct server server;
	int fd;			/* The client's. */
	bool checked;		/* Replies are structured. */
	struct stream s;
} f;

void core_check_end(struct core *core)
{
	(void)core;
}

void usage_error(const char *fmt, ...)
{
	(void)fmt;
	abort();
}

/* As a plugin brings it: memory, reached by jobs. */
static void begin_plugin(struct block *x)
{
	static uint8_t bytes[EXPORT_SIZE];
	struct nbd_plugin_export brought = { .domain = weir_domain_system(),
					     .addr = (uintptr_t)bytes,
					     .flags = NBD_PLUGIN_FILLS };

	*x = (struct block){ .name = "p",
			      .text = "from a plugin",
			      .fd = -1,
			      .size = EXPORT_SIZE,
			      .block_min = 1,
			      .backing = &domain_backing,
			      .plugin = { .brought = brought, .open = true } };
	x->can = BLOCK_CAN_WRITE | BLOCK_CAN_TRIM | BLOCK_CAN_ZERO;
}

static void begin_once(void)
{
	struct core *core = &f.server.cores[0];
	struct block *x = f.server.exports;

	signal(SIGPIPE, SIG_IGN);
	MUST(!weir_reactor_create(&f.r, NULL));
	core->server = &f.server;
	core->reactor = f.r;
	f.server.n_cores = 1;
	f.server.opts.timeout_s = 30;
	f.server.opts.handshake_s = 10;
	f.server.n_exports = 3;
	x[0] = (struct block){ .name = "m", .text = "", .fd = -1,
				.size = EXPORT_SIZE };
	MUST(!block_open(&x[0]));
	x[1] = x[0];
	x[1].name = "f";
	x[1].text = "a file";
	x[1].backing = &file_backing;
	x[1].base = NULL;
	x[1].fd = memfd_create("export", MFD_CLOEXEC);
	MUST(x[1].fd >= 0 && !ftruncate(x[1].fd, EXPORT_SIZE));
	begin_plugin(&x[2]);
	MUST(!block_core_begin(&core->block, f.r, x, 3, REQUESTS));
}

static uint8_t *put_option(uint8_t *p, uint32_t option, const void *data,
			   uint32_t len)
{
	p = put64(p, NBD_OPTION_MAGIC);
	p = put32(put32(p, option), len);
	memcpy(p, data, len);
	return p + len;
}

/* A handshake with which nothing is wrong; returns its length. */
static size_t good_hello(uint8_t *buf, char name, bool structured)
{
	uint8_t go[] = { 0, 0, 0, 1, (uint8_t)name, 0, 0 };
	uint8_t meta[] = "\0\0\0\1x\0\0\0\1\0\0\0\17base:allocation";
	uint8_t *p = put32(buf, 3);

	meta[4] = (uint8_t)name;
	if (structured) {
		p = put_option(p, NBD_OPT_STRUCTURED_REPLY, "", 0);
		p = put_option(p, NBD_OPT_SET_META_CONTEXT, meta,
			       sizeof(meta) - 1);
		f.s.skip += 20 + 39 + 20;
	}
	p = put_option(p, NBD_OPT_GO, go, sizeof(go));
	f.s.skip += 18 + 32 + 20;
	return (size_t)(p - buf);
}

/* What follows the header that is there. */
static uint64_t payload(const uint8_t *head)
{
	if (get32(head) == NBD_SIMPLE_REPLY_MAGIC)
		return 0;
	MUST(get32(head) == NBD_STRUCTURED_REPLY_MAGIC);
	MUST(get16(head + 4) <= NBD_REPLY_FLAG_DONE);
	MUST(get32(head + 16) <= PIECE + 8);
	return get32(head + 16);
}

static size_t head_len(const struct stream *s)
{
	if (s->have < 4)
		return 4;
	return get32(s->head) == NBD_SIMPLE_REPLY_MAGIC ? 16 : 20;
}

static void check_replies(const uint8_t *p, size_t len)
{
	struct stream *s = &f.s;

	while (len) {
		size_t want = s->skip ? s->skip : head_len(s) - s->have;
		size_t n = want < len ? want : len;

		if (s->skip) {
			s->skip -= n;
		} else {
			memcpy(s->head + s->have, p, n);
			s->have += n;
		}
		if (s->have >= 16 && s->have == head_len(s)) {
			s->skip = payload(s->head);
			s->have = 0;
		}
		p += n;
		len -= n;
	}
}

static void drain(void)
{
	static uint8_t buf[65536];
	ssize_t n;

	do {
		n = recv(f.fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0 && f.checked)
			check_replies(buf, (size_t)n);
	} while (n == sizeof(buf));
}

/* Say it in pieces of @piece, until the server has had enough.  They become
 * longer, and replies wait meanwhile: what is long is not to cost much more. */
static void converse(const uint8_t *data, size_t len, size_t piece)
{
	unsigned int turns = 0;
	bool said = false;

	while (f.server.cores[0].conns) {
		size_t want = len < piece ? len : piece;
		ssize_t n = len ? send(f.fd, data, want, MSG_DONTWAIT |
				       MSG_NOSIGNAL) : 0;

		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else {
			drain();
		}
		if (!len && !said) {
			said = true;
			shutdown(f.fd, SHUT_WR);
		}
		MUST(weir_reactor_turn(f.r, n > 0 ? 0 : WEIR_MSEC) >= 0);
		MUST(++turns < TURNS_MAX);
		if (turns % 16 == 0)
			piece *= 2;
	}
	drain();
}

/* Which export it is, if it is one after a good handshake. */
static char name_of(uint8_t first)
{
	if (first & 8)
		return 'p';
	return first & 2 ? 'f' : 'm';
}

static void check_all_is_back(void)
{
	MUST(f.server.cores[0].n_conns == 0);
	MUST(f.server.cores[0].n_hellos == 0);
	MUST(weir_dma_in_flight(f.server.cores[0].block.dma) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t all[65536 + 512];
	struct core *core = &f.server.cores[0];
	struct conn *c;
	size_t len = 0;
	int pair[2];

	if (!f.r)
		begin_once();
	if (size < 2 || size > 65536)
		return 0;
	memset(&f.s, 0, sizeof(f.s));
	f.checked = (data[0] & 5) == 5;
	if (data[0] & 1)
		len = good_hello(all, name_of(data[0]), data[0] & 4);
	memcpy(all + len, data + 2, size - 2);
	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	f.fd = pair[0];
	c = conn_make(&f.server, core, NULL, pair[1]);
	MUST(c);
	conn_adopt(c);
	converse(all, len + size - 2, data[1] ? data[1] : sizeof(all));
	check_all_is_back();
	close(f.fd);
	return 0;
}
