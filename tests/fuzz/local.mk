# Fuzz targets: what is hostile, or might be, as bytes.
#
# In `make check` each is a plain program, with any compiler, that goes through
# the files of corpus/NAME (run-NAME); test-descriptor does that for descriptors
# from seeds that it makes itself.  `make fuzz` runs each under clang's libFuzzer
# for FUZZ_SECONDS, from there on; what it finds is kept in the build directory.
#
# corpus/engine and corpus/inventory are from run-NAME --write-seeds 24 DIR: for
# a target that reads its input as decisions any bytes will do, and longer ones
# go further.  corpus/sim and corpus/tls are what libFuzzer has made of such: small
# files that reach much.  corpus/command, corpus/http, corpus/nbd and corpus/proxy are written by
# hand.  What has failed is added.
#
# run-calls is no such target: it draws its decisions from a seed, on real
# backends too, and steps.sh runs it at length under ASan.
FUZZ_SECONDS = 60
fuzz_targets = command descriptor engine http inventory nbd proxy sim stats
fuzz_cflags = -std=gnu11 -g -O1 -DHAVE_CONFIG_H -DPIC -include config.h -I. \
	-I$(top_srcdir)/include -I$(top_srcdir) $(LIBURING_CFLAGS) \
	$(LIBSODIUM_CFLAGS) $(VERBS_CFLAGS) -pthread -fno-omit-frame-pointer
fuzz_libs = $(LIBURING_LIBS) $(LIBEV_LIBS) $(LIBSODIUM_LIBS) $(VERBS_LIBS)
if HAVE_OPENSSL
fuzz_targets += tls
fuzz_libs += $(LIBSSL_LIBS) $(OPENSSL_LIBS)
endif

fuzz_tools = programs/common/json.c tools/find.c tools/info-json.c tools/info-text.c \
	tools/info-unused.c tools/info.c tools/json.c tools/route-place.c \
	tools/route.c tools/system.c tools/top-ask.c tools/top-json.c \
	tools/top-prometheus.c tools/top-screen-none.c tools/top-text.c \
	tools/top.c programs/common/number.c programs/common/option.c \
	programs/weir-cp/options.c
if HAVE_VERBS
fuzz_tools += tools/find-rdma.c
endif

fuzz_nbd = programs/block/batch.c programs/block/domain.c \
	programs/block/file.c programs/block/memory.c \
	programs/block/open.c programs/block/plugin.c \
	programs/block/status.c programs/block/submit.c \
	programs/weir-nbd/cells.c \
	programs/weir-nbd/conn.c \
	programs/weir-nbd/export.c \
	programs/weir-nbd/hello.c \
	programs/weir-nbd/pages.c \
	programs/weir-nbd/peer.c \
	programs/weir-nbd/reply.c \
	programs/weir-nbd/no-tls.c programs/weir-nbd/request.c programs/weir-nbd/say.c \
	programs/common/number.c

fuzz_proxy = programs/weir-proxy/address.c programs/weir-proxy/header.c \
	programs/common/number.c

fuzz_common = %D%/run-corpus.c %D%/fuzz-fixture.h
fuzz_programs = %D%/run-calls %D%/run-command %D%/run-engine %D%/run-http \
	%D%/run-inventory \
	%D%/run-nbd %D%/run-proxy %D%/run-sim %D%/run-stats
%C%_run_calls_SOURCES = %D%/fuzz-calls.c %D%/calls-dma.c %D%/calls-flow.c \
	%D%/calls-mem.c %D%/calls-op.c %D%/calls-reactor.c \
	%D%/calls-share.c %D%/calls-source.c %D%/calls-udp.c %D%/calls.h
%C%_run_calls_LDADD = $(weir_sim) libweir.la
%C%_run_command_SOURCES = %D%/fuzz-command.c $(fuzz_common) $(fuzz_tools)
%C%_run_command_LDADD = $(weir_rdma) $(weir_fabric) $(weir_nvme) libweir-cuda.la libweir.la
%C%_run_engine_SOURCES = %D%/fuzz-engine.c $(fuzz_common)
%C%_run_engine_LDADD = libweir-all.la
%C%_run_http_SOURCES = %D%/fuzz-http.c examples/http.h $(fuzz_common)
%C%_run_http_LDADD = libweir.la
%C%_run_inventory_SOURCES = %D%/fuzz-inventory.c $(fuzz_common)
%C%_run_inventory_LDADD = libweir-all.la
%C%_run_nbd_SOURCES = %D%/fuzz-nbd.c $(fuzz_common) $(fuzz_nbd)
%C%_run_nbd_LDADD = libweir.la -ldl
%C%_run_proxy_SOURCES = %D%/fuzz-proxy.c $(fuzz_common) $(fuzz_proxy)
%C%_run_proxy_LDADD = libweir.la
%C%_run_sim_SOURCES = %D%/fuzz-sim.c %D%/sim-chain.c %D%/sim-move.c \
	%D%/sim-op.c %D%/sim-source.c %D%/sim-task.c %D%/sim-world.h \
	$(fuzz_common)
%C%_run_sim_LDADD = $(weir_sim) libweir.la
%C%_run_stats_SOURCES = %D%/fuzz-stats.c $(fuzz_common)
%C%_run_stats_LDADD = libweir-all.la
if HAVE_OPENSSL
fuzz_programs += %D%/run-tls
%C%_run_tls_SOURCES = %D%/fuzz-tls.c $(fuzz_common)
%C%_run_tls_LDADD = libweir-tls.la libweir.la
endif
check_PROGRAMS += $(fuzz_programs)
TESTS += $(fuzz_programs)

fuzz: config.h
	@test -n '$(CLANG)' || { echo 'fuzzing wants clang' >&2; exit 1; }
	@$(MKDIR_P) %D%/corpus-descriptor
	$(CLANG) $(fuzz_cflags) -o %D%/seed-descriptor \
		$(srcdir)/%D%/seed-descriptor.c $(srcdir)/base/*.c \
		$(srcdir)/mem/export/descriptor-mac.c $(srcdir)/mem/export/descriptor.c \
		$(LIBSODIUM_LIBS)
	%D%/seed-descriptor %D%/corpus-descriptor
	CLANG='$(CLANG)' FUZZ_CFLAGS='$(fuzz_cflags)' srcdir='$(srcdir)' \
	FUZZ_LIBS='$(fuzz_libs)' \
	SOURCES='$(libbase_la_SOURCES) $(libcore_la_SOURCES) $(libsim_la_SOURCES) $(librdma_la_SOURCES) \
		$(libweir_cuda_la_SOURCES) $(fuzz_fabric) $(fuzz_nvme)' TOOLS='$(fuzz_tools)' \
	NBD='$(fuzz_nbd)' PROXY='$(fuzz_proxy)' TLS='$(libweir_tls_la_SOURCES)' \
	$(SHELL) $(srcdir)/%D%/fuzz.sh $(FUZZ_SECONDS) $(fuzz_targets)

# Whether gcc and clang make programs that do the same: this build's weir-sim
# and one over the library as it is compiled for fuzzing.
DIGEST_SEEDS = 200
check-digests: config.h tools/weir-sim
	@test -n '$(CLANG)' || { echo 'this wants clang, too' >&2; exit 1; }
	CLANG='$(CLANG)' FUZZ_CFLAGS='$(fuzz_cflags)' srcdir='$(srcdir)' \
	SOURCES='$(libbase_la_SOURCES) $(libcore_la_SOURCES) $(libsim_la_SOURCES) $(librdma_la_SOURCES)' $(SHELL) $(srcdir)/%D%/fuzz.sh 0
	$(CLANG) $(fuzz_cflags) -fsanitize=address,undefined \
		-fsanitize=fuzzer-no-link -o %D%/weir-sim-clang \
		`for f in $(weir_sim_sources); do case $$f in *.c) \
		echo $(srcdir)/$$f ;; esac; done` %D%/obj/*.o $(fuzz_libs)
	$(SHELL) $(srcdir)/build-aux/digests.sh $(DIGEST_SEEDS) tools/weir-sim \
		%D%/weir-sim-clang

mostlyclean-local: clean-fuzz
clean-fuzz:
	rm -rf %D%/obj

.PHONY: check-digests clean-fuzz fuzz

CLEANFILES += %D%/fuzz-command %D%/fuzz-descriptor %D%/fuzz-engine \
	%D%/fuzz-inventory %D%/fuzz-nbd %D%/fuzz-proxy %D%/fuzz-sim %D%/fuzz-stats \
	%D%/fuzz-tls \
	%D%/fuzz-*.log %D%/seed-descriptor %D%/weir-sim-clang
EXTRA_DIST += \
	%D%/corpus \
	%D%/descriptor-fixture.h \
	%D%/fuzz-descriptor.c \
	%D%/fuzz.sh \
	%D%/seed-descriptor.c
