# SPDX-License-Identifier: BSD-3-Clause
# The programs that are installed, on public headers alone.

EXTRA_DIST += %D%/LICENSE

# Those that talk to a network, and what they have in common.
hardened_cppflags = $(AM_CPPFLAGS) $(HARDEN_CPPFLAGS)
hardened_cflags = $(AM_CFLAGS) $(HARDEN_CFLAGS)
hardened_ldflags = $(program_ldflags) $(HARDEN_LDFLAGS)

# What several of them need.
noinst_LIBRARIES = %D%/common/libcommon.a
%C%_common_libcommon_a_SOURCES = \
	%D%/common/json.c \
	%D%/common/json.h \
	%D%/common/listen-unix.c \
	%D%/common/listen-unix.h \
	%D%/common/number.c \
	%D%/common/number.h \
	%D%/common/option.c \
	%D%/common/option.h
%C%_common_libcommon_a_CPPFLAGS = $(hardened_cppflags)
%C%_common_libcommon_a_CFLAGS = $(hardened_cflags)
common = %D%/common/libcommon.a

# A program large enough to be of use: see weir-cp/README.md.
bin_PROGRAMS += %D%/weir-cp/weir-cp
%C%_weir_cp_weir_cp_LDFLAGS = $(program_ldflags)
%C%_weir_cp_weir_cp_SOURCES = \
	%D%/weir-cp/attrs.c \
	%D%/weir-cp/convert.c \
	%D%/weir-cp/dir.c \
	%D%/weir-cp/extent.c \
	%D%/weir-cp/file-finish.c \
	%D%/weir-cp/file-open.c \
	%D%/weir-cp/file.c \
	%D%/weir-cp/flow.c \
	%D%/weir-cp/links.c \
	%D%/weir-cp/main.c \
	%D%/weir-cp/node.c \
	%D%/weir-cp/options.c \
	%D%/weir-cp/output.c \
	%D%/weir-cp/progress.c \
	%D%/weir-cp/stream.c \
	%D%/weir-cp/target.c \
	%D%/weir-cp/walk.c \
	%D%/weir-cp/weir-cp.h
%C%_weir_cp_weir_cp_LDADD = $(common) libweir-accel.la libweir.la
EXTRA_DIST += %D%/weir-cp/README.md

# What is served as block devices, for all front ends: see block/README.md.
noinst_LIBRARIES += %D%/block/libblock.a
%C%_block_libblock_a_SOURCES = \
	%D%/block/backing.h \
	%D%/block/batch.c \
	%D%/block/block.h \
	%D%/block/domain.c \
	%D%/block/file.c \
	%D%/block/memory.c \
	%D%/block/open.c \
	%D%/block/plugin.c \
	%D%/block/plugin.h \
	%D%/block/status.c \
	%D%/block/submit.c
%C%_block_libblock_a_CPPFLAGS = $(hardened_cppflags)
%C%_block_libblock_a_CFLAGS = $(hardened_cflags)
block = %D%/block/libblock.a $(common) libweir.la -ldl
EXTRA_DIST += %D%/block/README.md

# Block devices over a network: see weir-nbd/README.md.  The server is a library
# of its own here, for programs that have it inside.
noinst_LIBRARIES += %D%/weir-nbd/libserver.a
%C%_weir_nbd_libserver_a_SOURCES = \
	%D%/weir-nbd/cells.c \
	%D%/weir-nbd/conn.c \
	%D%/weir-nbd/core.c \
	%D%/weir-nbd/export.c \
	%D%/weir-nbd/hello.c \
	%D%/weir-nbd/listen.c \
	%D%/weir-nbd/options.c \
	%D%/weir-nbd/pages.c \
	%D%/weir-nbd/peer.c \
	%D%/weir-nbd/reply.c \
	%D%/weir-nbd/request.c \
	%D%/weir-nbd/say.c \
	%D%/weir-nbd/server.c \
	%D%/weir-nbd/server.h \
	%D%/weir-nbd/weir-nbd.h
if HAVE_OPENSSL
%C%_weir_nbd_libserver_a_SOURCES += %D%/weir-nbd/tls.c
else
%C%_weir_nbd_libserver_a_SOURCES += %D%/weir-nbd/no-tls.c
endif
%C%_weir_nbd_libserver_a_CPPFLAGS = $(hardened_cppflags)
%C%_weir_nbd_libserver_a_CFLAGS = $(hardened_cflags)
nbd_server = %D%/weir-nbd/libserver.a $(weir_tls) $(block)

bin_PROGRAMS += %D%/weir-nbd/weir-nbd
%C%_weir_nbd_weir_nbd_CPPFLAGS = $(hardened_cppflags)
%C%_weir_nbd_weir_nbd_CFLAGS = $(hardened_cflags)
%C%_weir_nbd_weir_nbd_LDFLAGS = $(hardened_ldflags)
%C%_weir_nbd_weir_nbd_SOURCES = %D%/weir-nbd/main.c
%C%_weir_nbd_weir_nbd_LDADD = $(nbd_server)
EXTRA_DIST += %D%/weir-nbd/README.md

# What others need to write plugins for it, and two of them.  A plugin uses the
# server's libweir, so there must be a shared one; the plugin does not name it:
# libtool would link the plugin again at each installation, for one prefix only.
nbdincludedir = $(includedir)/weir-nbd
nbdinclude_HEADERS = %D%/block/plugin.h
nbdplugdir = $(libdir)/weir-nbd
nbdplug_LTLIBRARIES =
if SHARED
nbdplug_LTLIBRARIES += %D%/block/cipher.la %D%/block/import.la
endif
plugin_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared
%C%_block_cipher_la_SOURCES = %D%/block/cipher.c %D%/block/plugin.h
%C%_block_cipher_la_LDFLAGS = $(plugin_ldflags)
%C%_block_import_la_SOURCES = %D%/block/import.c %D%/block/plugin.h
%C%_block_import_la_LDFLAGS = $(plugin_ldflags)

if HAVE_VERBS
# Files by RDMA: see weir-rdma/README.md.
bin_PROGRAMS += %D%/weir-rdma/weir-rdma
%C%_weir_rdma_weir_rdma_CPPFLAGS = $(hardened_cppflags)
%C%_weir_rdma_weir_rdma_CFLAGS = $(hardened_cflags)
%C%_weir_rdma_weir_rdma_LDFLAGS = $(hardened_ldflags)
%C%_weir_rdma_weir_rdma_SOURCES = \
	%D%/weir-rdma/client.c \
	%D%/weir-rdma/file.c \
	%D%/weir-rdma/main.c \
	%D%/weir-rdma/move.c \
	%D%/weir-rdma/note.c \
	%D%/weir-rdma/options.c \
	%D%/weir-rdma/say.c \
	%D%/weir-rdma/serve.c \
	%D%/weir-rdma/staging.c \
	%D%/weir-rdma/transfer.c \
	%D%/weir-rdma/weir-rdma.h
%C%_weir_rdma_weir_rdma_LDADD = $(common) $(weir_rdma) libweir.la

# The other end of rdmacm-utils' rping: see weir-rping/README.md.
bin_PROGRAMS += %D%/weir-rping/weir-rping
%C%_weir_rping_weir_rping_CPPFLAGS = $(hardened_cppflags)
%C%_weir_rping_weir_rping_CFLAGS = $(hardened_cflags)
%C%_weir_rping_weir_rping_LDFLAGS = $(hardened_ldflags)
%C%_weir_rping_weir_rping_SOURCES = \
	%D%/weir-rping/client.c \
	%D%/weir-rping/main.c \
	%D%/weir-rping/options.c \
	%D%/weir-rping/server.c \
	%D%/weir-rping/session.c \
	%D%/weir-rping/weir-rping.h
%C%_weir_rping_weir_rping_LDADD = $(common) $(weir_rdma) libweir.la
endif
EXTRA_DIST += %D%/weir-rdma/README.md
EXTRA_DIST += %D%/weir-rping/README.md

# Connections in and out, and bytes between them: see weir-proxy/README.md.
bin_PROGRAMS += %D%/weir-proxy/weir-proxy
%C%_weir_proxy_weir_proxy_CPPFLAGS = $(hardened_cppflags)
%C%_weir_proxy_weir_proxy_CFLAGS = $(hardened_cflags)
%C%_weir_proxy_weir_proxy_LDFLAGS = $(hardened_ldflags)
%C%_weir_proxy_weir_proxy_SOURCES = \
	%D%/weir-proxy/address.c \
	%D%/weir-proxy/buffer.c \
	%D%/weir-proxy/check.c \
	%D%/weir-proxy/config.c \
	%D%/weir-proxy/conn.c \
	%D%/weir-proxy/control.c \
	%D%/weir-proxy/core.c \
	%D%/weir-proxy/flow.c \
	%D%/weir-proxy/header.c \
	%D%/weir-proxy/listener.c \
	%D%/weir-proxy/log-line.c \
	%D%/weir-proxy/log.c \
	%D%/weir-proxy/main.c \
	%D%/weir-proxy/names.c \
	%D%/weir-proxy/open.c \
	%D%/weir-proxy/options.c \
	%D%/weir-proxy/pipe.c \
	%D%/weir-proxy/target.c \
	%D%/weir-proxy/weir-proxy.h
%C%_weir_proxy_weir_proxy_LDADD = $(common) $(weir_tls) libweir-resolve.la libweir.la
if HAVE_OPENSSL
%C%_weir_proxy_weir_proxy_SOURCES += %D%/weir-proxy/tls.c
else
%C%_weir_proxy_weir_proxy_SOURCES += %D%/weir-proxy/no-tls.c
endif
EXTRA_DIST += %D%/weir-proxy/README.md

# Block devices for this kernel: see weir-ublk/README.md.
bin_PROGRAMS += %D%/weir-ublk/weir-ublk
%C%_weir_ublk_weir_ublk_CPPFLAGS = $(hardened_cppflags)
%C%_weir_ublk_weir_ublk_CFLAGS = $(hardened_cflags)
%C%_weir_ublk_weir_ublk_LDFLAGS = $(hardened_ldflags)
%C%_weir_ublk_weir_ublk_SOURCES = \
	%D%/weir-ublk/control.c \
	%D%/weir-ublk/list.c \
	%D%/weir-ublk/main.c \
	%D%/weir-ublk/options.c \
	%D%/weir-ublk/queue.c \
	%D%/weir-ublk/server.c \
	%D%/weir-ublk/weir-ublk.h
%C%_weir_ublk_weir_ublk_LDADD = $(block)
EXTRA_DIST += %D%/weir-ublk/README.md

# A disk for virtual machines: see weir-vhost/README.md.
bin_PROGRAMS += %D%/weir-vhost/weir-vhost
%C%_weir_vhost_weir_vhost_CPPFLAGS = $(hardened_cppflags)
%C%_weir_vhost_weir_vhost_CFLAGS = $(hardened_cflags)
%C%_weir_vhost_weir_vhost_LDFLAGS = $(hardened_ldflags)
%C%_weir_vhost_weir_vhost_SOURCES = \
	%D%/weir-vhost/blk.c \
	%D%/weir-vhost/device.c \
	%D%/weir-vhost/main.c \
	%D%/weir-vhost/memory.c \
	%D%/weir-vhost/message.c \
	%D%/weir-vhost/options.c \
	%D%/weir-vhost/ring.c \
	%D%/weir-vhost/weir-vhost.h
%C%_weir_vhost_weir_vhost_LDADD = $(block)
EXTRA_DIST += %D%/weir-vhost/README.md

# Units of systemd, which docs/operating.md describes.
unitdir = $(prefix)/lib/systemd/system
unit_DATA = %D%/systemd/weir-nbd@.service %D%/systemd/weir-proxy.service \
	%D%/systemd/weir-ublk@.service %D%/systemd/weir-vhost@.service
if HAVE_VERBS
unit_DATA += %D%/systemd/weir-rdma@.service
endif
CLEANFILES += $(unit_DATA)
EXTRA_DIST += \
	%D%/systemd/weir-nbd@.service.in \
	%D%/systemd/weir-proxy.service.in \
	%D%/systemd/weir-rdma@.service.in \
	%D%/systemd/weir-ublk@.service.in \
	%D%/systemd/weir-vhost@.service.in
$(unit_DATA): %D%/systemd/%: %D%/systemd/%.in
	$(AM_V_GEN)$(MKDIR_P) %D%/systemd && \
		sed 's|[@]bindir[@]|$(bindir)|' $(srcdir)/$@.in >$@

# Completion for shells, made from the texts of --help.
completed = weir weir-cp weir-nbd weir-proxy weir-sim weir-ublk weir-vhost
if HAVE_VERBS
completed += weir-rdma weir-rping
endif
completed_sources = tools/*.c sim/runner.c programs/*/options.c
bashcompdir = $(datadir)/bash-completion/completions
zshcompdir = $(datadir)/zsh/site-functions
fishcompdir = $(datadir)/fish/vendor_completions.d
completion_stamp = %D%/completion/stamp
$(completion_stamp): build-aux/completion.awk tools/weir.c tools/bench.c \
		tools/info.c tools/route.c tools/top.c tools/trace.c sim/runner.c \
		%D%/weir-cp/options.c %D%/weir-nbd/options.c \
		%D%/weir-proxy/options.c %D%/weir-rdma/options.c \
		%D%/weir-rping/options.c %D%/weir-ublk/options.c \
		%D%/weir-vhost/options.c
	$(AM_V_GEN)rm -rf %D%/completion && \
	for shell in bash zsh fish; do \
		$(MKDIR_P) %D%/completion/$$shell && \
		for p in $(completed); do \
			case $$shell in \
			bash) file=$$p ;; \
			zsh) file=_$$p ;; \
			fish) file=$$p.fish ;; \
			esac; \
			(cd $(srcdir) && LC_ALL=C $(AWK) -v shell=$$shell \
				-v program=$$p -f build-aux/completion.awk \
				$(completed_sources)) \
				>%D%/completion/$$shell/$$file || exit 1; \
		done; \
	done && echo made >$@
all-local: $(completion_stamp)
install-completion: $(completion_stamp)
	$(MKDIR_P) '$(DESTDIR)$(bashcompdir)' '$(DESTDIR)$(zshcompdir)' \
		'$(DESTDIR)$(fishcompdir)'
	$(INSTALL_DATA) %D%/completion/bash/* '$(DESTDIR)$(bashcompdir)'
	$(INSTALL_DATA) %D%/completion/zsh/* '$(DESTDIR)$(zshcompdir)'
	$(INSTALL_DATA) %D%/completion/fish/* '$(DESTDIR)$(fishcompdir)'
uninstall-completion:
	for p in $(completed); do \
		rm -f '$(DESTDIR)$(bashcompdir)'/$$p \
			'$(DESTDIR)$(zshcompdir)'/_$$p \
			'$(DESTDIR)$(fishcompdir)'/$$p.fish; \
	done
clean-completion:
	rm -rf %D%/completion
install-data-local: install-completion
uninstall-local: uninstall-completion
clean-local: clean-completion
.PHONY: install-completion uninstall-completion clean-completion
EXTRA_DIST += build-aux/completion.awk
