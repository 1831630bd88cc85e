libweir_all_la_SOURCES += \
	%D%/atomic.c \
	%D%/bounce-block.c \
	%D%/bounce-both.c \
	%D%/bounce-internal.h \
	%D%/bounce-step.c \
	%D%/bounce.c \
	%D%/bounce.h \
	%D%/flow/chain-fuse.c \
	%D%/flow/chain-hop.c \
	%D%/flow/chain-internal.h \
	%D%/flow/chain-run.c \
	%D%/flow/chain.c \
	%D%/crc32c.c \
	%D%/dma.c \
	%D%/engine-cpu.c \
	%D%/engine-domain.c \
	%D%/engine-file.c \
	%D%/engine-process.c \
	%D%/engine.c \
	%D%/job-end.c \
	%D%/job-internal.h \
	%D%/job-plan.c \
	%D%/job.c \
	%D%/operand.c \
	%D%/operand.h \
	%D%/operand-extra.c \
	%D%/job-fence.c \
	%D%/flow/pipeline-internal.h \
	%D%/flow/pipeline-run.c \
	%D%/flow/pipeline.c \
	%D%/refusal.c \
	%D%/capacity.c \
	%D%/route-explain.c \
	%D%/route.c \
	%D%/route.h \
	%D%/flow/pipeline-slot.c \
	%D%/dma-state.c \
	%D%/stats.c \
	%D%/sync/chain.c \
	%D%/sync/internal.h \
	%D%/sync/remote.c \
	%D%/sync/shared.c \
	%D%/sync/wait.c \
	%D%/sync/watch.c \
	%D%/sync/sync.c \
	%D%/translate.c

if HAVE_VERBS
libweir_all_la_SOURCES += \
	%D%/conn-accept.c \
	%D%/conn-connect.c \
	%D%/conn-device.c \
	%D%/conn-end.c \
	%D%/conn-event.c \
	%D%/cm-dispatcher.c \
	%D%/conn-internal.h \
	%D%/conn-listen.c \
	%D%/conn-qp.c \
	%D%/conn-watch.c \
	%D%/conn.c \
	%D%/engine-verbs-atomic.c \
	%D%/engine-verbs-key.c \
	%D%/engine-verbs-post.c \
	%D%/engine-verbs-request.c \
	%D%/engine-verbs-split.c \
	%D%/engine-verbs.c \
	%D%/engine-verbs.h \
	%D%/message-queued.c \
	%D%/message.c \
	%D%/srq-device.c \
	%D%/srq-fill.c \
	%D%/srq-internal.h \
	%D%/srq-member.c \
	%D%/srq.c \
	%D%/mw.c
else
libweir_all_la_SOURCES += %D%/conn-none.c %D%/engine-verbs-none.c \
	%D%/message-none.c %D%/no-verbs.h %D%/mw-none.c
endif

EXTRA_DIST += %D%/README.md
