// Measures the cost of kernel launches and small copies with OpenCL in C: as in launch.py and transfer.py, without Python.
// Build and run: cc -O2 -o launch launch.c -ldl && ./launch [platform] [library]; prints a JSON object of medians in ns.
#define CL_TARGET_OPENCL_VERSION 120
#define _GNU_SOURCE
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 501, NEAR = 1000, FAR = 3000, SLOPES = 31, ITEMS = 64 };
static void *library;
#define F(name) ((__typeof__(&name))dlsym(library, #name))

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

static void must(cl_int code, const char *what) {
    if (code) fprintf(stderr, "%s: %d\n", what, code), exit(1);
}

int main(int argc, char **argv) {
    library = dlopen(argc > 2 ? argv[2] : "libOpenCL.so.1", RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    __typeof__(&clEnqueueNDRangeKernel) enqueue = F(clEnqueueNDRangeKernel);
    __typeof__(&clFinish) finish = F(clFinish);
    __typeof__(&clEnqueueWriteBuffer) write = F(clEnqueueWriteBuffer);
    __typeof__(&clEnqueueReadBuffer) read = F(clEnqueueReadBuffer);
    cl_platform_id platforms[8], platform;
    cl_device_id device;
    cl_uint count = 0;
    cl_int code = 0;
    must(F(clGetPlatformIDs)(8, platforms, &count), "clGetPlatformIDs");
    platform = platforms[argc > 1 ? atoi(argv[1]) : 0];
    must(F(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    cl_context context = F(clCreateContext)(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queues[2];
    for (int i = 0; i < 2; i++) queues[i] = F(clCreateCommandQueue)(context, device, i ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    const char *source = "kernel void mark(global uint* restrict done, const uint token) { if (get_global_id(0) == 0) done[0] = token; }";
    cl_program program = F(clCreateProgramWithSource)(context, 1, &source, NULL, &code);
    must(F(clBuildProgram)(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = F(clCreateKernel)(program, "mark", &code);
    cl_mem done = F(clCreateBuffer)(context, CL_MEM_READ_WRITE, 4, NULL, &code);
    const cl_uint token = 0x5EED;
    must(F(clSetKernelArg)(kernel, 0, sizeof done, &done), "clSetKernelArg");
    must(F(clSetKernelArg)(kernel, 1, sizeof token, &token), "clSetKernelArg");
    const size_t items = ITEMS;
    static double t[4][SAMPLES];
    printf("{");
    for (int stamped = 0; stamped < 2; stamped++) {
        cl_command_queue queue = queues[stamped];
        for (int i = -50; i < SAMPLES; i++) {
            cl_event event;
            const double begin = now();
            must(enqueue(queue, kernel, 1, NULL, &items, &items, 0, NULL, stamped ? &event : NULL), "enqueue");
            finish(queue);
            const double end = now();
            if (i >= 0) t[0][i] = end - begin;
            if (!stamped) continue;
            cl_ulong at[4];
            for (int k = 0; k < 4; k++) F(clGetEventProfilingInfo)(event, CL_PROFILING_COMMAND_QUEUED + k, 8, &at[k], NULL);
            F(clReleaseEvent)(event);
            for (int k = 0; k < 3 && i >= 0; k++) t[k + 1][i] = (double)at[k + 1] - (double)at[k];
        }
        double sums[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) sums[i] = t[1][i] + t[2][i];
        printf("\"round_trip%s\": %.0f, ", stamped ? "_stamped" : "", median(t[0], SAMPLES));
        if (stamped)
            printf("\"queued_to_start\": %.0f, \"queued_to_submitted\": %.0f, \"submitted_to_start\": %.0f, \"start_to_end\": %.0f, ",
                   median(sums, SAMPLES), median(t[1], SAMPLES), median(t[2], SAMPLES), median(t[3], SAMPLES));
        double slopes[SLOPES], calls[SLOPES];
        for (int s = 0; s < SLOPES; s++) {
            double took[2];
            for (int far = 0; far < 2; far++) {
                const int n = far ? FAR : NEAR;
                static cl_event events[FAR];
                const double begin = now();
                for (int i = 0; i < n; i++) enqueue(queue, kernel, 1, NULL, &items, &items, 0, NULL, stamped ? &events[i] : NULL);
                calls[s] = (now() - begin) / n;
                finish(queue);
                took[far] = now() - begin;
                for (int i = 0; stamped && i < n; i++) F(clReleaseEvent)(events[i]);
            }
            slopes[s] = (took[1] - took[0]) / (FAR - NEAR);
        }
        printf("\"dispatch%s\": %.0f, \"enqueue_call%s\": %.0f, ", stamped ? "_stamped" : "", median(slopes, SLOPES),
               stamped ? "_stamped" : "", median(calls, SLOPES));
    }
    const size_t sizes[] = {4, 1 << 10, 16 << 10, 64 << 10};
    cl_mem pinned = F(clCreateBuffer)(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, 64 << 10, NULL, &code);
    cl_mem there = F(clCreateBuffer)(context, CL_MEM_READ_WRITE, 64 << 10, NULL, &code);
    void *here = F(clEnqueueMapBuffer)(queues[0], pinned, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, 64 << 10, 0, NULL, NULL, &code);
    must(code, "clEnqueueMapBuffer");
    memset(here, 1, 64 << 10);
    for (int s = 0; s < 4; s++) {
        for (int i = -50; i < SAMPLES; i++) {
            const double begin = now();
            write(queues[0], there, CL_TRUE, 0, sizes[s], here, 0, NULL, NULL);
            const double middle = now();
            read(queues[0], there, CL_TRUE, 0, sizes[s], here, 0, NULL, NULL);
            if (i >= 0) t[0][i] = middle - begin, t[1][i] = now() - middle;
        }
        printf("\"to_device_%zu\": %.0f, \"from_device_%zu\": %.0f%s", sizes[s], median(t[0], SAMPLES), sizes[s],
               median(t[1], SAMPLES), s < 3 ? ", " : "}\n");
    }
    cl_uint left = 0;
    must(F(clEnqueueReadBuffer)(queues[0], done, CL_TRUE, 0, 4, &left, 0, NULL, NULL), "clEnqueueReadBuffer");
    return left == token ? 0 : (fprintf(stderr, "the kernel did not run\n"), 1);
}
