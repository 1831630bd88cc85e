/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's ids of rdma_cm: addresses within this process. */

#include "tests/support/mock-cm-internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mock_id *mock_ids;

/* librdmacm opens a device once, for itself, and keeps it. */
struct ibv_context *mock_cm_verbs(void)
{
	static struct ibv_context *opened[MOCK_MODELS];
	static const char *const names[MOCK_MODELS] = {
		"mock_mlx5",
		"mock_mana",
		"mock_rxe",
	};
	const char *want = mock_self.cm_device;
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i = 0;

	while (want && i < MOCK_SHUT - 1 && strcmp(names[i], want))
		i++;
	if (!opened[i])
		opened[i] = mock_open(list[i], true);
	ibv_free_device_list(list);
	return opened[i];
}

static int fail(int err)
{
	errno = err;
	return -1;
}

/* Addresses. */

static in_port_t *port_of(struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 ?
		       &((struct sockaddr_in6 *)addr)->sin6_port :
		       &((struct sockaddr_in *)addr)->sin_port;
}

static socklen_t length_of(int family)
{
	return family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       family == AF_INET  ? sizeof(struct sockaddr_in) :
				    0;
}

/* The networks of documentation are where nobody is. */
enum place { HERE, NO_ROUTE, NOBODY, NO_DEVICE };

static enum place place_of(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)addr;
	uint32_t four;

	if (addr->ss_family == AF_INET6)
		return six->sin6_addr.s6_addr32[0] != htonl(0x20010db8) ?
			       HERE :
			       six->sin6_addr.s6_addr[5] & 3;
	four = ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr);
	return four >> 8 == 0xc00002 ? NO_ROUTE :	/* 192.0.2 */
	       four >> 8 == 0xc63364 ? NOBODY :		/* 198.51.100 */
	       four >> 8 == 0xcb0071 ? NO_DEVICE :	/* 203.0.113 */
	       HERE;
}

static bool is_any(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)addr;

	return addr->ss_family == AF_INET6 ?
		       IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) :
		       !((const struct sockaddr_in *)addr)->sin_addr.s_addr;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *four = (const struct sockaddr_in *)addr;

	return addr->ss_family == AF_INET6 ?
		       IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) :
		       ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

static bool is_same_host(const struct sockaddr_storage *a,
			 const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in6 *y = (const struct sockaddr_in6 *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (is_any(a) || is_any(b))
		return true;
	return a->ss_family == AF_INET6 ?
		       IN6_ARE_ADDR_EQUAL(&x->sin6_addr, &y->sin6_addr) :
		       ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
			       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

static struct mock_id *who_has(struct sockaddr_storage *addr,
			       const struct mock_id *but)
{
	struct mock_id *id;

	for (id = mock_ids; id; id = id->next)
		if (id != but &&
		    (id->state == MOCK_CM_BOUND ||
		     id->state == MOCK_CM_LISTEN) &&
		    *port_of(&id->id.route.addr.src_storage) ==
			    *port_of(addr) &&
		    is_same_host(&id->id.route.addr.src_storage, addr))
			return id;
	return NULL;
}

struct mock_id *mock_cm_listener(const struct mock_id *id)
{
	struct sockaddr_storage to = id->id.route.addr.dst_storage;
	struct mock_id *found = who_has(&to, id);

	return found && found->state == MOCK_CM_LISTEN ? found : NULL;
}

/* One that nobody has. */
static void take_port(struct sockaddr_storage *addr)
{
	static uint16_t next;

	do
		*port_of(addr) = htons((uint16_t)(40000 + next++ % 20000));
	while (who_has(addr, NULL));
}

static int set_source(struct mock_id *id, const struct sockaddr *addr)
{
	struct sockaddr_storage *src = &id->id.route.addr.src_storage, copy;

	if (!length_of(addr->sa_family))
		return EAFNOSUPPORT;
	memset(&copy, 0, sizeof(copy));
	memcpy(&copy, addr, length_of(addr->sa_family));
	if (place_of(&copy) != HERE)
		return EADDRNOTAVAIL;
	if (!*port_of(&copy))
		take_port(&copy);
	else if (who_has(&copy, id))
		return EADDRINUSE;
	*src = copy;
	return 0;
}

/* Ids. */

struct mock_id *mock_id_new(struct rdma_event_channel *channel, void *context,
			    enum rdma_port_space ps)
{
	struct mock_id *id = calloc(1, sizeof(*id));

	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = IBV_QPT_RC;
	id->next = mock_ids;
	mock_ids = id;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret,
		   void *context, enum rdma_port_space ps)
{
	struct mock_id *id;

	if (!channel || ps != RDMA_PS_TCP)
		return fail(EINVAL);
	mock_lock();
	id = mock_id_new(channel, context, ps);
	id->given = true;
	mock_self.ids++;
	*ret = &id->id;
	mock_unlock();
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *ibid)
{
	struct mock_id *id = (struct mock_id *)ibid, **at;

	mock_lock();
	if (id->reported != id->acked)
		mock_hang("rdma_destroy_id", "events not acked");
	for (at = &mock_ids; *at != id; at = &(*at)->next)
		;
	*at = id->next;
	mock_cm_leave(id);
	mock_cm_purge(id);
	mock_self.ids--;
	memset(id, 0xa5, sizeof(*id));
	free(id);
	mock_unlock();
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *ibid, struct sockaddr *addr)
{
	struct mock_id *id = (struct mock_id *)ibid;
	int err;

	mock_lock();
	err = id->state == MOCK_CM_IDLE ? set_source(id, addr) : EINVAL;
	if (!err) {
		id->state = MOCK_CM_BOUND;
		if (!is_any(&ibid->route.addr.src_storage) &&
		    !is_loopback(&ibid->route.addr.src_storage))
			ibid->verbs = mock_cm_verbs();
	}
	mock_unlock();
	return err ? fail(err) : 0;
}

int rdma_listen(struct rdma_cm_id *ibid, int backlog)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct mock_id *id = (struct mock_id *)ibid;
	int err = 0;

	(void)backlog;
	mock_lock();
	if (id->state == MOCK_CM_IDLE)
		err = set_source(id, (struct sockaddr *)&any);
	else if (id->state != MOCK_CM_BOUND)
		err = EINVAL;
	if (!err)
		id->state = MOCK_CM_LISTEN;
	mock_unlock();
	return err ? fail(err) : 0;
}

static int start_source(struct mock_id *id, const struct sockaddr *src,
			int family)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)family };

	if (id->state == MOCK_CM_BOUND)
		return 0;
	return set_source(id, src ? src : (struct sockaddr *)&any);
}

/* The address that one comes from is the one that one goes to. */
static void choose_source(struct rdma_addr *addr)
{
	in_port_t port = *port_of(&addr->src_storage);

	if (!is_any(&addr->src_storage) || is_any(&addr->dst_storage))
		return;
	addr->src_storage = addr->dst_storage;
	*port_of(&addr->src_storage) = port;
}

static void resolve(struct mock_id *id)
{
	static const int errors[] = { 0, 0, -ETIMEDOUT, -ENODEV };
	int status = errors[place_of(&id->id.route.addr.dst_storage)];

	if (mock_self.fail_addr)
		status = mock_self.fail_addr;
	else if (mock_sim_loses())
		status = -ETIMEDOUT;
	choose_source(&id->id.route.addr);
	id->state = MOCK_CM_ADDR_QUERY;
	mock_cm_tell(id,
		     status ? RDMA_CM_EVENT_ADDR_ERROR :
			      RDMA_CM_EVENT_ADDR_RESOLVED,
		     status, status ? MOCK_CM_BOUND : MOCK_CM_ADDR);
}

int rdma_resolve_addr(struct rdma_cm_id *ibid, struct sockaddr *src,
		      struct sockaddr *dst, int timeout_ms)
{
	struct mock_id *id = (struct mock_id *)ibid;
	struct sockaddr_storage *to = &ibid->route.addr.dst_storage;
	int err;

	(void)timeout_ms;
	if (!length_of(dst->sa_family))
		return fail(EAFNOSUPPORT);
	mock_lock();
	err = id->state != MOCK_CM_IDLE && id->state != MOCK_CM_BOUND ?
		      EINVAL :
		      start_source(id, src, dst->sa_family);
	if (!err) {
		memset(to, 0, sizeof(*to));
		memcpy(to, dst, length_of(dst->sa_family));
		if (place_of(to) == NO_ROUTE)
			err = ENETUNREACH;
	}
	if (!err)
		resolve(id);
	mock_unlock();
	return err ? fail(err) : 0;
}

int rdma_resolve_route(struct rdma_cm_id *ibid, int timeout_ms)
{
	struct mock_id *id = (struct mock_id *)ibid;
	int status = mock_self.fail_route;
	bool may;

	if (!status && mock_sim_loses())
		status = -ETIMEDOUT;

	(void)timeout_ms;
	mock_lock();
	may = id->state == MOCK_CM_ADDR;
	if (may) {
		id->state = MOCK_CM_ROUTE_QUERY;
		mock_cm_tell(id,
			     status ? RDMA_CM_EVENT_ROUTE_ERROR :
				      RDMA_CM_EVENT_ROUTE_RESOLVED,
			     status, status ? MOCK_CM_ADDR : MOCK_CM_ROUTE);
	}
	mock_unlock();
	return may ? 0 : fail(EINVAL);
}

/* Only how long an acknowledgement may take is taken notice of. */
int rdma_set_option(struct rdma_cm_id *ibid, int level, int option, void *value,
		    size_t len)
{
	struct mock_id *id = (struct mock_id *)ibid;

	if (level == RDMA_OPTION_ID && option == RDMA_OPTION_ID_ACK_TIMEOUT) {
		if (len != 1)
			return fail(EINVAL);
		id->timeout = *(const uint8_t *)value;
	}
	return 0;
}

int rdma_notify(struct rdma_cm_id *ibid, enum ibv_event_type event)
{
	(void)ibid;
	(void)event;
	return 0;
}
