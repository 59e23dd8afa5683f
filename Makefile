# tern: `make help`.

# RESUME=1: test targets do not repeat what passed in their last run.
RESUMED = $(if $(RESUME),--resume)
# What bench-check compares with.
BASE ?= HEAD^
KDIR ?= /lib/modules/$(shell uname -r)/build
.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-full test-lanes test-clients kunit shell check format modules \
	modules_install deb apt docs export-linux export-rdma-core clean bench bench-full bench-check \
	bench-bundle bundle container

help:
	@echo 'make run         boot two machines with tern adapters and show ping, TCP and RDMA, with pass or fail for each'
	@echo 'make test        the tests that CI runs (test-quick: only those that take seconds; tests/run NAME: a single one)'
	@echo 'make test-lanes  the quick tests in guests of Debian testing and of a debug kernel (KASAN, lockdep, ...)'
	@echo 'make test-clients  storage, messaging and sockets over RDMA, beside Soft-RoCE; writes build/report/clients.rst'
	@echo 'make test-full   all tests, including long ones and the lanes; writes build/report/test-results.rst; takes hours'
	@echo '                 (RESUME=1 with any of these: skip what passed in the previous run)'
	@echo 'make kunit       the drivers'\'' KUnit tests, in the debug kernel'
	@echo 'make bench       compare tern with Soft-RoCE and with its limits: a table, build/bench.json, and charts in build/bench.html'
	@echo '                 (bench-full: five passes; bench-check: alternate with BASE=COMMIT, and fail if a figure fell)'
	@echo 'make bench-bundle  an archive that measures on any x86-64 Linux: build/tern-bench.tar.xz'
	@echo 'make shell       a shell in vm1; `ssh vm2` reaches the other machine (OPTIONS="...": options of run-vm)'
	@echo 'make check       static checks: compilers with all warnings, sparse, checkpatch, clang-tidy, spelling, ...'
	@echo 'make format      format C++ and Python, as make check demands'
	@echo 'make modules     tern.ko and tern_ib.ko for this machine'\''s kernel, or for KDIR=...'
	@echo 'make modules_install'
	@echo 'make deb         Debian packages of the drivers (DKMS, and built for Debian'\''s kernels), the provider, ternd and verbs-judge, in build/deb'
	@echo 'make apt         the packages as a repository for a web server, in build/apt'
	@echo 'make bundle      an archive that boots machines with tern on any x86-64 Linux: build/tern-bundle-VERSION-x86_64.tar.zst'
	@echo 'make container   the same as a container image: build/tern-container-VERSION.tar'
	@echo 'make docs        Documentation/ as a site with search, in build/docs'
	@echo 'make export-linux LINUX=DIR          the drivers as a patch series for a Linux 7.3 tree, in build/export/linux'
	@echo 'make export-rdma-core RDMA_CORE=DIR  the provider as a patch series for an rdma-core 65.0 tree'
	@echo 'make clean       remove build/ (the cache that checkouts share, $$TERN_CACHE or ~/.cache/tern, stays)'
	@echo
	@echo 'lab/run-vm -- CMD...   run your own command in vm1; --help lists the options'

run:
	@lab/tour

test:
	@lab/host-setup && tests/run $(RESUMED)

test-quick:
	@lab/host-setup && tests/run --quick $(RESUMED)

test-lanes:
	@lab/host-setup && tests/run --lanes $(RESUMED)

test-clients:
	@lab/host-setup && tests/run --clients $(RESUMED); status=$$?; tests/clients && exit $$status

test-full:
	@lab/host-setup && TERN_COMMAND='make test-full' tests/run --all $(RESUMED); status=$$?; tests/report && exit $$status

kunit:
	@lab/host-setup && tests/run --lane debug $(RESUMED) kunit

bench:
	@lab/host-setup && tests/bench/bench

bench-full:
	@lab/host-setup && tests/bench/bench --passes 5

bench-check:
	@lab/host-setup && tests/bench/bench --passes 3 --against $(BASE)

bench-bundle:
	@lab/host-setup && packaging/bench-bundle

shell:
	@lab/run-vm $(OPTIONS) --tty -- bash -l

check:
	@tests/check/all

format:
	@lab/host-setup && tests/check/format --fix

modules modules_install:
	$(MAKE) -C $(KDIR) M=$(CURDIR) $@

deb:
	@lab/host-setup && packaging/make-deb

apt: deb
	@packaging/make-apt

bundle:
	@lab/host-setup && packaging/make-bundle

container:
	@lab/host-setup && packaging/make-container

docs:
	@lab/host-setup && lab/sysroot-run tests/check/docs build/docs

# In a git tree these create the branch tern; a tree without git becomes a repository first.
export-linux:
	@packaging/upstream/export linux "$(LINUX)"

export-rdma-core:
	@packaging/upstream/export rdma-core "$(RDMA_CORE)"

clean:
	rm -rf build Module.symvers modules.order .Module.symvers.cmd .modules.order.cmd
	find kernel firmware-if \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
		-o -name 'Module.symvers' -o -name 'modules.order' \) -delete
