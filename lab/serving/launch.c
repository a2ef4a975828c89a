// Launches kernels in a row, each time with the next copy of its operands, so that Python's time is not in the times.
#include <cuda.h>

typedef struct {
    CUfunction function;
    unsigned columns, rows, threads, shared, count;
    long long base[32], step[32]; // an argument of launch i is base + step * (i % copies)
    int copies[32], restarts[32]; // i counts on from batch to batch, or restarts at 0 in each
} launch;

int batch(const launch *launches, int count, CUstream stream, long long start, int times) {
    for (int i = 0; i < times; i++)
        for (int l = 0; l < count; l++) {
            const launch *one = launches + l;
            long long values[32];
            void *at[32];
            for (unsigned a = 0; a < one->count; a++) {
                long long turn = one->restarts[a] ? i : start + i;
                values[a] = one->base[a] + one->step[a] * (turn % one->copies[a]);
                at[a] = values + a;
            }
            CUresult result = cuLaunchKernel(one->function, one->columns, one->rows, 1, one->threads, 1, 1, one->shared, stream, at, 0);
            if (result) return result;
        }
    return 0;
}

int timed(const launch *launches, int count, CUstream stream, long long start, int times, CUevent before, CUevent after) {
    int result = cuEventRecord(before, stream);
    if (!result) result = batch(launches, count, stream, start, times);
    return result ? result : cuEventRecord(after, stream);
}

int captured(const launch *launches, int count, CUstream stream, long long start, int times, CUgraphExec *out) {
    CUgraph graph = 0;
    int result = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (result) return result;
    result = batch(launches, count, stream, start, times);
    int ended = cuStreamEndCapture(stream, &graph);
    if (!result) result = ended;
    if (!result) result = cuGraphInstantiateWithFlags(out, graph, 0);
    if (graph) cuGraphDestroy(graph);
    return result;
}

int replayed(CUgraphExec graph, CUstream stream, CUevent before, CUevent after) {
    int result = cuEventRecord(before, stream);
    if (!result) result = cuGraphLaunch(graph, stream);
    return result ? result : cuEventRecord(after, stream);
}
