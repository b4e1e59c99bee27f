// The peer: STREAM's triad in C with OpenMP. Prints the median bandwidth in GB/s of `times` passes over three arrays of n doubles.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    const size_t n = strtoull(argv[1], NULL, 10);
    const int times = atoi(argv[2]);
    double *a = aligned_alloc(64, n * 8), *b = aligned_alloc(64, n * 8), *c = aligned_alloc(64, n * 8);
    double *gb_s = malloc(times * sizeof *gb_s);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) a[i] = 0, b[i] = i % 1024, c[i] = i % 512;
    for (int t = 0; t < times + 2; t++) {
        const double start = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
        if (t >= 2) gb_s[t - 2] = 24.0 * n / (omp_get_wtime() - start) / 1e9;
    }
    for (size_t i = 0; i < n; i += 4097)
        if (a[i] != i % 1024 + 3.0 * (i % 512)) return 1;
    qsort(gb_s, times, sizeof *gb_s, ascending);
    printf("%d %.4f\n", omp_get_max_threads(), gb_s[times / 2]);
    return 0;
}
