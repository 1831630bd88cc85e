libcore_la_SOURCES += \
	%D%/atomic.c \
	%D%/bounce-internal.h \
	%D%/bounce-step.c \
	%D%/bounce.c \
	%D%/bounce.h \
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
	%D%/engines.c \
	%D%/job-end.c \
	%D%/job-fence.c \
	%D%/job-run.c \
	%D%/job-internal.h \
	%D%/job-check.c \
	%D%/job-plan.c \
	%D%/kind.c \
	%D%/kind.h \
	%D%/operand.c \
	%D%/operand.h \
	%D%/operand-extra.c \
	%D%/provider.c \
	%D%/flow/pipeline-internal.h \
	%D%/flow/pipeline.c \
	%D%/capacity.c \
	%D%/route.c \
	%D%/route.h \
	%D%/dma-state.c \
	%D%/stats.c \
	%D%/sync/internal.h \
	%D%/sync/remote.c \
	%D%/sync/wait.c \
	%D%/sync/watch.c \
	%D%/sync/sync.c \
	%D%/translate.c


EXTRA_DIST += %D%/README.md
