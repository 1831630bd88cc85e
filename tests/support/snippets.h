/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the blocks of code in documents and headers name (snippets.awk), so that
 * they can be compiled, each document as a program of its own: SNIPPETS_OF_name
 * says which.
 */

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#include <weir/accel/codec.h>
#include <weir/accel/crc.h>
#include <weir/accel/dif.h>
#include <weir/accel/kinds.h>
#include <weir/accel/xts.h>
#include <weir/alarm.h>
#include <weir/base.h>
#include <weir/buf.h>
#include <weir/call.h>
#include <weir/chain.h>
#include <weir/child.h>
#include <weir/conn.h>
#include <weir/crc32c.h>
#include <weir/cuda/device.h>
#include <weir/device.h>
#include <weir/dm.h>
#include <weir/dma.h>
#include <weir/domain-user.h>
#include <weir/domain.h>
#include <weir/engine.h>
#include <weir/export.h>
#include <weir/fabric/device.h>
#include <weir/resolve/resolve.h>
#include <weir/file.h>
#include <weir/fs.h>
#include <weir/fswatch.h>
#include <weir/group.h>
#include <weir/host.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/lease.h>
#include <weir/kind.h>
#include <weir/message.h>
#include <weir/mmap.h>
#include <weir/nvme/nvme.h>
#include <weir/object.h>
#include <weir/op.h>
#include <weir/pipeline.h>
#include <weir/poll-hook.h>
#include <weir/pool.h>
#include <weir/provider.h>
#include <weir/reactor.h>
#include <weir/route.h>
#include <weir/segment-event.h>
#include <weir/segment.h>
#include <weir/sim/aim.h>
#include <weir/sim/file.h>
#include <weir/sim/host.h>
#include <weir/sim/memory.h>
#include <weir/sim/runner.h>
#include <weir/sim/socket.h>
#include <weir/sim/world.h>
#include <weir/socket.h>
#include <weir/srq.h>
#include <weir/stats.h>
#include <weir/stream.h>
#include <weir/shared-pool.h>
#include <weir/sync-remote.h>
#include <weir/sync.h>
#include <weir/timer.h>
#include <weir/tls/tls.h>
#include <weir/udp.h>
#include <weir/uring.h>
#include <weir/watch.h>
#include <weir/rdma/mw.h>

#if defined(SNIPPETS_OF_rdma_channel)
#include <infiniband/verbs.h>
#include <weir/rdma/channel.h>
static struct ibv_send_wr send_wr;
#elif defined(SNIPPETS_OF_host_glib)
#include <glib.h>
#include <weir/host/glib.h>
static GMainLoop *loop;
#elif defined(SNIPPETS_OF_host_libev)
#include <ev.h>
#include <weir/host/libev.h>
#elif defined(SNIPPETS_OF_host_libuv)
#include <uv.h>
#include <weir/host/libuv.h>
#elif defined(SNIPPETS_OF_host_sd_event)
#include <systemd/sd-event.h>
#include <weir/host/sd-event.h>
static sd_event *event;
#endif

/* The library's objects. */
static struct weir_reactor *r, *reactor;
static struct weir_chain *chain;
static struct weir_dma *dma;
static struct weir_domain *domain;
static struct weir_group *group;
static struct weir_pool *pool;
static struct weir_sim *sim;
static struct weir_srq *srq;
static struct weir_sync *filled;
static struct weir_buf *buf;
static struct weir_op op;

/* The caller's. */
static int err, fd;
static size_t len;
static uint64_t off, n;
static void *arg;
static char text[4096];

struct request;
static struct request *rq;
#if !defined(SNIPPETS_OF_op) && !defined(SNIPPETS_OF_rdma_channel) && \
	!defined(SNIPPETS_OF_tutorial_card)
struct request {
	struct weir_op op;
	struct weir_job job, read, crc, write;
	struct weir_sync_call call;
	char block[4096], *data;
	size_t piece;
	uint64_t off, done;
#if defined(SNIPPETS_OF_accel_codec)
	struct weir_codec_args args;
#elif defined(SNIPPETS_OF_accel_xts)
	struct weir_xts_args args;
#elif defined(SNIPPETS_OF_child)
	struct weir_child_status status;
#endif
};
#endif

#if defined(WEIR_HOST_H)
weir_host_end_fn on_end;
#endif

#if defined(SNIPPETS_OF_alarm)
void rotate_logs(void *arg);
uint64_t next_midnight(void);
#elif defined(SNIPPETS_OF_child)
static struct weir_child *child;
static int in, out;
#elif defined(SNIPPETS_OF_fs)
struct scan {
	struct weir_op op;
	struct weir_reactor *r;
	int fd;
	char buf[4096];
};
#elif defined(SNIPPETS_OF_fswatch)
static struct weir_fswatch *watch;
static void *config;
static int id;
weir_fswatch_fn on_change;
#elif defined(SNIPPETS_OF_call)
struct query {
	struct weir_op op;
	struct weir_op capacity;
} *q;
static struct weir_reactor *here, *there;
static int64_t found;
void on_found(struct weir_op *, int64_t);
#elif defined(SNIPPETS_OF_op)
struct query;
weir_op_cancel_fn resolve_cancel;
void send_query(struct query *q);
struct line;
extern const struct weir_op_kind dial_kind;
int off_hook(struct line *line);
#elif defined(SNIPPETS_OF_base)
static struct acme {
	int number;
} *card;
int acme_reset(struct acme *card);
#elif defined(SNIPPETS_OF_tls_tls)
static struct weir_stream *lower, *s;
static struct weir_tls_context *ctx;
static struct weir_tls_stream_opts conn;
#elif defined(SNIPPETS_OF_stream)
static struct weir_stream *s;
#elif defined(SNIPPETS_OF_object)
static struct queue {
	struct weir_object *obj;
} *q;
void queue_notified(void *arg);
void queue_stop(void *arg);
#elif defined(SNIPPETS_OF_poll_hook)
static struct ucx {
	struct ucp_worker *worker;
	int efd;
} ucx;
static struct weir_poll_hook *hook;
enum { UCS_ERR_BUSY = -15 };
int ucp_worker_arm(struct ucp_worker *worker);
unsigned int ucp_worker_progress(struct ucp_worker *worker);
#elif defined(SNIPPETS_OF_uring)
#include <linux/io_uring.h>
static struct file {
	int fd;
	uint64_t len;
} *file;
#define IORING_OP_FTRUNCATE 55
#elif defined(SNIPPETS_OF_accel_codec)
static struct weir_codec *codec;
static struct weir_operand src, dst;
#elif defined(SNIPPETS_OF_accel_dif)
static struct weir_operand blocks_of_512, blocks_of_520;
#elif defined(SNIPPETS_OF_accel_kinds)
static struct weir_operand src;
#elif defined(SNIPPETS_OF_accel_xts)
static struct weir_xts *xts;
static struct weir_xts_opts opts;
static struct weir_operand src, dst;
static uint64_t lba;
#elif defined(SNIPPETS_OF_kind)
static uint32_t kind;
static struct weir_operand src, dst;
int rot13_run(struct weir_kind_run *);
#elif defined(SNIPPETS_OF_chain)
static int a, b, c;
#elif defined(SNIPPETS_OF_conn)
static struct weir_conn *c;
static struct weir_listener *l;
static const struct sockaddr *to;
static socklen_t to_len;
#elif defined(SNIPPETS_OF_cuda_device)
static struct weir_device *dev;
static struct weir_job job;
static uint64_t addr;
static char here[100];
#elif defined(SNIPPETS_OF_resolve_resolve)
void on_connected(struct weir_op *, int64_t);
#elif defined(SNIPPETS_OF_nvme_nvme)
static struct weir_device *dev;
static struct weir_dma *dma;
static struct weir_job job;
static struct weir_nvme_cmd cmd;
static struct weir_nvme_queue *q;
static struct weir_op op;
static struct weir_reactor *r;
static char mem[65536];
#elif defined(SNIPPETS_OF_fabric_device)
static struct weir_device *dev;
static struct weir_dma *dma;
static struct weir_export_desc desc;
static struct weir_job job;
static struct weir_lease *lease;
static struct weir_lease_opts lease_opts;
static struct weir_mmap *m;
static struct weir_reactor *r;
static const void *bytes;
static size_t len;
#elif defined(SNIPPETS_OF_domain_user)
static struct weir_domain *store;
static struct weir_domain_opts opts;
weir_domain_move_fn store_pull, store_push;
#elif defined(SNIPPETS_OF_engine)
static void *card;
int card_can(void *, const struct weir_engine_query *, const char **);
int card_start(void *, struct weir_job *);
void card_cancel(void *, struct weir_job *);
#elif defined(SNIPPETS_OF_group)
static int server;
int core_begins(struct weir_group *, uint32_t, void *);
void core_ends(struct weir_group *, uint32_t, void *);
#elif defined(SNIPPETS_OF_job)
static struct weir_domain *file;
void on_copied(struct weir_op *, int64_t);
#elif defined(SNIPPETS_OF_message)
static struct weir_conn *c;
void consume(const void *, size_t);
#elif defined(SNIPPETS_OF_route)
static struct weir_job job;
#elif defined(SNIPPETS_OF_sim_world)
static struct weir_reactor *a, *b;
static struct weir_reactor_opts opts;
static uint64_t seed;
#elif defined(SNIPPETS_OF_sim_host)
static struct weir_reactor_opts opts;
static struct weir_sim_host *host;
static struct {
	struct weir_reactor *r;
	int fd;
} *server;
#elif defined(SNIPPETS_OF_sim_memory)
static struct weir_sim_peer *peer;
static struct weir_sim_peer_opts opts;
static struct weir_job job;
static struct weir_operand here;
#elif defined(SNIPPETS_OF_sim_socket)
static int l, c;
#elif defined(SNIPPETS_OF_srq)
static struct weir_conn *c;
static struct weir_conn_opts opts;
static weir_message_fn *fn;
#elif defined(SNIPPETS_OF_stats)
static struct weir_stats *s;
static struct weir_stats_section section;
static struct weir_stats_field f;
static uint32_t i, j;
static pid_t pid;
#elif defined(SNIPPETS_OF_shared_pool)
static struct weir_shared_pool *shared;
#elif defined(SNIPPETS_OF_udp)
struct answer {
	struct weir_op op;
	struct weir_udp_msg msg;
	char text[512];
};
struct answer *take_answer(void *from);
void give_back(struct answer *a);
uint32_t fill(char *to, const void *question, uint32_t bytes);
#elif defined(SNIPPETS_OF_lease)
static struct weir_mmap *m;
#elif defined(SNIPPETS_OF_sync_remote)
static struct weir_mmap *theirs;
static struct weir_sync_remote *done;
static const void *desc;
#elif defined(SNIPPETS_OF_provider)
static struct weir_provider *acme;
int acme_list(void *, struct weir_provider_list *);
int acme_open(void *, struct weir_device *, void **);
void acme_close(void *);
#elif defined(SNIPPETS_OF_tutorial_card)
#include "examples/card.h"
static struct card *card;
struct request {
	struct weir_op *op;
	int64_t res;
};
static struct weir_device *dev;
static struct weir_provider_list *list;
static struct weir_translation *ret;
static uint64_t addr, done;
int card_list(void *, struct weir_provider_list *);
int card_open(void *, struct weir_device *, void **);
void card_close(void *);
void on_event(struct weir_event *, uint64_t, void *);
#elif defined(SNIPPETS_OF_tutorial_dma)
static struct weir_job job;
static struct weir_buf *dst, *src;
static struct weir_domain *theirs;
static struct weir_operand here;
static struct weir_job_route route;
static uint64_t address;
static pid_t pid;
void on_copied(struct weir_op *, int64_t);
#elif defined(SNIPPETS_OF_tutorial_domain)
static struct weir_domain *d;
static struct weir_job job;
static struct weir_op *user;
static const struct weir_domain_move *m;
static struct {
	struct weir_op op;
	int fd;
} store, *s;
static int key;
weir_domain_move_fn store_move;
weir_domain_cancel_fn store_cancel;
#elif defined(SNIPPETS_OF_tutorial_nbd)
#define RX_BYTES 4096
struct nbd_core {
	struct weir_reactor *reactor;
	struct weir_dma *dma;
};
struct nbd_conn {
	struct weir_op rx_op, tx_op, flush_op;
	int fd;
	size_t tail;
	char *rx;
};
static struct nbd_core *core;
static struct nbd_conn *c;
static struct weir_group_opts opts;
static struct weir_operand there;
static struct weir_job *job;
static const struct iovec *iov;
static char cells[4096];
static uint64_t addr;
#include "programs/block/block.h"
static struct block_io *io;
int begin_core(struct weir_group *, uint32_t, void *);
void end_core(struct weir_group *, uint32_t, void *);
void conn_adopt(void *);
#elif defined(SNIPPETS_OF_tutorial_op)
struct lookup;
int begin_lookup(struct lookup *l);
void abort_lookup(struct lookup *l);
#elif defined(SNIPPETS_OF_tutorial_peers)
#include <weir/rdma/export.h>
static struct weir_conn *c;
static struct weir_listener *l;
static const struct sockaddr *to;
static socklen_t to_len;
static struct weir_device *device;
static struct weir_mmap *m, *theirs;
static const void *bytes;
static size_t n_bytes;
weir_message_fn on_message;
#elif defined(SNIPPETS_OF_tutorial_proxy)
#define PIPE_BYTES 65536
struct core {
	struct weir_reactor *r;
};
static struct {
	struct weir_group *group;
} *p;
static struct {
	struct weir_op op;
	struct core *core;
	int fd, from, to;
	char *buf;
	struct {
		int in, out;
	} *pipe;
	struct {
		struct weir_op op;
	} up;
} *f, *l, *c, *log;
static struct core *core;
static struct weir_reactor *core0, *reactor_of_core;
static struct weir_group_opts opts;
static const struct sockaddr *addr;
static size_t size, left;
static uint64_t now, connect_timeout;
int core_is_full(struct core *);
int core_begin(struct weir_group *, uint32_t, void *);
void core_end(struct weir_group *, uint32_t, void *);
void core_drain(void *);
int64_t write_log(void *);
void on_connection(struct weir_op *, int64_t);
void on_received(struct weir_op *, int64_t);
#endif
