libweir_all_la_SOURCES += \
	%D%/acceptor.c \
	%D%/backend.h \
	%D%/group/call.c \
	%D%/group/deferred.c \
	%D%/group/deferred.h \
	%D%/event.c \
	%D%/file.c \
	%D%/group/core.c \
	%D%/group/cpu.c \
	%D%/group/load.c \
	%D%/group/group.c \
	%D%/group/group.h \
	%D%/host.c \
	%D%/io-own.c \
	%D%/io-step.c \
	%D%/io-sync.c \
	%D%/io.c \
	%D%/io.h \
	%D%/group/spsc-inline.h \
	%D%/group/spsc.c \
	%D%/group/spsc.h \
	%D%/listen.c \
	%D%/poll-hook.c \
	%D%/group/mailbox.c \
	%D%/group/mailbox.h \
	%D%/op-inline.h \
	%D%/op-internal.h \
	%D%/op.c \
	%D%/poller.c \
	%D%/reactor-internal.h \
	%D%/reactor.c \
	%D%/receiver.c \
	%D%/rx.c \
	%D%/rx.h \
	%D%/signal.c \
	%D%/sim-backend.c \
	%D%/sim-call.c \
	%D%/sim-counter.c \
	%D%/sim-event.c \
	%D%/sim-fault.c \
	%D%/sim-fd.c \
	%D%/sim-file-data.c \
	%D%/sim-file-fd.c \
	%D%/sim-file-name.c \
	%D%/sim-file-path.c \
	%D%/sim-file-range.c \
	%D%/sim-file-sync.c \
	%D%/sim-file-user.c \
	%D%/sim-file-world.c \
	%D%/sim-file.c \
	%D%/sim-file.h \
	%D%/sim-socket-conn.c \
	%D%/sim-socket-connect.c \
	%D%/sim-socket-flow.c \
	%D%/sim-socket-make.c \
	%D%/sim-socket.c \
	%D%/sim-socket.h \
	%D%/sim-op.c \
	%D%/sim-source.c \
	%D%/sim.c \
	%D%/sim.h \
	%D%/socket.c \
	%D%/source.c \
	%D%/splice.c \
	%D%/source.h \
	%D%/spin.c \
	%D%/spin.h \
	%D%/stats/ask.c \
	%D%/stats/layout.h \
	%D%/stats/list.c \
	%D%/stats/open.c \
	%D%/stats/page-internal.h \
	%D%/stats/page.c \
	%D%/stats/page.h \
	%D%/stats/place.c \
	%D%/stats/place.h \
	%D%/stats/publish.c \
	%D%/stats/publish.h \
	%D%/stats/read.c \
	%D%/stats/read.h \
	%D%/stats/record.c \
	%D%/stats/time.c \
	%D%/timer.c \
	%D%/turn.c \
	%D%/uring/files.c \
	%D%/uring/fill.c \
	%D%/uring/probe.c \
	%D%/uring/rx.c \
	%D%/uring/setup.c \
	%D%/uring/source.c \
	%D%/uring/submit.c \
	%D%/uring/uring.c \
	%D%/uring/uring.h \
	%D%/wait.c \
	%D%/watch.c \
	%D%/wheel.c \
	%D%/wheel.h \
	%D%/worker.c

if HAVE_VERBS
libweir_all_la_SOURCES += \
	%D%/channel-failed.c \
	%D%/channel-internal.h \
	%D%/channel.c \
	%D%/cm.c \
	%D%/verbs-event.c \
	%D%/verbs-fd.c \
	%D%/verbs-fd.h
else
libweir_all_la_SOURCES += %D%/verbs-none.c
endif

if HAVE_LIBEV
libweir_all_la_SOURCES += \
	%D%/ev/fd.c \
	%D%/ev/mem.c \
	%D%/ev/op.c \
	%D%/ev/source.c \
	%D%/ev/ev.c \
	%D%/ev/ev.h
endif

EXTRA_DIST += %D%/README.md
