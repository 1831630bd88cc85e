# Packages of Debian: ./bootstrap packages builds them from the tarball.
EXTRA_DIST += \
	%D%/changelog \
	%D%/control \
	%D%/copyright \
	%D%/libweir-accel-dev.install \
	%D%/libweir-accel0.install \
	%D%/libweir-cuda-dev.install \
	%D%/libweir-cuda0.install \
	%D%/libweir-dev.install \
	%D%/libweir-doc.docs \
	%D%/libweir-doc.examples \
	%D%/libweir-fabric-dev.install \
	%D%/libweir-fabric0.install \
	%D%/libweir-nvme-dev.install \
	%D%/libweir-nvme0.install \
	%D%/libweir-rdma-dev.install \
	%D%/libweir-rdma0.install \
	%D%/libweir-resolve-dev.install \
	%D%/libweir-resolve0.install \
	%D%/libweir-sim-dev.install \
	%D%/libweir-sim0.install \
	%D%/libweir-tls-dev.install \
	%D%/libweir-tls0.install \
	%D%/libweir0.install \
	%D%/rules \
	%D%/source/format \
	%D%/tests/control \
	%D%/tests/demo \
	%D%/tests/programs \
	%D%/tests/readme \
	%D%/tests/static \
	%D%/weir-bench.install \
	%D%/weir-tools.install
