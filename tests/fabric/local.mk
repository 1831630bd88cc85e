# libweir-fabric over the providers of libfabric that this machine has.
fabric_tests += %D%/test-fabric
