# Pages written by hand.
dist_man_MANS += \
	%D%/man/weir-bench.1 \
	%D%/man/weir-cp.1 \
	%D%/man/weir-errors.7 \
	%D%/man/weir-exit.7 \
	%D%/man/weir-memory.7 \
	%D%/man/weir-op.7 \
	%D%/man/weir-nbd.1 \
	%D%/man/weir-proxy.1 \
	%D%/man/weir-rdma.1 \
	%D%/man/weir-rdma.7 \
	%D%/man/weir-rping.1 \
	%D%/man/weir-sim.1 \
	%D%/man/weir-sim.7 \
	%D%/man/weir-ublk.1 \
	%D%/man/weir-vhost.1 \
	%D%/man/weir.1 \
	%D%/man/weir.7

# A page for each documented function, made from the comment above it.
man3dir = $(mandir)/man3
man3_headers = $(weirinclude_HEADERS) $(weirhostinclude_HEADERS) \
	$(weiraccelinclude_HEADERS) $(weircudainclude_HEADERS) \
	$(weirresolveinclude_HEADERS) $(weirsiminclude_HEADERS) $(rdma_headers) $(fabric_headers) \
	$(nvme_headers) \
	$(tls_headers)
man3_stamp = %D%/man/man3.stamp

man3_awk = build-aux/recreates.awk build-aux/man3.awk
$(man3_stamp): $(man3_headers) $(man3_awk) %D%/man/examples.txt
	$(AM_V_GEN)$(MKDIR_P) %D%/man && rm -f %D%/man/weir_*.3 && \
	LC_ALL=C $(AWK) -v out=%D%/man -v version='$(VERSION)' \
		-v date='$(WEIR_DATE)' -v root=$(srcdir) \
		-v examples=$(srcdir)/%D%/man/examples.txt \
		`for f in $(man3_awk); do echo -f $(srcdir)/$$f; done` \
		`for h in $(man3_headers); do echo $(srcdir)/$$h; done` && \
	echo made >$@

# The tables of porting.md anew, in the source tree.
porting:
	(cd $(srcdir) && LC_ALL=C $(AWK) -f build-aux/recreates.awk \
		-f build-aux/porting.awk %D%/porting.md include/weir/*.h \
		include/weir/*/*.h) >porting.new && \
	mv porting.new $(srcdir)/%D%/porting.md
.PHONY: porting

all-local: $(man3_stamp)
.PHONY: install-man3-pages

install-man3-pages: $(man3_stamp)
	@$(MKDIR_P) '$(DESTDIR)$(man3dir)'
	$(INSTALL_DATA) %D%/man/weir_*.3 '$(DESTDIR)$(man3dir)'
install-data-local: install-man3-pages
uninstall-local:
	cd %D%/man && for page in weir_*.3; do \
		rm -f '$(DESTDIR)$(man3dir)'/$$page; done

# The tarball has them, for those who only want to read.
dist-hook: $(man3_stamp)
	$(MKDIR_P) '$(distdir)/%D%/man'
	cp %D%/man/weir_*.3 '$(distdir)/%D%/man'

clean-local:
	-rm -f %D%/man/weir_*.3 $(man3_stamp)

# All pages and texts for a browser, in html/.
html-local: $(man3_stamp)
	AWK='$(AWK)' $(SHELL) $(srcdir)/build-aux/html.sh $(srcdir) %D%/man html
clean-local: clean-html
clean-html:
	-rm -rf html tests/check-browser.d
.PHONY: clean-html

EXTRA_DIST += \
	%D%/html/search.js \
	%D%/html/style.css \
	build-aux/html.awk \
	build-aux/html.sh \
	%D%/architecture.dot \
	%D%/architecture.md \
	%D%/architecture.svg \
	%D%/bench-rdma.txt \
	%D%/check-long.txt \
	%D%/cuda.md \
	%D%/internals/callbacks.md \
	%D%/internals/dma.md \
	%D%/internals/mem.md \
	%D%/internals/mutations.md \
	%D%/internals/profile.md \
	%D%/internals/profile.svg \
	%D%/internals/rdma.md \
	%D%/internals/reactor.md \
	%D%/internals/sim.md \
	%D%/building.md \
	%D%/operating.md \
	%D%/tracing.md \
	%D%/tuning.md \
	%D%/tutorial-cores.md \
	%D%/tutorial-embed.md \
	%D%/tutorial-io.md \
	%D%/tutorial-peers.md \
	%D%/tutorial-start.md \
	%D%/late-writes.json \
	%D%/late-writes.md \
	%D%/live-view.md \
	%D%/performance \
	%D%/performance.json \
	%D%/performance.md \
	%D%/man/examples.txt \
	%D%/from-libuv.md \
	%D%/porting.md \
	%D%/rdma.txt \
	%D%/rules.md \
	%D%/sim.txt \
	%D%/tutorial-dma.md \
	%D%/tutorial-card.md \
	%D%/tutorial-domain.md \
	%D%/tutorial-nbd.md \
	%D%/tutorial-op.md \
	%D%/tutorial-proxy.md \
	%D%/tutorial-sim.md \
	build-aux/late-writes.awk \
	build-aux/man3.awk \
	build-aux/porting.awk \
	build-aux/recreates.awk

# Draw the picture of architecture.md anew, in the source tree; dot is graphviz's.
picture:
	dot -Tsvg $(srcdir)/%D%/architecture.dot -o $(srcdir)/%D%/architecture.svg
.PHONY: picture
