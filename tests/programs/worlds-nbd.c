/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-nbd, as it is, through kills and power cuts of its host: what it has
 * acknowledged is there as long as the host has power, and what was flushed, or
 * written with FUA, is there in any case.
 *
 * A client writes numbers to sectors, each greater than those before, and knows of
 * each sector the least number that it may have now (.least), and after a power cut
 * (.durable).  A write that was in flight when a connection ended may still happen
 * until the server's program ends (.loose).  An answer may arrive after that, and is
 * true of the time before.  After an error of a flush nothing more becomes durable
 * until the power was cut: the page cache may have forgotten what it did not write,
 * and the kernel tells that once.  So it is if no client heard of the error.  After
 * that of a write with FUA the flushes of the same program tell the truth.
 */

#include "tests/programs/worlds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/sim/file.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/timer.h>

#include "programs/weir-nbd/weir-nbd.h"

#define SECTOR 512u
#define SECTORS 1024u
#define DEPTH 8u
#define MOST 700u		/* Sectors of a request: more than a piece. */
#define TIMEOUT_NS (500 * WEIR_MSEC) /* Without an answer. */
#define END_NS (600 * WEIR_SEC)	/* Until all is well again, without faults. */

/* The server: what main() of weir-nbd does, without its threads. */
static struct {
	struct weir_sim_host *host;
	struct weir_reactor *r;
	struct server *server;
} server;

static void server_start(struct weir_sim_host *host, void *arg)
{
	char *argv[] = { "weir-nbd", "--export=path=disk.img",
			 "--address=10.0.0.1", "--quiet", NULL };

	(void)host, (void)arg;
	optind = 1;
	server.r = reactor_here();
	MUST("weir-nbd takes its options",
	     server_create(&server.server, 4, argv) < 0);
	MUST("weir-nbd opens its file and socket", !server_open(server.server));
	MUST("weir-nbd begins", !core_begin(server.server, 0, server.r));
}

/* A connection that was accepted and not adopted yet is in the mailbox alone, which
 * a killed program leaves behind: leaks are not looked for. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return 1;
}

/* The system takes a process's memory back; here it has to be found. */
static void server_gone(void *arg)
{
	struct conn *c, *next;

	(void)arg;
	for (c = server.server->cores[0].conns; c; c = next) {
		next = c->next;
		if (c->slab)
			munmap(c->slab, SLAB_BYTES);
		free(c);
	}
	free(server.server);
	server.server = NULL;
}

/* The client. */

struct sector {
	uint32_t newest;	/* That was sent. */
	uint32_t least, durable;
	uint32_t loose;		/* The least that may still happen; 0: none. */
	uint32_t zeroed;	/* The newest that is zeros. */
	bool busy;		/* A write is in flight. */
	bool torn;		/* There may be something of several writes: the
				 * newest is not durable. */
};

struct want {
	uint16_t type, flags;
	uint32_t first, n;	/* Sectors. */
	uint32_t number;
	uint32_t program, power;	/* Of the server, when it was sent, */
	uint64_t errors;		/* and errors that the world had drawn. */
	uint32_t snapshot[SECTORS];	/* A flush: .least when it was sent. */
	bool used;
	bool late;		/* A flush of this program had failed before. */
};

enum step { GREETING_IN, CHOICE_OUT, CHOICE_IN, REPLY_IN, DATA_IN };

static struct client {
	struct weir_sim *sim;
	struct weir_reactor *r;
	struct weir_op rx, tx, pause;
	int fd;
	enum step step;
	bool connected, sending, checks, done;
	/* Of flushes, in this period of power, and in the one before: one has
	 * failed; after so many errors one began whose end is not known (plus
	 * 1; 0: none). */
	bool doubt[2];
	uint64_t unknown[2];
	uint32_t left;		/* Requests that are to be made, */
	uint32_t most;		/* of so many sectors at most. */
	uint32_t number, at;	/* The last number; the next sector to check. */
	uint32_t program, power; /* Of the server: how often each has ended. */
	bool lost;		/* A flush of this program has failed; */
	bool suspect;		/* or a write with FUA. */
	struct want wants[DEPTH], *reading;
	struct sector sectors[SECTORS];
	uint64_t verified;
	uint8_t in[MOST * SECTOR], head[64];
	uint8_t out[NBD_REQUEST_BYTES + MOST * SECTOR];
} client;

static uint32_t least_of(uint32_t a, uint32_t b)
{
	return b && b < a ? b : a;
}

static bool zeroes_it(const struct want *w)
{
	return w->type == NBD_CMD_WRITE_ZEROES || w->type == NBD_CMD_TRIM;
}

static bool flushes(const struct want *w)
{
	return w->type == NBD_CMD_FLUSH || w->flags & NBD_CMD_FLAG_FUA;
}

static uint64_t n_errors(void)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };

	weir_sim_stats(client.sim, &stats);
	return stats.faults[WEIR_SIM_ERROR];
}

static bool changes(const struct want *w)
{
	return w->type == NBD_CMD_WRITE || zeroes_it(w);
}

/* The connection is over: what became of requests in flight is not known. */
static void lose_wants(void)
{
	for (uint32_t i = 0; i < DEPTH; i++) {
		struct want *w = &client.wants[i];
		uint32_t ago = client.power - w->power;

		for (uint32_t n = 0; w->used && n < w->n; n++) {
			struct sector *s = &client.sectors[w->first + n];

			s->busy = false;
			if (changes(w) && w->program == client.program &&
			    (!s->loose || w->number < s->loose))
				s->loose = w->number;
		}
		if (w->used && flushes(w) && ago <= 1 &&
		    (!client.unknown[ago] || w->errors < client.unknown[ago]))
			client.unknown[ago] = w->errors + 1;
		w->used = false;
	}
}

/* The server's program has ended: nothing is loose any more, and what is not
 * durable may be lost with the power. */
static void server_ended(bool power)
{
	for (uint32_t i = 0; i < SECTORS; i++) {
		struct sector *s = &client.sectors[i];

		s->least = least_of(s->least, s->loose);
		s->loose = 0;
		if (power)
			s->least = s->durable;
	}
	client.program++;
	client.lost = false;
	client.doubt[0] |= client.suspect;
	client.suspect = false;
	if (!power)
		return;
	client.power++;
	client.doubt[1] = client.doubt[0];
	client.doubt[0] = false;
	client.unknown[1] = client.unknown[0];
	client.unknown[0] = 0;
}

static void connect_later(uint64_t ns);
static void go_on(void);

static void drop(void)
{
	if (client.fd < 0)
		return;
	lose_wants();
	client.connected = false;
	weir_op_cancel(&client.rx);
	weir_op_cancel(&client.tx);
	close(client.fd);
	client.fd = -1;
	connect_later(WEIR_MSEC * (1 + draw(client.sim, 200)));
}

/* Requests. */

static void fill(uint8_t *to, uint32_t sector, uint32_t number)
{
	for (uint32_t i = 0; i < SECTOR; i += 8) {
		memcpy(to + i, &sector, 4);
		memcpy(to + i + 4, &number, 4);
	}
}

static void choose(struct want *w)
{
	static const uint16_t types[] = {
		NBD_CMD_WRITE, NBD_CMD_WRITE, NBD_CMD_WRITE, NBD_CMD_WRITE,
		NBD_CMD_READ, NBD_CMD_READ, NBD_CMD_FLUSH, NBD_CMD_FLUSH,
		NBD_CMD_WRITE_ZEROES, NBD_CMD_TRIM
	};
	w->type = types[draw(client.sim, 10)];
	w->n = 1 + draw(client.sim, client.most);
	w->first = draw(client.sim, SECTORS - w->n + 1);
	w->flags = changes(w) && !draw(client.sim, 4) ? NBD_CMD_FLAG_FUA : 0;
}

/* No two requests at a time concern one sector, for then it would not be known which
 * came first. */
static bool is_free(const struct want *w)
{
	for (uint32_t i = 0; i < w->n && w->type != NBD_CMD_FLUSH; i++)
		if (client.sectors[w->first + i].busy)
			return false;
	return true;
}

static void begin(struct want *w)
{
	w->used = true;
	w->program = client.program;
	w->power = client.power;
	w->errors = n_errors();
	w->late = client.lost;
	if (w->type == NBD_CMD_FLUSH) {
		w->first = w->n = 0;
		for (uint32_t i = 0; i < SECTORS; i++)
			w->snapshot[i] = client.sectors[i].least;
		return;
	}
	if (changes(w))
		w->number = ++client.number;
	for (uint32_t i = 0; i < w->n; i++) {
		struct sector *s = &client.sectors[w->first + i];

		s->busy = true;
		if (changes(w))
			s->newest = w->number;
		s->torn |= changes(w);
		if (zeroes_it(w))
			s->zeroed = w->number;
	}
}

static void on_tx(struct weir_op *op, int64_t res)
{
	(void)op;
	client.sending = false;
	if (res < 0)
		drop();
	else
		go_on();
}

static void send_want(struct want *w)
{
	uint8_t *p = put32(client.out, NBD_REQUEST_MAGIC);
	size_t len = NBD_REQUEST_BYTES;

	begin(w);
	p = put16(p, w->flags);
	p = put16(p, w->type);
	p = put64(p, (uint64_t)(w - client.wants));
	p = put64(p, w->first * SECTOR);
	put32(p, w->n * SECTOR);
	for (uint32_t i = 0; i < w->n && w->type == NBD_CMD_WRITE; i++) {
		fill(client.out + len, w->first + i, w->number);
		len += SECTOR;
	}
	weir_op_init(&client.tx, on_tx);
	client.sending = true;
	if (weir_send(client.r, &client.tx, client.fd, client.out, len, 0)) {
		client.sending = false;
		drop();
	}
}

static struct want *free_want(void)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if (!client.wants[i].used)
			return &client.wants[i];
	return NULL;
}

static bool is_idle(void)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if (client.wants[i].used)
			return false;
	return true;
}

/* The next request, if there is place for it. */
static void go_on(void)
{
	struct want *w = free_want();

	if (!client.connected || client.sending || !w)
		return;
	if (client.checks && client.at < SECTORS) {
		*w = (struct want){ .type = NBD_CMD_READ, .first = client.at,
				    .n = 16 };
		if (!is_free(w))
			return;
		client.at += 16;
		send_want(w);
	} else if (client.checks) {
		client.done = is_idle();
	} else if (client.left) {
		choose(w);
		if (!is_free(w))
			return;
		client.left--;
		send_want(w);
	}
}

/* Answers. */

/* The number of the eight bytes at @data. */
static uint32_t number_at(const struct sector *s, uint32_t i,
			  const uint8_t *data)
{
	uint32_t least = least_of(s->least, s->loose), where, number;

	memcpy(&where, data, 4);
	memcpy(&number, data + 4, 4);
	if (!where && !number && s->zeroed >= least)
		return s->zeroed;
	if (where != i || number < least || number > s->newest)
		weir_sim_violation("what was acknowledged is there",
				   "sector %u has %u of %u, not %u to %u", i,
				   number, where, least, s->newest);
	return number;
}

static void check(const struct want *w, uint32_t i, const uint8_t *data)
{
	struct sector *s = &client.sectors[i];
	uint32_t number = number_at(s, i, data);
	bool whole = true;

	for (uint32_t at = 8; at < SECTOR; at += 8)
		whole &= number_at(s, i, data + at) == number;
	if (!whole && !s->torn)
		weir_sim_violation("a sector is as it was written",
				   "sector %u has %u and others", i, number);
	client.verified += SECTOR;
	/* What was seen stays; zeros may be those of any of several. */
	if (whole && (data[0] || data[4]) && !s->loose &&
	    w->power == client.power)
		s->least = number;
}

/* Whether a flush that was answered well may have flushed nothing. */
static bool is_in_doubt(const struct want *w)
{
	uint32_t ago = client.power - w->power;

	return ago > 1 || client.doubt[ago] ||
	       (client.unknown[ago] && n_errors() >= client.unknown[ago]);
}

static void is_durable(struct sector *s, uint32_t number)
{
	if (number > s->durable)
		s->durable = number;
	if (number == s->newest && !s->loose)
		s->torn = false;
	if (s->durable > s->least)
		s->least = s->durable;
}

static void succeed(struct want *w)
{
	bool safe = !is_in_doubt(w);

	MUST("no flush succeeds after one that failed",
	     !w->late || !flushes(w));

	for (uint32_t i = 0; i < w->n; i++) {
		struct sector *s = &client.sectors[w->first + i];
		uint32_t number = least_of(w->number, s->loose);

		if (w->type == NBD_CMD_READ)
			check(w, w->first + i, client.in + i * SECTOR);
		if (w->type == NBD_CMD_READ || w->type == NBD_CMD_TRIM)
			continue;
		if (w->power == client.power)
			s->least = number;
		if (w->flags & NBD_CMD_FLAG_FUA && safe)
			is_durable(s, number);
	}
	for (uint32_t i = 0; w->type == NBD_CMD_FLUSH && safe && i < SECTORS; i++)
		is_durable(&client.sectors[i],
			   least_of(w->snapshot[i], client.sectors[i].loose));
}

static void answered(struct want *w, uint32_t error)
{
	uint32_t ago = client.power - w->power;

	if (!error)
		succeed(w);
	else if (w->type == NBD_CMD_WRITE && w->program == client.program)
		client.suspect |= flushes(w);
	else if (flushes(w) && ago <= 1)
		client.doubt[ago] = true;
	if (error && w->type == NBD_CMD_FLUSH && w->program == client.program &&
	    (error == NBD_EIO || error == NBD_ENOSPC))
		client.lost = true;
	if (error && w->type == NBD_CMD_READ && client.checks)
		client.at = 0;
	for (uint32_t i = 0; i < w->n; i++)
		client.sectors[w->first + i].busy = false;
	w->used = false;
}

static void receive(enum step step, void *to, size_t len);

static void took_reply(void)
{
	uint32_t error = get32(client.head + 4);
	uint64_t cookie = get64(client.head + 8);
	struct want *w = &client.wants[cookie % DEPTH];

	MUST("a reply is one to a request",
	     get32(client.head) == NBD_SIMPLE_REPLY_MAGIC && cookie < DEPTH &&
	     w->used);
	if (!error && w->type == NBD_CMD_READ) {
		client.reading = w;
		receive(DATA_IN, client.in, w->n * SECTOR);
		return;
	}
	answered(w, error);
	receive(REPLY_IN, client.head, 16);
	go_on();
}

static void send_choice(void)
{
	uint8_t *p = put32(client.out, NBD_FLAG_FIXED_NEWSTYLE |
					       NBD_FLAG_NO_ZEROES);

	p = put64(p, NBD_OPTION_MAGIC);
	p = put32(p, NBD_OPT_EXPORT_NAME);
	put32(p, 0);
	weir_op_init(&client.tx, on_tx);
	client.sending = true;
	if (weir_send(client.r, &client.tx, client.fd, client.out, 20, 0)) {
		client.sending = false;
		drop();
		return;
	}
	receive(CHOICE_IN, client.head, 10);
}

static void on_rx(struct weir_op *op, int64_t res)
{
	static const size_t lengths[] = { [GREETING_IN] = 18, [CHOICE_IN] = 10,
					  [REPLY_IN] = 16 };

	(void)op;
	if (client.fd < 0)
		return;
	if (client.step == DATA_IN ? !client.reading ||
	    res != (int64_t)client.reading->n * SECTOR :
	    res != (int64_t)lengths[client.step]) {
		drop();
		return;
	}
	switch (client.step) {
	case GREETING_IN:
		MUST("a greeting is one", get64(client.head) == NBD_MAGIC);
		send_choice();
		break;
	case CHOICE_IN:
		MUST("the export is the file",
		     get64(client.head) == SECTORS * SECTOR);
		client.connected = true;
		client.at = 0;
		receive(REPLY_IN, client.head, 16);
		go_on();
		break;
	case REPLY_IN:
		took_reply();
		break;
	default:
		answered(client.reading, 0);
		client.reading = NULL;
		receive(REPLY_IN, client.head, 16);
		go_on();
	}
}

static void receive(enum step step, void *to, size_t len)
{
	client.step = step;
	if (client.fd < 0)
		return;
	weir_op_init(&client.rx, on_rx);
	weir_op_set_deadline(&client.rx, weir_reactor_now(client.r) + TIMEOUT_NS);
	if (weir_recv(client.r, &client.rx, client.fd, to, len, WEIR_SOCK_ALL))
		drop();
}

static void on_connected(struct weir_op *op, int64_t res)
{
	(void)op;
	if (client.fd < 0)
		return;
	if (res < 0)
		drop();
	else
		receive(GREETING_IN, client.head, 18);
}

static void connect_now(void)
{
	static struct sockaddr_in to;

	to.sin_family = AF_INET;
	to.sin_port = htons(PORT);
	to.sin_addr.s_addr = htonl(weir_sim_host_address(server.host));
	client.reading = NULL;
	client.fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST("the client gets a socket", client.fd >= 0);
	weir_op_init(&client.rx, on_connected);
	weir_op_set_deadline(&client.rx, weir_reactor_now(client.r) + TIMEOUT_NS);
	if (weir_connect(client.r, &client.rx, client.fd,
			 (struct sockaddr *)&to, sizeof(to)))
		drop();
}

/* The operations of the last connection may not have ended yet. */
static void on_pause(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
	if (weir_op_is_busy(&client.rx) || weir_op_is_busy(&client.tx))
		connect_later(WEIR_MSEC);
	else
		connect_now();
}

static void connect_later(uint64_t ns)
{
	weir_op_init(&client.pause, on_pause);
	MUST("the client sleeps",
	     !weir_sleep_until(client.r, &client.pause,
			       weir_reactor_now(client.r) + ns));
}

/* A name that is too long is no other one, cut off. */
static void try_long_name(void)
{
	char path[PATH_MAX + 1];

	memset(path, '/', PATH_MAX);
	path[PATH_MAX] = 0;
	memcpy(path + PATH_MAX - 4, "file", 4);
	MUST("a long name is refused",
	     open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) == -1 &&
	     errno == ENAMETOOLONG);
}

static void client_start(struct weir_sim_host *host, void *arg)
{
	(void)host, (void)arg;
	try_long_name();
	client.r = reactor_here();
	client.fd = -1;
	connect_later(WEIR_MSEC);
}

/* The test. */

static void gone(void *arg)
{
	server_gone(arg);
	server_ended(weir_sim_host_state(server.host) == WEIR_SIM_HOST_OFF);
}

static void cut(struct weir_sim *sim)
{
	bool power = draw(sim, 2);
	bool runs = weir_sim_host_state(server.host) > WEIR_SIM_HOST_STARTING;

	if (power ? weir_sim_host_power_off(server.host) :
		    weir_sim_host_kill(server.host))
		return;
	if (power && !runs)
		server_ended(true);
	weir_sim_run(sim, draw(sim, 50) * WEIR_MSEC, 0);
	weir_sim_host_start(server.host);
}

static void run(struct weir_sim_trial *trial)
{
	struct weir_sim *sim = trial->sim;
	static const uint8_t zeros[SECTORS * SECTOR];
	uint64_t end;

	memset(&client, 0, sizeof(client));
	client.sim = sim;
	client.fd = -1;
	server.host = host_add(sim, (struct weir_sim_host_opts){
		.name = "server", .start = server_start, .gone = gone });
	MUST("the disk is there",
	     weir_sim_file_write(sim, "server/disk.img", zeros, sizeof(zeros),
				 0) == sizeof(zeros));
	host_add(sim, (struct weir_sim_host_opts){
		.name = "client", .start = client_start,
		.flags = WEIR_SIM_HOST_HEALTHY });
	for (uint32_t i = 0; i < trial->ops; i++) {
		client.left += draw(sim, 60);
		client.most = draw(sim, 6) ? 16 : MOST;
		go_on();
		weir_sim_run(sim, draw(sim, 100) * WEIR_MSEC, 0);
		cut(sim);
	}
	weir_sim_set_faults(sim, 0);
	if (weir_sim_host_state(server.host) <= WEIR_SIM_HOST_OFF)
		weir_sim_host_start(server.host);
	client.left = 0;
	client.checks = true;
	client.at = 0;
	end = weir_sim_now(sim) + END_NS;
	while (!client.done && weir_sim_now(sim) < end) {
		go_on();
		weir_sim_run(sim, 100 * WEIR_MSEC, 0);
	}
	MUST("all sectors can be read in the end", client.done);
	weir_sim_note(sim, "number", client.number);
	trial->verified += client.verified;
}

static const struct weir_sim_scenario scenario = {
	.size = sizeof(scenario),
	.name = "nbd",
	.what = "weir-nbd through kills and power cuts of its host",
	.run = run,
	.ops = 30,
	.hosts = "server",
};

int main(int argc, char **argv)
{
	const struct weir_sim_scenario *const scenarios[] = { &scenario, NULL };

	return weir_sim_main(argc, argv, scenarios);
}
