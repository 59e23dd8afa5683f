# tern: `make help`.

# What a target that runs tests had found good before does not run again.
RESUMED = $(if $(RESUME),--resume)
KDIR ?= /lib/modules/$(shell uname -r)/build
.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-full test-lanes kunit shell check modules modules_install deb export-linux export-rdma-core clean bench bench-full bench-check

help:
	@echo 'make run         two machines with tern adapters: a tour of ping, TCP and RDMA that says pass or fail'
	@echo 'make test        what CI runs (test-quick: the tests that take seconds; tests/run NAME: one of them)'
	@echo 'make test-lanes  the quick part in guests of Debian testing and of a debug kernel (KASAN, lockdep, ...)'
	@echo 'make test-full   everything, lanes and long tests too; writes Documentation/test-results.rst; takes hours'
	@echo '                 (RESUME=1, with each of these: without what passed in a run before it)'
	@echo 'make kunit       KUnit tests of the drivers, in the debug kernel'
	@echo 'make bench       tern beside Soft-RoCE and beside what bounds it, as a table and build/bench.json (bench-full: five passes;'
	@echo '                 bench-check: says which ratio fell since tests/bench/recorded.json)'
	@echo 'make shell       a login in vm1; `ssh vm2` is the other machine'
	@echo 'make check       compilers with all warnings, sparse, checkpatch, clang-tidy, spelling'
	@echo 'make modules     tern.ko and tern_ib.ko for the kernel of this machine, or of KDIR=...'
	@echo 'make modules_install'
	@echo 'make deb         packages of the drivers (DKMS) and of the provider in build/deb'
	@echo 'make export-linux LINUX=DIR          the drivers as patch series on a Linux 7.2 tree, in build/export/linux'
	@echo 'make export-rdma-core RDMA_CORE=DIR  the provider as one on an rdma-core 65.0 tree'
	@echo 'make clean       remove build/ (what is shared by checkouts stays in $$TERN_CACHE, ~/.cache/tern)'
	@echo
	@echo 'tests/vm/run-vm -- CMD...   your own command in vm1; --help lists the options'

run:
	@tests/vm/tour

test:
	@tests/vm/host-setup && tests/run $(RESUMED)

test-quick:
	@tests/vm/host-setup && tests/run --quick $(RESUMED)

test-lanes:
	@tests/vm/host-setup && tests/run --lanes $(RESUMED)

test-full:
	@tests/vm/host-setup && TERN_COMMAND='make test-full' tests/run --all $(RESUMED); status=$$?; tests/report && exit $$status

kunit:
	@tests/vm/host-setup && tests/run --lane debug $(RESUMED) kunit

bench:
	@tests/vm/host-setup && tests/bench/bench

bench-full:
	@tests/vm/host-setup && tests/bench/bench --passes 5

bench-check:
	@tests/vm/host-setup && tests/bench/bench --passes 3 --check

shell:
	@tests/vm/run-vm --tty -- bash -l

check:
	@tests/check/all

modules modules_install:
	$(MAKE) -C $(KDIR) M=$(CURDIR) $@

deb:
	@tests/vm/host-setup && packaging/make-deb

# A tree without git becomes a repository; in one with git they make the branch tern.
export-linux:
	@export/export linux "$(LINUX)"

export-rdma-core:
	@export/export rdma-core "$(RDMA_CORE)"

clean:
	rm -rf build Module.symvers modules.order .Module.symvers.cmd .modules.order.cmd
	find kernel firmware-if \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
		-o -name 'Module.symvers' -o -name 'modules.order' \) -delete
