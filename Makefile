# ipud: build, test, demo, bench, install. `make help` lists the entry points.
BUILD    ?= build
CC       ?= gcc
PREFIX   ?= /usr
SAN      ?=
V        ?= 0
Q        := $(if $(filter 1,$(V)),,@)

PKGS     := libprotobuf-c libuv sqlite3 libelf libcrypto libzstd openblas libsystemd check
APT      := build-essential pkg-config libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libuv1-dev libsqlite3-dev \
            libelf-dev libssl-dev libzstd-dev libopenblas-dev libsystemd-dev check libsubunit-dev systemd scdoc

WARN     := -std=c17 -Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wimplicit-fallthrough -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Wundef -Werror
OPT      ?= -O3 -g -fno-math-errno -ffp-contract=off
HARDEN   := $(if $(SAN),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
CFLAGS_ALL = $(OPT) $(WARN) $(HARDEN) $(SANFLAGS) -fPIE -pthread -D_GNU_SOURCE -I. -I$(BUILD)/gen $(PKG_CFLAGS) $(CFLAGS)
LDFLAGS_ALL = $(SANFLAGS) -pie -Wl,-z,relro,-z,now -pthread $(LDFLAGS)

# The modules in dependency order: a module may include headers of itself and of modules before it (docs/ARCHITECTURE.md).
MODULES  := base proto device/ipu21 device/asm device/kernels device/package device/sim device/driver compiler/graph \
            compiler/plan compiler/lower compiler/exchange compiler/place compiler/codegen compiler/reference compiler schema \
            daemon client
# Files with a main() of their own; everything else of a folder goes into its library.
MAINS    := device/asm/ipu-as.c device/asm/ipu-objdump.c device/driver/ipu-run.c daemon/ipud.c client/ipuctl.c \
            tests/bench/bench.c
TOOLS    := $(addprefix $(BUILD)/,ipud ipuctl ipu-as ipu-objdump ipu-run)

ifeq ($(filter deps help clean,$(MAKECMDGOALS)),)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm
endif

PROTOS   := $(wildcard proto/*.proto)
PB_C     := $(PROTOS:proto/%.proto=$(BUILD)/gen/proto/%.pb-c.c)
ASM_TEXT := $(wildcard device/kernels/*.S device/kernels/*.h.S device/runtime/*.S device/runtime/*.inc device/kernels/*.inc)

objects   = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(MAINS),$(wildcard $(1)/*.c)))
library   = $(BUILD)/lib/$(subst /,_,$(1)).a
LIBS     := $(foreach m,$(MODULES),$(call library,$(m)))
LINK     := -Wl,--start-group $(LIBS) -Wl,--end-group

TEST_SRC := $(wildcard tests/unit/*_test.c)
TESTS    := $(TEST_SRC:tests/unit/%.c=$(BUILD)/tests/%)

.PHONY: all test check demo bench lint asan install clean deps help quick fuzz check-long check-tests fidelity
.SECONDARY:
all: $(TOOLS)

help:
	@echo "make            build ipud, ipuctl, ipu-as, ipu-objdump, ipu-run into $(BUILD)/"
	@echo "make demo       install what is missing, build, run the SigLIP MLP on the simulated device"
	@echo "make test       install what is missing, build, run all tests"
	@echo "make quick      the quick unit tests;  make check-long: soaks;  make fuzz: fuzzers;  make asan: tests under sanitizers"
	@echo "make fidelity   the simulator's cycles against measurements on hardware"
	@echo "make bench      benchmarks;  make lint: clang-format and clang-tidy;  make install DESTDIR=... PREFIX=..."

# --- generated sources -------------------------------------------------------------------------------------------------------
$(BUILD)/gen/proto/%.pb-c.c: proto/%.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=. --c_out=$(BUILD)/gen $<
PB_STAMP := $(BUILD)/gen/proto/.stamp
$(PB_STAMP): $(PB_C)
	@touch $@

$(BUILD)/gen/sources.S: $(ASM_TEXT) tools/embed-sources.sh
	@mkdir -p $(@D)
	$(Q)sh tools/embed-sources.sh $(sort $(ASM_TEXT)) > $@
$(BUILD)/obj/gen/sources.o: $(BUILD)/gen/sources.S $(ASM_TEXT)
	@mkdir -p $(@D)
	$(Q)$(CC) -c -I. -o $@ $<

# The compiler build id: a digest of every source that decides package bytes. It is part of all cache keys.
ID_SRC := $(wildcard base/*.[ch] proto/*.[ch] proto/*.proto device/*/*.[chS] device/*/*.def device/*/*.inc compiler/*.[ch] compiler/*/*.[ch] \
            compiler/*/*.def)
$(BUILD)/gen/build_id.h: $(ID_SRC)
	@mkdir -p $(@D)
	$(Q)printf '#define IPU_BUILD_ID "%s"\n' "$$(cat $(sort $(ID_SRC)) | sha256sum | cut -c1-64)" > $@
$(BUILD)/obj/compiler/keys.o: $(BUILD)/gen/build_id.h

# --- objects and libraries ---------------------------------------------------------------------------------------------------
$(BUILD)/obj/%.o: %.c | $(PB_STAMP)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(CFLAGS_$(subst /,_,$*)) -MMD -MP -c -o $@ $<
$(BUILD)/obj/gen/proto/%.o: $(BUILD)/gen/proto/%.pb-c.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(OPT) $(SANFLAGS) -w -fPIE -I$(BUILD)/gen $(PKG_CFLAGS) -c -o $@ $<

define module_rule
$(call library,$(1)): $(call objects,$(1)) $(2)
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(Q)ar rcs $$@ $$^
endef
$(foreach m,$(filter-out proto device/kernels,$(MODULES)),$(eval $(call module_rule,$(m))))
$(eval $(call module_rule,proto,$(PROTOS:proto/%.proto=$(BUILD)/obj/gen/proto/%.o)))
$(eval $(call module_rule,device/kernels,$(BUILD)/obj/gen/sources.o))

# --- programs ----------------------------------------------------------------------------------------------------------------
define tool_rule
$(BUILD)/$(notdir $(basename $(1))): $(BUILD)/obj/$(basename $(1)).o $(LIBS)
	$$(Q)$$(CC) $$(LDFLAGS_ALL) -o $$@ $$< $(LINK) $$(PKG_LIBS)
endef
$(foreach m,$(MAINS),$(eval $(call tool_rule,$(m))))

# A test links the libraries of its module and of those before it, so that work on a later module cannot break it. The module is
# named on the first line of the test: /* module: device/sim */
test_module = $(shell sed -n '1s,^/\* module: \([a-z0-9/]*\) \*/,\1,p' $(1))
upto      = $(if $(filter $(1),$(firstword $(2))),$(firstword $(2)),$(if $(2),$(firstword $(2)) $(call upto,$(1),$(wordlist 2,99,$(2)))))
test_libs = $(foreach m,$(call upto,$(call test_module,$(1)),$(MODULES)),$(call library,$(m)))
define test_rule
$(BUILD)/tests/$(notdir $(basename $(1))): $(BUILD)/obj/$(basename $(1)).o $(call test_libs,$(1))
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(LDFLAGS_ALL) -o $$@ $$< -Wl,--start-group $(call test_libs,$(1)) -Wl,--end-group $$(PKG_LIBS)
endef
$(foreach t,$(TEST_SRC),$(eval $(call test_rule,$(t))))

# Timing held against hardware: programs with sources of their own, and a test that runs the quick part of them.
FIDELITY     := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/fidelity/*.c)) $(BUILD)/obj/gen/fidelity_sources.o
FIDELITY_ASM := $(wildcard tests/fidelity/*.S tests/fidelity/*.inc)
FIDELITY_LIB := $(foreach m,$(call upto,device/sim,$(MODULES)),$(call library,$(m)))
$(BUILD)/gen/fidelity_sources.S: $(FIDELITY_ASM) tools/embed-sources.sh
	@mkdir -p $(@D)
	$(Q)sh tools/embed-sources.sh $(sort $(FIDELITY_ASM)) | sed 's/source_table/fidelity_source_table/' > $@
$(BUILD)/obj/gen/fidelity_sources.o: $(BUILD)/gen/fidelity_sources.S $(FIDELITY_ASM)
	@mkdir -p $(@D)
	$(Q)$(CC) -c -I. -o $@ $<
$(BUILD)/fidelity: $(FIDELITY) $(FIDELITY_LIB)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(FIDELITY) -Wl,--start-group $(FIDELITY_LIB) -Wl,--end-group $(PKG_LIBS)
FIDELITY_TESTED := $(filter-out %/fidelity/fidelity.o,$(FIDELITY))
$(BUILD)/tests/fidelity_test: LDFLAGS_ALL += $(FIDELITY_TESTED)
$(BUILD)/tests/fidelity_test: $(FIDELITY_TESTED)

# --- entry points ------------------------------------------------------------------------------------------------------------
deps:
	@sh tools/install-deps.sh $(APT)
check-tests: $(TESTS) $(TOOLS)
quick: $(TESTS)
	@sh tools/run-tests.sh $(BUILD) quick
test: deps
	@$(MAKE) --no-print-directory -j$$(nproc) check-tests
	@sh tools/run-tests.sh $(BUILD) all
demo: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@sh tools/demo.sh $(BUILD)
asan:
	$(MAKE) BUILD=$(BUILD)-asan SAN=address,undefined OPT="-O1 -g -fno-math-errno -ffp-contract=off" check-tests
	@sh tools/run-tests.sh $(BUILD)-asan all
fidelity: $(BUILD)/fidelity
	@sh tools/fidelity.sh $(BUILD)
bench: all $(BUILD)/bench
	@sh tools/bench.sh $(BUILD)
lint:
	@sh tools/lint.sh $(BUILD)
fuzz:
	@sh tools/fuzz.sh
check-long: check-tests
	@sh tools/run-tests.sh $(BUILD) long
install: all
	@sh tools/install.sh $(BUILD) "$(DESTDIR)" "$(PREFIX)"
clean:
	rm -rf build build-*

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
