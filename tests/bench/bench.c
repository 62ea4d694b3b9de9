/* The benchmark of `make bench`: medians, and ratios taken inside one run, since machines are
 * noisy.
 *
 * Usage: bench seed|full|simulator|assembler. Prints flat key=value lines on stdout. Every number
 * is measured here; targets are those of the project's first issue and stand beside the values.
 */
#include "tests/bench/simulator.h"
#include "tests/unit/e2e.h"

#include "base/clock.h"
#include "device/kernels/kernels.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void openblas_set_num_threads(int threads);

enum { ROUNDS = 9 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

static double ms_since(uint64_t start)
{
    return (double)(clock_ns() - start) / 1e6;
}

static void die(const struct e2e *e, const char *what)
{
    fprintf(stderr, "bench: %s: %s\n%s\n", what, e->error.text,
            e->session ? device_fault_report(e->session) : "");
    exit(1);
}

static void siglip(struct buffer *out, uint64_t tokens, uint64_t dimension, uint64_t hidden,
                   uint64_t blocks, uint32_t tiles)
{
    struct build_mlp p = {1, tokens, dimension, hidden, blocks, tiles, 1, false, false, 0};
    if (!build_siglip_mlp(&p, out))
        exit(1);
}

static double compile_ms(const struct buffer *workload, const struct buffer *state,
                         struct compile_result *result)
{
    struct compile_options o = {.search_state = state ? state->data : NULL,
                                .search_state_size = state ? state->size : 0};
    struct ipu_error error;
    uint64_t start = clock_ns();
    if (compile_workload(workload->data, workload->size, &o, result, &error) < 0) {
        fprintf(stderr, "bench: compile: %s\n", error.text);
        exit(1);
    }
    return ms_since(start);
}

static void bench_seed(void)
{
    struct e2e e = {0};
    siglip(&e.workload, 17, 64, 128, 3, 64);
    double cold[ROUNDS], resumed[ROUNDS];
    struct buffer state = {0};
    for (int i = 0; i < ROUNDS; i++) {
        struct compile_result r = {0};
        cold[i] = compile_ms(&e.workload, NULL, &r);
        buffer_free(&state);
        state = r.search_state;
        r.search_state = (struct buffer){0};
        compile_result_free(&r);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct compile_result r = {0};
        resumed[i] = compile_ms(&e.workload, &state, &r);
        compile_result_free(&r);
    }
    buffer_free(&state);
    if (e2e_run(&e, &(struct e2e_options){0}) < 0)
        die(&e, "seed");
    printf("bench=seed cycles=%llu reference=16656 ratio=%.3f estimated=%llu passed=%d "
           "relativeRmsError=%.6f\n",
           (unsigned long long)e.summary.cycles, (double)e.summary.cycles / 16656,
           (unsigned long long)e.compiled.estimated_cycles, e.check.passed,
           e.check.relative_rms_error);
    printf("bench=seed coldCompileMs=%.1f target=300 resumedCompileMs=%.1f target=100\n",
           median(cold, ROUNDS), median(resumed, ROUNDS));
    e2e_free(&e);
}

/* The floating-point work of one full-size MLP, by OpenBLAS on the same cores, in this very run. */
static double blas_ms(int m, int k, int n)
{
    float *a = calloc((size_t)m * (size_t)k, sizeof *a),
          *b = calloc((size_t)k * (size_t)n, sizeof *b);
    float *c = calloc((size_t)m * (size_t)n, sizeof *c);
    double times[5];
    for (int i = 0; a && b && c && i < 5; i++) {
        uint64_t start = clock_ns();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, k, n, 1, c, n, b, k, 0, a, k);
        times[i] = ms_since(start);
    }
    free(a);
    free(b);
    free(c);
    return median(times, 5);
}

static void bench_full(void)
{
    struct e2e e = {0};
    siglip(&e.workload, 729, 1152, 4304, 1, 1472);
    struct compile_result r = {0};
    double compile = compile_ms(&e.workload, NULL, &r);
    compile_result_free(&r);
    uint64_t start = clock_ns();
    if (e2e_run(&e, &(struct e2e_options){0}) < 0)
        die(&e, "full");
    double total = ms_since(start), blas = blas_ms(729, 1152, 4304);
    double again[3], cpu = simb_cpu_ms();
    for (int i = 0; i < 3; i++) {
        if (device_run(e.session, &e.summary, &e.error) < 0)
            die(&e, "full");
        again[i] = e.summary.run_ms;
    }
    cpu = (simb_cpu_ms() - cpu) / 3;
    double run = median(again, 3), blas_after = blas_ms(729, 1152, 4304);
    blas = blas < blas_after ? blas : blas_after;
    printf("bench=full cycles=%llu reference=186630 ratio=%.3f ampBound=76750 estimated=%llu "
           "passed=%d relativeRmsError=%.6f\n",
           (unsigned long long)e.summary.cycles, (double)e.summary.cycles / 186630,
           (unsigned long long)e.compiled.estimated_cycles, e.check.passed,
           e.check.relative_rms_error);
    printf("bench=full compileMs=%.0f target=30000 loadMs=%.0f initializeMs=%.0f runMs=%.0f "
           "compileRunCheckMs=%.0f\n",
           compile, e.summary.load_ms, e.summary.initialize_ms, e.summary.run_ms, total);
    printf("bench=full openblasMs=%.1f simulatedRunMs=%.0f simulatedRunOverOpenblas=%.1f target=10 "
           "simulatedRunCpuMs=%.0f cores=%ld\n",
           blas, run, run / blas, cpu, sysconf(_SC_NPROCESSORS_ONLN));
    printf("bench=full bundles=%llu bundlesPerSecond=%.3g residentGiB=%.2f target=1.2\n",
           (unsigned long long)e.summary.bundles, (double)e.summary.bundles / (run / 1e3),
           simb_resident_gib());
    e2e_free(&e);
}

/* Growth with threads, then with tiles: rows grow with the tiles, so that each has the same work.
 */
static void grow(unsigned threads, unsigned tiles)
{
    struct e2e e = {0};
    double times[5], cpu[5];
    siglip(&e.workload, 3 * tiles / 4, 256, 1024, 1, tiles);
    if (e2e_run(&e, &(struct e2e_options){.threads = threads}) < 0)
        die(&e, "simulator");
    for (int i = 0; i < 5; i++) {
        cpu[i] = simb_cpu_ms();
        if (device_run(e.session, &e.summary, &e.error) < 0)
            die(&e, "simulator");
        times[i] = e.summary.run_ms;
        cpu[i] = simb_cpu_ms() - cpu[i];
    }
    double ms = median(times, 5);
    printf("bench=simulator threads=%u tiles=%u runMs=%.1f cpuMs=%.1f bundlesPerSecond=%.3g "
           "cycles=%llu\n",
           threads, tiles, ms, median(cpu, 5), (double)e.summary.bundles / (ms / 1e3),
           (unsigned long long)e.summary.cycles);
    e2e_free(&e);
}

static void bench_simulator(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = cores > 2 ? (unsigned)cores : 2;
    simb_bench_scalar();
    for (unsigned threads = 1; threads <= most; threads *= 2)
        simb_bench_idle(threads);
    simb_bench_memory();
    for (unsigned threads = 1; threads <= most; threads *= 2)
        grow(threads, 256);
    for (unsigned tiles = 64; tiles <= 1024; tiles *= 4)
        grow(most, tiles);
}

static void bench_assembler(void)
{
    struct kernel_spec spec = {KERNEL_GEMM_F16, {1, 64, 32, 1, 2}};
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        struct buffer object = {0};
        struct ipu_error error;
        uint64_t start = clock_ns();
        if (kernel_assemble(&spec, &object, &error) < 0) {
            fprintf(stderr, "bench: %s\n", error.text);
            exit(1);
        }
        times[i] = ms_since(start);
        buffer_free(&object);
    }
    printf("bench=assembler kernel=gemm_f16 assembleMs=%.3f target=5\n", median(times, ROUNDS));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } benches[] = {{"assembler", bench_assembler},
                   {"seed", bench_seed},
                   {"simulator", bench_simulator},
                   {"full", bench_full}};
    openblas_set_num_threads(2);
    int ran = 0;
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++) {
        if (argc > 1 && strcmp(argv[1], benches[i].name) != 0)
            continue;
        benches[i].run();
        fflush(stdout);
        ran++;
    }
    if (!ran)
        fprintf(stderr, "usage: bench [assembler|seed|simulator|full]\n");
    return ran ? 0 : 2;
}
