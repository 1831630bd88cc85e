/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The handshake: the server greets, the client has options, and the answer to
 * the last of them lets it ask for data.  One option is answered at a time,
 * from the cells, which are unused until then.
 */
#include "weir-nbd.h"

#define OPTION_BYTES 16u	/* Before the data of an option. */
static const char allocation[] = "base:allocation";

struct option_msg {
	uint32_t type, len;
	const uint8_t *data;
};

static void send_reply(struct conn *c)
{
	c->iov[0] = (struct iovec){ c->cell_base,
				    (size_t)(c->reply_end - c->cell_base) };
	c->n_iov = 1;
	conn_send(c);
}

void hello_begin(struct conn *c)
{
	uint8_t *p = put64(c->cell_base, NBD_MAGIC);

	p = put64(p, NBD_OPTION_MAGIC);
	c->reply_end = put16(p, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	send_reply(c);
}

void hello_sent(struct conn *c)
{
	int then = c->then;

	c->then = GO_ON;
	if (then == GO_SERVE)
		conn_serve(c);
	else if (then == GO_TLS)
		tls_begin(c);
	else if (then == GO_AWAY)
		conn_end(c);
}

static void add(struct conn *c, const void *data, size_t len)
{
	memcpy(c->reply_end, data, len);
	c->reply_end += len;
}

static void reply_head(struct conn *c, const struct option_msg *o,
		       uint32_t type, size_t len)
{
	uint8_t *p = put64(c->reply_end, NBD_REP_MAGIC);

	p = put32(p, o->type);
	p = put32(p, type);
	c->reply_end = put32(p, (uint32_t)len);
}

/* The last reply to an option; a text is for people, and for errors only. */
static void finish(struct conn *c, const struct option_msg *o, uint32_t type,
		   const char *text)
{
	reply_head(c, o, type, strlen(text));
	add(c, text, strlen(text));
}

static void invalid(struct conn *c, const struct option_msg *o)
{
	finish(c, o, NBD_REP_ERR_INVALID, "the option's data make no sense");
}

static void unknown(struct conn *c, const struct option_msg *o)
{
	finish(c, o, NBD_REP_ERR_UNKNOWN, "there is no export of that name");
}

/* Of an export as this connection would see it. */
static uint16_t flags_for(const struct conn *c, const struct block *x)
{
	return (uint16_t)(export_flags(x) |
			  (c->structured ? NBD_FLAG_SEND_DF : 0));
}

/* Whether its address may have one more connection that is served. */
static bool enter(struct conn *c)
{
	c->admitted = peer_enter(c->peer, c->server->opts.per_peer);
	if (!c->admitted)
		peer_refuse(c->core, c->fd,
		       "its address has too many connections (--per-peer)");
	return c->admitted;
}

static void serve(struct conn *c, struct block *x)
{
	c->status = c->status_of == x;
	c->then = GO_SERVE;
	if (conn_take_export(c, x))
		conn_drop(c);
}

static void do_export_name(struct conn *c, const struct option_msg *o)
{
	struct block *x = export_find(c->server, o->data, o->len);
	static const uint8_t zeroes[124];
	uint8_t *p = c->reply_end;

	if (!x || !enter(c)) {
		conn_drop(c);
		return;
	}
	p = put64(p, x->size);
	c->reply_end = put16(p, flags_for(c, x));
	if (!c->no_zeroes)
		add(c, zeroes, sizeof(zeroes));
	serve(c, x);
}

static void do_list(struct conn *c, const struct option_msg *o)
{
	for (uint32_t i = 0; i < c->server->n_exports; i++) {
		const struct block *x = &c->server->exports[i];
		size_t name_len = strlen(x->name), text_len = strlen(x->text);

		reply_head(c, o, NBD_REP_SERVER, 4 + name_len + text_len);
		c->reply_end = put32(c->reply_end, (uint32_t)name_len);
		add(c, x->name, name_len);
		add(c, x->text, text_len);
	}
	finish(c, o, NBD_REP_ACK, "");
}

static void info_text(struct conn *c, const struct option_msg *o,
		      unsigned int info, const char *text)
{
	reply_head(c, o, NBD_REP_INFO, 2 + strlen(text));
	c->reply_end = put16(c->reply_end, info);
	add(c, text, strlen(text));
}

static void info_export(struct conn *c, const struct option_msg *o,
			const struct block *x)
{
	uint8_t *p;

	reply_head(c, o, NBD_REP_INFO, 12);
	p = put16(c->reply_end, NBD_INFO_EXPORT);
	p = put64(p, x->size);
	c->reply_end = put16(p, flags_for(c, x));
}

static void info_block_size(struct conn *c, const struct option_msg *o,
			    const struct block *x)
{
	uint8_t *p;

	reply_head(c, o, NBD_REP_INFO, 14);
	p = put16(c->reply_end, NBD_INFO_BLOCK_SIZE);
	p = put32(p, x->block_min);
	p = put32(p, CELL);
	c->reply_end = put32(p, PAYLOAD_MAX);
}

/* Each kind once, however often it was asked for. */
static void infos(struct conn *c, const struct option_msg *o,
		  const struct block *x, const uint8_t *p, unsigned int n)
{
	unsigned int asked = 0;

	while (n--) {
		unsigned int info = get16(p);

		if (info <= NBD_INFO_BLOCK_SIZE)
			asked |= 1u << info;
		p += 2;
	}
	info_export(c, o, x);
	if (asked & 1u << NBD_INFO_NAME)
		info_text(c, o, NBD_INFO_NAME, x->name);
	if (asked & 1u << NBD_INFO_DESCRIPTION && *x->text)
		info_text(c, o, NBD_INFO_DESCRIPTION, x->text);
	if (asked & 1u << NBD_INFO_BLOCK_SIZE || x->block_min > 1)
		info_block_size(c, o, x);
}

static void do_info(struct conn *c, const struct option_msg *o)
{
	struct block *x;
	uint32_t name_len, rest;

	if (o->len < 6 || get32(o->data) > o->len - 6) {
		invalid(c, o);
		return;
	}
	name_len = get32(o->data);
	rest = o->len - 6 - name_len;
	if (rest != 2u * get16(o->data + 4 + name_len)) {
		invalid(c, o);
		return;
	}
	x = export_find(c->server, o->data + 4, name_len);
	if (!x) {
		unknown(c, o);
		return;
	}
	if (o->type == NBD_OPT_GO && !enter(c)) {
		finish(c, o, NBD_REP_ERR_POLICY,
		       "this address has too many connections");
		return;
	}
	infos(c, o, x, o->data + 6 + name_len, rest / 2);
	finish(c, o, NBD_REP_ACK, "");
	if (o->type == NBD_OPT_GO)
		serve(c, x);
}

static bool matches(const struct option_msg *o, const uint8_t *query,
		    uint32_t len)
{
	uint32_t all = (uint32_t)strlen("base:");

	if (o->type == NBD_OPT_LIST_META_CONTEXT && len == all)
		return !memcmp(query, allocation, all);
	return len == strlen(allocation) && !memcmp(query, allocation, len);
}

/* Returns whether one of the queries asks for it; -1: they make no sense. */
static int find_query(const struct option_msg *o, const uint8_t *p)
{
	const uint8_t *end = o->data + o->len;
	uint32_t n = get32(p);
	int found = !n && o->type == NBD_OPT_LIST_META_CONTEXT;

	for (p += 4; n; n--) {
		if (end - p < 4 || get32(p) > end - p - 4)
			return -1;
		found |= matches(o, p + 4, get32(p));
		p += 4 + get32(p);
	}
	return p == end ? found : -1;
}

static void add_context(struct conn *c, const struct option_msg *o,
			const struct block *x)
{
	bool set = o->type == NBD_OPT_SET_META_CONTEXT;

	reply_head(c, o, NBD_REP_META_CONTEXT, 4 + strlen(allocation));
	c->reply_end = put32(c->reply_end, set ? ALLOCATION_ID : 0);
	add(c, allocation, strlen(allocation));
	if (set)
		c->status_of = x;
}

static void do_meta_context(struct conn *c, const struct option_msg *o)
{
	const struct block *x;
	uint32_t name_len;
	int found;

	if (o->type == NBD_OPT_SET_META_CONTEXT)
		c->status_of = NULL;
	if (!c->structured || o->len < 8 || get32(o->data) > o->len - 8) {
		invalid(c, o);
		return;
	}
	name_len = get32(o->data);
	found = find_query(o, o->data + 4 + name_len);
	if (found < 0) {
		invalid(c, o);
		return;
	}
	x = export_find(c->server, o->data + 4, name_len);
	if (!x) {
		unknown(c, o);
		return;
	}
	if (found)
		add_context(c, o, x);
	finish(c, o, NBD_REP_ACK, "");
}

static void do_starttls(struct conn *c, const struct option_msg *o)
{
	if (!c->server->tls) {
		finish(c, o, NBD_REP_ERR_UNSUP, "this server has no TLS");
	} else if (c->tls) {
		finish(c, o, NBD_REP_ERR_INVALID, "TLS is in use already");
	} else {
		/* Anybody may have made the client's choices. */
		c->structured = false;
		c->status_of = NULL;
		c->then = GO_TLS;
		finish(c, o, NBD_REP_ACK, "");
	}
}

static void do_structured(struct conn *c, const struct option_msg *o)
{
	c->structured = true;
	finish(c, o, NBD_REP_ACK, "");
}

static void do_abort(struct conn *c, const struct option_msg *o)
{
	finish(c, o, NBD_REP_ACK, "");
	c->then = GO_AWAY;
}

static const struct {
	void (*fn)(struct conn *c, const struct option_msg *o);
	bool no_data;
} options[] = {
	[NBD_OPT_EXPORT_NAME] = { do_export_name, false },
	[NBD_OPT_ABORT] = { do_abort, false },
	[NBD_OPT_LIST] = { do_list, true },
	[NBD_OPT_STARTTLS] = { do_starttls, true },
	[NBD_OPT_INFO] = { do_info, false },
	[NBD_OPT_GO] = { do_info, false },
	[NBD_OPT_STRUCTURED_REPLY] = { do_structured, true },
	[NBD_OPT_LIST_META_CONTEXT] = { do_meta_context, false },
	[NBD_OPT_SET_META_CONTEXT] = { do_meta_context, false },
};

static bool lacks_tls(const struct conn *c, uint32_t type)
{
	return c->server->opts.tls == TLS_REQUIRE && !c->tls &&
	       type != NBD_OPT_STARTTLS && type != NBD_OPT_ABORT;
}

static void do_option(struct conn *c, const struct option_msg *o)
{
	c->reply_end = c->cell_base;
	if (lacks_tls(c, o->type) && o->type == NBD_OPT_EXPORT_NAME)
		conn_drop(c);
	else if (lacks_tls(c, o->type))
		finish(c, o, NBD_REP_ERR_TLS_REQD, "this server wants TLS");
	else if (o->type >= sizeof(options) / sizeof(options[0]) ||
	    !options[o->type].fn)
		finish(c, o, NBD_REP_ERR_UNSUP, "no such option");
	else if (options[o->type].no_data && o->len)
		invalid(c, o);
	else
		options[o->type].fn(c, o);
	if (c->state != CLOSING)
		send_reply(c);
}

/* One that is too long is answered, and what comes of it is thrown away. */
static void refuse_long(struct conn *c, const struct option_msg *o)
{
	if (o->type == NBD_OPT_EXPORT_NAME) {
		conn_drop(c);
		return;
	}
	if (o->type == NBD_OPT_SET_META_CONTEXT)
		c->status_of = NULL;
	c->head += OPTION_BYTES;
	c->skip = o->len;
	c->reply_end = c->cell_base;
	finish(c, o, NBD_REP_ERR_TOO_BIG, "the option is too long");
	send_reply(c);
}

static bool parse_option(struct conn *c)
{
	const uint8_t *p = c->rx + c->head;
	uint32_t here = c->tail - c->head;
	struct option_msg o;

	if (here < OPTION_BYTES)
		return false;
	o = (struct option_msg){ get32(p + 8), get32(p + 12),
				 p + OPTION_BYTES };
	if (get64(p) != NBD_OPTION_MAGIC) {
		conn_drop(c);
		return false;
	}
	if (o.len > OPTION_MAX) {
		refuse_long(c, &o);
		return true;
	}
	if (here - OPTION_BYTES < o.len)
		return false;
	c->head += OPTION_BYTES + o.len;
	do_option(c, &o);
	return true;
}

static bool parse_flags(struct conn *c)
{
	const uint8_t *p = c->rx + c->head;
	uint32_t known = NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES;

	if (c->tail - c->head < 4)
		return false;
	c->head += 4;
	if (get32(p) & ~known) {
		conn_drop(c);
		return false;
	}
	c->no_zeroes = get32(p) & NBD_FLAG_NO_ZEROES;
	c->state = HAGGLING;
	return true;
}

/* Returns whether something was done, and more may be. */
bool hello_parse(struct conn *c)
{
	c->blocked = c->sending;
	if (c->blocked)
		return false;
	return c->state == GREETING ? parse_flags(c) : parse_option(c);
}
