// Measures copy, triad and dot of STREAM in C with OpenMP, the peer of against_openmp.py. Prints the number of threads and the median
// bandwidths in GB/s of `times` passes over arrays of n doubles. The sum of dot may be taken in any order (simd): otherwise each
// addition waits for the one before it.
// Build and run: gcc -O3 -march=native -fopenmp -o openmp_stream openmp_stream.c && ./openmp_stream N TIMES
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    const size_t n = strtoull(argv[1], NULL, 10);
    const int times = atoi(argv[2]), arrays[] = {2, 3, 2};
    double *a = aligned_alloc(64, n * 8), *b = aligned_alloc(64, n * 8), *c = aligned_alloc(64, n * 8);
    double *gb_s = malloc(times * sizeof *gb_s), want = 0;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) a[i] = 0, b[i] = i % 1024, c[i] = i % 512;
    for (size_t i = 0; i < n; i++) want += b[i] * c[i];
    printf("%d", omp_get_max_threads());
    for (int op = 0; op < 3; op++) {
        double sum = 0;
        for (int t = 0; t < times + 2; t++) {
            const double start = omp_get_wtime();
            if (op == 0) {
#pragma omp parallel for schedule(static)
                for (size_t i = 0; i < n; i++) a[i] = b[i];
            } else if (op == 1) {
#pragma omp parallel for schedule(static)
                for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
            } else {
                sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
                for (size_t i = 0; i < n; i++) sum += b[i] * c[i];
            }
            if (t >= 2) gb_s[t - 2] = 8.0 * arrays[op] * n / (omp_get_wtime() - start) / 1e9;
        }
        for (size_t i = 0; i < n && op < 2; i += 4097)
            if (a[i] != i % 1024 + op * 3.0 * (i % 512)) return 1;
        if (op == 2 && sum != want) return 1;  // whole numbers: exact in any order
        qsort(gb_s, times, sizeof *gb_s, ascending);
        printf(" %.4f", gb_s[times / 2]);
    }
    printf("\n");
    return 0;
}
