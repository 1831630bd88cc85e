/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-vhost, from its rings to its disk, while it is killed and its machine loses
 * power: its disk is one that a guest can rely on (worlds-disk.h).
 *
 * The guest's memory outlives the server, and the rings in it say what is in flight:
 * the server that follows does that again.  With the power the guest is gone, too.
 * What goes over the socket of vhost-user is not tried here: a server finds a front end
 * that is there already.
 */

#include "tests/programs/worlds-disk.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "programs/weir-vhost/weir-vhost.h"

#define NUM (4 * DEPTH)		/* Descriptors: three are a request's. */
#define GPA 0x100000u		/* Where the guest's memory begins. */
#define UVA 0x7000000000u

/* The server: what main() and a front end's messages do. */
static struct {
	struct weir_sim_host *host;
	struct device *dev;	/* NULL: it does not run. */
} server;

/* What a slot's request has beside its data. */
struct head {
	struct virtio_blk_outhdr hdr;
	struct virtio_blk_discard_write_zeroes range;
	uint8_t status;
};

static struct guest {
	struct {
		struct vring_desc desc[NUM];
		struct {
			uint16_t flags, idx, ring[NUM], used_event;
		} avail;
		_Alignas(4) struct {
			uint16_t flags, idx;
			struct vring_used_elem ring[NUM];
			uint16_t avail_event;
		} used;
		struct head heads[DEPTH];
		uint8_t data[DEPTH][MOST * SECTOR];
	} mem;
	_Alignas(16) uint8_t inflight[sizeof(struct inflight) +
				     NUM * sizeof(struct inflight_desc)];
	bool writeback;
	uint16_t avail_idx, seen;
} guest;

static uint64_t off_of(const void *p)
{
	return (uint64_t)((const uint8_t *)p - (const uint8_t *)&guest.mem);
}

/* It has just been switched on. */
static void guest_reset(void)
{
	memset(&guest, 0, sizeof(guest));
	((struct inflight *)(void *)guest.inflight)->desc_num = NUM;
	guest.writeback = draw(disk.sim, 4);
	/* Each write of a guest that has no cache is durable. */
	disk.fua_of = guest.writeback ? 0 : 1;
}

static void on_stopped(struct device *dev, int err)
{
	MUST("nothing stops weir-vhost", !err && !dev);
}

/* As the messages of a front end that has come back. */
static void attach(struct device *dev)
{
	struct ring *ring = &dev->rings[0];

	dev->features = blk_features(dev) & ~BIT(VHOST_F_LOG_ALL);
	dev->writeback = guest.writeback;
	dev->memory.n = 1;
	dev->memory.regions[0] = (struct region){
		.gpa = GPA, .uva = UVA, .size = sizeof(guest.mem),
		.at = (uint8_t *)&guest.mem,
	};
	dev->inflight_num = NUM;
	ring->inflight = (struct inflight *)(void *)guest.inflight;
	ring->num = NUM;
	ring->addr.desc = UVA;
	ring->addr.avail = UVA + off_of(&guest.mem.avail);
	ring->addr.used = UVA + off_of(&guest.mem.used);
	ring->last_avail = guest.mem.used.idx;
	ring->enabled = true;
	MUST("the ring starts", !ring_start(ring));
}

static void start_server(struct weir_sim_host *host, void *arg)
{
	char *argv[] = { "weir-vhost", "--unix=socket", "disk.img", NULL };
	struct device *dev = device_new(on_stopped);

	(void)host, (void)arg;
	optind = 1;
	MUST("there is memory", dev);
	MUST("weir-vhost takes its options", options_parse(dev, 3, argv) < 0);
	MUST("weir-vhost opens its disk", !block_open(&dev->block));
	dev->reactor = reactor_here();
	MUST("weir-vhost begins",
	     !block_core_begin(&dev->core, dev->reactor, &dev->block, 1, REQUESTS));
	attach(dev);
	server.dev = dev;
}

/* The guest. */

static void describe(uint32_t i, const void *p, uint64_t len, uint32_t flags)
{
	guest.mem.desc[i] = (struct vring_desc){
		.addr = GPA + off_of(p), .len = (uint32_t)len, .flags = (uint16_t)flags,
		.next = (uint16_t)(i + 1),
	};
}

static void offer(const struct want *w)
{
	static const uint32_t types[] = {
		[WANT_READ] = VIRTIO_BLK_T_IN, [WANT_WRITE] = VIRTIO_BLK_T_OUT,
		[WANT_FLUSH] = VIRTIO_BLK_T_FLUSH, [WANT_TRIM] = VIRTIO_BLK_T_DISCARD,
		[WANT_ZERO] = VIRTIO_BLK_T_WRITE_ZEROES,
	};
	uint32_t slot = (uint32_t)(w - disk.wants), d = 3 * slot;
	struct head *head = &guest.mem.heads[slot];
	uint8_t *data = guest.mem.data[slot];
	bool moves = w->kind == WANT_READ || w->kind == WANT_WRITE;

	head->hdr = (struct virtio_blk_outhdr){ .type = types[w->kind] };
	head->range = (struct virtio_blk_discard_write_zeroes){
		.sector = w->first, .num_sectors = w->n,
		.flags = w->kind == WANT_ZERO && w->number % 2 ?
			 VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP : 0,
	};
	head->status = 0xff;
	if (moves)
		head->hdr.sector = w->first;
	if (w->kind == WANT_WRITE)
		disk_fill(w, data);
	describe(d, &head->hdr, sizeof(head->hdr), VRING_DESC_F_NEXT);
	if (moves)
		describe(d + 1, data, w->n * SECTOR, VRING_DESC_F_NEXT |
			 (w->kind == WANT_READ ? VRING_DESC_F_WRITE : 0));
	else
		describe(d + 1, &head->range, sizeof(head->range), VRING_DESC_F_NEXT);
	if (w->kind == WANT_FLUSH)
		guest.mem.desc[d].next++;
	describe(d + 2, &head->status, 1, VRING_DESC_F_WRITE);
	guest.mem.avail.ring[guest.avail_idx++ % NUM] = (uint16_t)d;
}

static void take(const struct vring_used_elem *e)
{
	struct want *w = &disk.wants[e->id / 3 % DEPTH];
	uint8_t status = guest.mem.heads[e->id / 3 % DEPTH].status;

	MUST("an answer is one to a request",
	     e->id % 3 == 0 && e->id < 3 * DEPTH && w->used && status != 0xff);
	/* Of all errors the guest sees one; the server knows. */
	disk_answered(w, status == VIRTIO_BLK_S_OK ? DISK_OK :
		      server.dev && server.dev->block.lost ? DISK_LOST : DISK_FAILED,
		      guest.mem.data[w - disk.wants]);
}

static void go_on(void)
{
	const struct want *w;

	while (guest.seen != guest.mem.used.idx)
		take(&guest.mem.used.ring[guest.seen++ % NUM]);
	guest.mem.avail.used_event = guest.seen;
	if (weir_sim_host_state(server.host) == WEIR_SIM_HOST_OFF)
		return;
	while ((w = disk_next()) != NULL)
		offer(w);
	if (guest.mem.avail.idx == guest.avail_idx)
		return;
	guest.mem.avail.idx = guest.avail_idx;
	/* Whether it wants to be told or not: more is tried so. */
	if (server.dev)
		ring_kick(&server.dev->rings[0]);
}

/* The test. */

static void ended(bool power)
{
	for (uint32_t i = 0; i < DEPTH && power; i++)
		if (disk.wants[i].used)
			disk_interrupted(&disk.wants[i]);
	disk_server_ended(power);
	for (uint32_t i = 0; i < DEPTH; i++)
		if (disk.wants[i].used)
			disk_again(&disk.wants[i]);
	if (power)
		guest_reset();
}

static void powered_off(void)
{
	ended(true);
}

static void gone(void *arg)
{
	struct device *dev = server.dev;

	(void)arg;
	if (dev) {
		free(dev->rings[0].requests);
		free(dev->rings[0].again);
		free(dev);
	}
	server.dev = NULL;
	ended(weir_sim_host_state(server.host) == WEIR_SIM_HOST_OFF);
}

static void run(struct weir_sim_trial *trial)
{
	struct weir_sim *sim = trial->sim;

	server.host = host_add(sim, (struct weir_sim_host_opts){
		.name = "server", .start = start_server, .gone = gone });
	disk_begin(sim);
	guest_reset();
	disk_tick(go_on);
	disk_run(trial, server.host, go_on, powered_off);
}

static const struct weir_sim_scenario scenario = {
	.size = sizeof(scenario),
	.name = "vhost",
	.what = "weir-vhost through kills and power cuts of its machine",
	.run = run,
	.ops = 30,
	.hosts = "server",
};

int main(int argc, char **argv)
{
	const struct weir_sim_scenario *const scenarios[] = { &scenario, NULL };

	return weir_sim_main(argc, argv, scenarios);
}
