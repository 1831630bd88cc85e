# libweir-rdma: what needs rdma-core.
if HAVE_VERBS
librdma_la_SOURCES += \
	%D%/channel-internal.h \
	%D%/channel.c \
	%D%/cm-dispatcher.c \
	%D%/cm.c \
	%D%/conn-connect.c \
	%D%/conn-end.c \
	%D%/conn-internal.h \
	%D%/conn-listen.c \
	%D%/conn-qp.c \
	%D%/conn.c \
	%D%/device-id.c \
	%D%/device.c \
	%D%/device.h \
	%D%/engine-post.c \
	%D%/engine.c \
	%D%/engine.h \
	%D%/export.c \
	%D%/export.h \
	%D%/message.c \
	%D%/mmap-mw.h \
	%D%/mw.c \
	%D%/op-list.h \
	%D%/provider.c \
	%D%/srq-internal.h \
	%D%/srq.c \
	%D%/verbs-event.c \
	%D%/verbs-fd.c \
	%D%/verbs-fd.h
endif
EXTRA_DIST += %D%/README.md
