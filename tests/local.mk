# The output is TAP.  tap-run.sh stands between a test and automake's driver: it
# limits its time and mends what cmocka 1.1.5 gets wrong.
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/build-aux/tap-driver.sh
LOG_COMPILER = $(SHELL) $(top_srcdir)/build-aux/tap-run.sh
AM_LOG_FLAGS = $(TEST_WRAPPER)
TEST_EXTENSIONS = .sh
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = $(SHELL) $(top_srcdir)/build-aux/tap-run.sh $(SHELL)

# WEIR_TEST_LONG=1 in the environment asks the tests for their full length.
AM_TESTS_ENVIRONMENT = \
	AWK='$(AWK)'; CC='$(CC)'; MAKE='$(MAKE)'; \
	SAN_CFLAGS='$(SAN_CFLAGS)'; PKG_CONFIG='$(PKG_CONFIG)'; \
	pkgconfigdir='$(pkgconfigdir)'; srcdir='$(srcdir)'; \
	CMOCKA_MESSAGE_OUTPUT=TAP; MALLOC_PERTURB_=165; \
	UBSAN_OPTIONS=print_stacktrace=1; \
	TSAN_OPTIONS="halt_on_error=1 $$TSAN_OPTIONS"; \
	export AWK CC MAKE SAN_CFLAGS PKG_CONFIG pkgconfigdir srcdir \
		CMOCKA_MESSAGE_OUTPUT MALLOC_PERTURB_ UBSAN_OPTIONS \
		TSAN_OPTIONS;

# What all tests share: the harness, and the fixtures, most of which are headers.
%C%_libharness_la_SOURCES = %D%/support/harness.c %D%/support/harness-fd.c \
	%D%/support/harness-sim.c %D%/support/op-kinds.c \
	%D%/support/proxy-fixture.c $(test_headers)
test_headers = %D%/support/alloc-fixture.h %D%/support/bounce-fixture.h \
	%D%/support/channel-fixture.h %D%/support/child-fixture.h \
	%D%/support/conform-fixture.h %D%/support/conn-fixture.h \
	%D%/support/cores.h %D%/support/errnos-fixture.h \
	%D%/support/engine-of.h %D%/support/export-fixture.h %D%/support/forbid.h \
	%D%/support/cuda-bare.h %D%/support/cuda-fixture.h %D%/support/dns-fixture.h \
	%D%/support/fabric-fixture.h \
	%D%/support/fault-fixture.h %D%/support/gate-fixture.h \
	%D%/support/group-fixture.h %D%/support/harness.h \
	%D%/support/ignore.h %D%/support/job-fixture.h %D%/support/loopdev.h \
	%D%/support/message-fixture.h %D%/support/mock-cm-internal.h \
	%D%/support/mock-uring-internal.h %D%/support/mock-uring.h \
	%D%/support/mock-verbs-internal.h %D%/support/mock-verbs.h \
	%D%/support/mw-fixture.h %D%/support/nbd-fixture.h \
	%D%/support/op-kinds.h %D%/support/own-malloc.h \
	%D%/support/peer-fixture.h %D%/support/pipeline-fixture.h \
	%D%/support/proxy-fixture.h \
	%D%/support/qp.h %D%/support/rdma-fixture.h %D%/support/resolve-fixture.h \
	%D%/support/segment-fixture.h \
	%D%/support/sim-calls.h %D%/support/sim-file-fixture.h \
	%D%/support/sim-fixture.h %D%/support/slow-fixture.h \
	%D%/support/snippets.h %D%/support/stats-fixture.h \
	%D%/support/table-fixture.h %D%/support/tls-fixture.h \
	%D%/support/user-domain-fixture.h \
	%D%/support/verbs-fixture.h %D%/support/vhost-front.h \
	%D%/support/writer-fixture.h \
	%D%/fuzz/descriptor-fixture.h

# RDMA devices that are none, in place of rdma-core: all of them, whatever is asked.
check_LIBRARIES =
if HAVE_VERBS
check_LIBRARIES += %D%/libmock.a
test_mock = -Wl,--whole-archive,%D%/libmock.a,--no-whole-archive
endif
%C%_libmock_a_SOURCES = %D%/support/mock-cm.c %D%/support/mock-cm-connect.c \
	%D%/support/mock-cm-event.c %D%/support/mock-sim.c \
	%D%/support/mock-verbs.c %D%/support/mock-verbs-cq.c \
	%D%/support/mock-verbs-event.c %D%/support/mock-verbs-key.c \
	%D%/support/mock-verbs-memory.c %D%/support/mock-verbs-move.c \
	%D%/support/mock-verbs-post.c %D%/support/mock-verbs-qp.c \
	%D%/support/mock-verbs-side.c

# The kernel's io_uring that is none, in place of liburing; it acts at the begin of
# each turn, too.
check_LIBRARIES += %D%/libmock-uring.a
test_model = -Wl,--whole-archive,%D%/libmock-uring.a,--no-whole-archive \
	-Wl,--wrap=mailbox_run
%C%_libmock_uring_a_SOURCES = %D%/support/mock-uring.c \
	%D%/support/mock-uring-harness.c %D%/support/mock-uring-request.c \
	%D%/support/mock-uring-try.c

# A test's source is its name with ".c", unless its folder says otherwise.  It links
# what users link (public_tests); or all objects of the library, to look inside
# (internal_tests); or these over the mock (mock_tests).
LDADD = %D%/libharness.la libweir-all.la $(CMOCKA_LIBS)
test_public = %D%/libharness.la $(weir_sim) $(weir_rdma) libweir.la \
	$(CMOCKA_LIBS)
public_tests =
internal_tests =
mock_tests =
model_tests =
accel_tests =
cuda_tests =
chain_storm = %D%/support/chain-storm.c %D%/support/chain-storm.h
fabric_tests =
nvme_tests =
resolve_tests =
tls_tests =
test_programs = $(public_tests) $(internal_tests) $(mock_tests) $(model_tests) \
	$(accel_tests) $(cuda_tests) $(fabric_tests) $(nvme_tests) $(resolve_tests) \
	$(tls_tests)
# Of these, the ones that TSan leaves out: they have one thread.
without_threads =
# What runs in a guest that has RDMA and a drive, by make check-rdma: programs that
# link all objects without the mock, other tests, and what they start.  They find
# two devices (vm/guest.sh).  Its kernel is an old one, 6.1, whose answers are others.
rdma_programs =
rdma_tests = %D%/interop/weir-nbd-kernel.sh %D%/vm/rdma-smoke.sh \
	%D%/reactor/test-alarm %D%/reactor/test-ev %D%/reactor/test-op \
	%D%/reactor/test-rw %D%/reactor/test-uring-entry \
	%D%/reactor/test-uring-facts %D%/reactor/test-watch
rdma_helpers =
test_scripts = %D%/check-abi.sh %D%/check-bits.sh %D%/check-examples.sh \
	%D%/check-models.sh %D%/check-probes.sh \
	%D%/check-symbols.sh %D%/interop/dns-server.sh %D%/interop/http-files.sh \
	%D%/interop/weir-nbd.sh %D%/interop/weir-proxy.sh \
	$(bench_scripts)
if HAVE_OPENSSL
test_scripts += %D%/interop/weir-nbd-tls.sh
endif
# Those of them that run benchmarks: "make check pkglibexec_PROGRAMS= bench_scripts="
# does without.
bench_scripts = %D%/check-install.sh %D%/programs/test-weir-bench.sh
# What is the same however the tree was configured: build-aux/steps.sh does it once.
tree_tests = %D%/check-browser.sh %D%/check-docs.sh %D%/check-errnos.sh \
	%D%/check-guides.sh %D%/check-headers.sh %D%/check-html.sh \
	%D%/check-judge.sh %D%/check-layers.sh %D%/check-rules.sh \
	%D%/check-snippets.sh %D%/check-style.sh %D%/check-tap-run.sh \
	%D%/check-words.sh

include %D%/base/local.mk
include %D%/reactor/local.mk
include %D%/mem/local.mk
include %D%/dma/local.mk
include %D%/accel/local.mk
include %D%/cuda/local.mk
if HAVE_LIBFABRIC
include %D%/fabric/local.mk
endif
if HAVE_NVME
include %D%/nvme/local.mk
endif
include %D%/resolve/local.mk
if HAVE_OPENSSL
include %D%/tls/local.mk
endif
include %D%/sim/local.mk
include %D%/programs/local.mk
if HAVE_VERBS
include %D%/rdma/local.mk
endif

# What only a guest runs is compiled for that alone, by rdma-programs.
if HAVE_CMOCKA
check_LTLIBRARIES += %D%/libharness.la
check_PROGRAMS += $(test_programs)
EXTRA_PROGRAMS += $(rdma_programs)
TESTS += $(test_programs)
rdma_tests += $(rdma_programs)
endif
$(public_tests): LDADD = $(test_public)
$(public_tests): libweir.la $(weir_sim) $(weir_rdma)
# Those of libweir-accel, which need that too.
$(accel_tests): LDADD = %D%/libharness.la libweir-accel.la $(weir_sim) $(weir_rdma) \
	libweir.la $(CMOCKA_LIBS)
$(accel_tests): libweir-accel.la libweir.la $(weir_sim) $(weir_rdma)
# Those of libweir-cuda, likewise.
$(cuda_tests): LDADD = %D%/libharness.la libweir-cuda.la $(weir_sim) $(weir_rdma) \
	libweir.la $(CMOCKA_LIBS) -ldl
$(cuda_tests): $(cuda_mock) libweir-cuda.la libweir.la $(weir_sim) $(weir_rdma)
# And those of libweir-fabric.
$(fabric_tests): LDADD = %D%/libharness.la libweir-fabric.la $(weir_sim) $(weir_rdma) \
	libweir.la $(CMOCKA_LIBS) -ldl
$(fabric_tests): libweir-fabric.la libweir.la $(weir_sim) $(weir_rdma)
# And those of libweir-nvme.
$(nvme_tests): LDADD = %D%/libharness.la libweir-nvme.la $(weir_sim) $(weir_rdma) \
	libweir.la $(CMOCKA_LIBS)
$(nvme_tests): libweir-nvme.la libweir.la $(weir_sim) $(weir_rdma)
# And those of libweir-resolve.
$(resolve_tests): LDADD = %D%/libharness.la libweir-resolve.la libbase.la $(weir_sim) \
	$(weir_rdma) libweir.la $(CMOCKA_LIBS)
$(resolve_tests): libweir-resolve.la libbase.la libweir.la $(weir_sim) $(weir_rdma)
# And those of libweir-tls.
$(tls_tests): LDADD = %D%/libharness.la libweir-tls.la $(weir_sim) $(weir_rdma) \
	libweir.la $(LIBSSL_LIBS) $(OPENSSL_LIBS) $(CMOCKA_LIBS)
$(tls_tests): libweir-tls.la libweir.la $(weir_sim) $(weir_rdma)
if HAVE_VERBS
$(mock_tests): AM_LDFLAGS += $(test_mock)
$(mock_tests): %D%/libmock.a
endif

$(model_tests): AM_LDFLAGS += $(test_model)
$(model_tests): %D%/libmock-uring.a

# Programs that run another where a call is refused.
check_PROGRAMS += %D%/support/without-call %D%/support/without-uring
EXTRA_PROGRAMS += $(rdma_helpers) %D%/interop/vhost-writer
%C%_interop_vhost_writer_SOURCES = %D%/interop/vhost-writer.c
%C%_interop_vhost_writer_LDADD =
CLEANFILES += $(rdma_programs) $(rdma_helpers) %D%/interop/vhost-writer
TESTS += $(test_scripts) $(tree_tests)
EXTRA_DIST += $(test_scripts) $(tree_tests) \
	%D%/README.md %D%/apropos.txt %D%/abi/libweir-accel.abi %D%/abi/libweir-cuda.abi %D%/abi/libweir-fabric.abi \
	%D%/abi/libweir-nvme.abi \
	%D%/abi/libweir-rdma.abi %D%/abi/libweir-resolve.abi \
	%D%/abi/libweir-sim.abi %D%/abi/libweir-tls.abi %D%/abi/libweir.abi %D%/cohesion.awk %D%/errnos.awk %D%/errnos.txt \
	%D%/interop/http-many.py %D%/interop/nbd-writer.py \
	%D%/interop/power-cut.sh %D%/interop/weir-nbd-durable.py %D%/interop/weir-nbd-kernel.sh \
	%D%/interop/weir-nbd.py %D%/interop/weir-nbd-tls.py %D%/interop/weir-nbd-tls.sh \
	%D%/programs/weir-proxy-tls.py %D%/interop/weir-proxy.py %D%/man-agrees.awk \
	%D%/models/close.pml %D%/models/group.pml %D%/models/hop.pml \
	%D%/models/mailbox.pml %D%/models/pool.pml %D%/models/spsc.pml \
	%D%/models/sync.pml %D%/mutate.py %D%/mutations.txt \
	%D%/races.supp \
	%D%/programs/test-vm.sh %D%/interop/weir-ublk.sh %D%/interop/weir-vhost.sh \
	%D%/programs/test-weir-rdma.sh %D%/programs/test-weir-rping.sh \
	%D%/programs/weir-cp-fixture.sh %D%/rdma/local.mk \
	%D%/private.txt \
	%D%/seeds/chains-full-reactor.seed \
	%D%/seeds/net-cancel-after-deadline.seed %D%/skips.txt %D%/snippets.awk \
	%D%/browser.html %D%/support/check.sh %D%/support/fixture.sh %D%/support/snippets.h \
	%D%/valgrind.supp %D%/vm/README.md %D%/vm/check.sh %D%/vm/drive.sh \
	%D%/vm/frame.h %D%/vm/guest.sh %D%/vm/init.c %D%/vm/prepare \
	%D%/vm/rdma-smoke.sh %D%/vm/relay.c %D%/vm/run %D%/vm/weir-rping.sh \
	%D%/words.txt

# To keep the ABI that the libraries have now: see check-abi.sh.
abi: all
	srcdir='$(srcdir)' $(SHELL) $(srcdir)/%D%/check-abi.sh --keep

# Programs that make no sense under valgrind, or take for ever.
not_under_valgrind = $(model_tests)

valgrind_command = $(LIBTOOL) --mode=execute valgrind -q --error-exitcode=99 \
	--leak-check=full --errors-for-leak-kinds=definite,indirect \
	--fair-sched=yes --num-callers=24 \
	--suppressions=$(abs_top_srcdir)/tests/valgrind.supp

# Every PARTS-th, from the PART-th on: 1/1 is all.
PART = 1
PARTS = 1
chosen = n=0; for t in $$list; do n=$$((n + 1)); \
	[ $$((n % $(PARTS))) != $$(($(PART) % $(PARTS))) ] || echo $$t; done

# As check, but of the scripts a part.
check-part: all
	list='$(test_scripts)'; list=`$(chosen)`; \
	$(MAKE) check test_scripts="`echo $$list`"

# Of these programs a part, if PARTS is set.
check-valgrind: all
if HAVE_VALGRIND_H
	list=`for t in $(test_programs); do case ' $(not_under_valgrind) ' in \
		*" $$t "*) ;; *) echo $$t ;; esac; done`; list=`$(chosen)`; \
	WEIR_TEST_TIMEOUT=$${WEIR_TEST_TIMEOUT:-1200} $(MAKE) check \
		TEST_WRAPPER='$(valgrind_command)' TESTS="`echo $$list`"
else
	@echo 'configured without annotations for valgrind: it would hang' >&2
	@exit 1
endif

# What threads exchange, under helgrind and drd; over ev, for valgrind 3.19 cannot
# wait in a ring.
race_tests = %D%/reactor/test-call %D%/reactor/test-group \
	%D%/reactor/test-mailbox %D%/reactor/test-post %D%/reactor/test-spsc

check-helgrind: $(race_tests)
if HAVE_VALGRIND_H
	@failed=0; for t in $(race_tests); do for tool in helgrind drd; do \
		echo "$$tool $$t"; \
		$(AM_TESTS_ENVIRONMENT) \
		WEIR_TEST_BACKEND=ev timeout -k 10 300 $(LIBTOOL) \
			--mode=execute valgrind -q --tool=$$tool \
			--fair-sched=yes --error-exitcode=99 --num-callers=24 \
			--suppressions=$(abs_top_srcdir)/tests/races.supp \
			$$t >race.log 2>&1 || { cat race.log; failed=1; }; \
	done; done; rm -f race.log; exit $$failed
else
	@echo 'configured without annotations for valgrind: all is a race' >&2
	@exit 1
endif

# One test and what it needs: make one TEST=test-op.  It needs the programs that it,
# or a fixture of it, names.
one:
	@for t in $(test_programs) $(rdma_programs) $(test_scripts) \
	$(tree_tests); do \
		case $$t in */'$(TEST)' | */'$(TEST)'.sh) ;; *) continue ;; esac; \
		case $$t in *.sh) needs= source=$$t ;; \
			*) needs=$$t source=$$t.c ;; esac; \
		named=`cd $(srcdir) && [ ! -e $$source ] || cat $$source \
			$$(grep -o 'tests/[a-z/-]*fixture' $$source | \
				sed 's/$$/.*/') 2>/dev/null`; \
		for p in $(bin_PROGRAMS) $(check_PROGRAMS); do \
			case $$p in $$t) continue ;; esac; \
			case $$named in *$$p*) needs="$$needs $$p" ;; esac; \
		done; \
		[ -z "$$needs" ] || $(MAKE) $$needs || exit; \
		log=$${t%.sh}.log; rm -f $$log; \
		$(MAKE) check-TESTS check_PROGRAMS= check_LTLIBRARIES= \
			check_LIBRARIES= TESTS=$$t || { cat $$log; exit 1; }; \
		exit; \
	done; echo 'there is no test $(TEST)' >&2; exit 1

# With TSan: programs alone, and of these not those that have one thread, which are
# not compiled either.
check-threads: all
	list=`for t in $(test_programs); do case ' $(without_threads) ' in \
		*" $$t "*) ;; *) echo $$t ;; esac; done`; list=`echo $$list`; \
	$(MAKE) check TESTS="$$list" check_PROGRAMS="$$list"

# What scripts run, beside the programs that are installed.
script_programs = %D%/sim/runner-scenarios %D%/support/without-call \
	%D%/support/without-uring tools/weir-sim-mutation
if HAVE_OPENSSL
script_programs += %D%/tls/tls-peer
endif
if HAVE_VERBS
script_programs += tools/weir-sim-verbs
endif
if SHARED
if HAVE_LIBFABRIC
script_programs += tools/weir-sim-fabric
endif
script_programs += %D%/programs/worlds-nbd %D%/programs/worlds-proxy \
	%D%/programs/worlds-ublk %D%/programs/worlds-vhost
endif
if HAVE_CMOCKA
script_programs += %D%/programs/test-weir-nbd %D%/programs/test-weir-nbd-hello \
	%D%/programs/test-weir-nbd-hostile
endif

# As distcheck, but of the tests only those that see the tree and what is installed:
# what else a test sees is the same wherever it is built, and steps.sh compares the
# tarball with the tree.  Static libraries are built and installed by make check.
distcheck_tests = %D%/check-install.sh %D%/check-symbols.sh $(tree_tests)

distcheck-tree:
	$(MAKE) distcheck DISTCHECK_CONFIGURE_FLAGS='--disable-static CFLAGS=-O1' \
		TESTS='$(distcheck_tests)' check_PROGRAMS= check_LTLIBRARIES= \
		check_LIBRARIES=

# Tests over RDMA, in a guest: RDMA_RESULTS is where their results go.  The
# guest itself is tested before, by check-vm.
RDMA_RESULTS = check-rdma.d

rdma-programs: all $(rdma_tests) $(rdma_helpers)

check-rdma: rdma-programs
	@$(AM_TESTS_ENVIRONMENT) TEST_WRAPPER='$(TEST_WRAPPER)' \
		$(SHELL) $(srcdir)/%D%/vm/check.sh \
		$(RDMA_RESULTS) $(rdma_tests)

vm_tests = %D%/programs/test-vm.sh %D%/interop/weir-vhost.sh
ublk_tests = %D%/interop/weir-ublk.sh %D%/interop/power-cut.sh

check-vm: programs/weir-vhost/weir-vhost
	@$(MAKE) check-TESTS TESTS='$(vm_tests)'

# Disks in guests of their own, whose kernel is newer.
check-ublk: programs/weir-nbd/weir-nbd programs/weir-ublk/weir-ublk \
	programs/weir-vhost/weir-vhost %D%/interop/vhost-writer
	@$(MAKE) check-TESTS TESTS='$(ublk_tests)'

# Plant bugs, one at a time, and see whether the tests notice: mutate.py.
MUTATE =
mutate:
	python3 $(srcdir)/%D%/mutate.py $(MUTATE) $(srcdir) mutate.d

# Which lines the tests run: coverage.d/lines has those that never ran.
COVERAGE_TESTS =
coverage:
	@$(SHELL) $(top_srcdir)/build-aux/coverage.sh $(abs_top_srcdir) \
		coverage.d $(COVERAGE_TESTS)

# gcc -fanalyzer, clang-tidy and cppcheck.
analyse:
	@$(SHELL) $(top_srcdir)/build-aux/analyse.sh $(srcdir) . analyse.d

# Everything there is, in full, into a report: hours.  STEPS='tsan valgrind' runs
# these alone.
check-long: all
	$(SHELL) $(top_srcdir)/build-aux/steps.sh --long \
		$(if $(STEPS),--only '$(STEPS)') \
		--report $(top_srcdir)/docs/check-long.txt \
		$(abs_top_srcdir) $(abs_builddir)/check-long.d

# The simulator for as long as a release is worth; it can be interrupted.
check-sim: tools/weir-sim
	$(SHELL) $(top_srcdir)/build-aux/sim-release.sh tools/weir-sim \
		$(top_srcdir)

.PHONY: abi analyse check-helgrind check-long check-part check-rdma check-sim \
	check-threads check-ublk check-valgrind check-vm coverage distcheck-tree mutate one \
	rdma-programs
