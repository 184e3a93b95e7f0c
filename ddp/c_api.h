/*
 * The C interface: collectives and averaged gradients for programs in C, in Fortran (ddp.f90), or
 * in any language that calls C.
 *
 *   ddp_group *group;
 *   ddp_averager *averager;
 *   ddp_array arrays[] = {{"w1", w1_grad, n1, DDP_FLOAT32}, {"w2", w2_grad, n2, DDP_FLOAT32}};
 *   if (ddp_group_create_from_environment("auto", 60, &group) != DDP_OK) die(ddp_last_error());
 *   ddp_averager_create(group, arrays, 2, 0, &averager);
 *   for (...) {
 *     ...;  ddp_averager_ready(averager, 1);    w2's gradient is complete, and leaves
 *     ...;  ddp_averager_ready(averager, 0);
 *     ddp_averager_wait(averager);              both are the average over the ranks
 *   }
 *   ddp_averager_destroy(averager);
 *   ddp_group_destroy(group);
 *
 * Every function but ddp_version and ddp_last_error returns a status: DDP_OK, or what went wrong,
 * and then ddp_last_error() says it in words. A group that failed stays failed: destroy it. All
 * ranks call the same functions in the same order, with the same sizes and types.
 *
 * Handles are the caller's, until it destroys them; NULL may be destroyed. An averager keeps its
 * group alive: they may be destroyed in any order. Texts that are given are copied, texts that are
 * returned are the library's. Arrays belong to the caller.
 * Units: sizes are numbers of elements, unless a name says bytes; times are seconds, and a time of
 * 0 stands for 10 minutes. Threads: one thread at a time calls functions of a group and of its
 * averagers. Groups are independent of each other. What ddp_last_error() returns is the calling
 * thread's. C89 but for <stdint.h>. No C++ type and no exception comes through.
 */
#ifndef DDP_C_API_H_
#define DDP_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_VERSION "0.1.0"

/* Statuses. */
enum {
  DDP_OK = 0,
  DDP_INVALID_ARGUMENT = 1, /* what was asked for makes no sense; nothing was sent */
  DDP_TIMEOUT = 2,          /* the message says what was waited for */
  DDP_PEER_LOST = 3,        /* another rank ended, or its connection broke */
  DDP_MISMATCH = 4,         /* the ranks asked for different things */
  DDP_COLLECTIVE_ERROR = 5, /* any other trouble between ranks */
  DDP_WRONG_STATE = 6,      /* an array is ready twice, or wasn't when waited for */
  DDP_SYSTEM_ERROR = 7,     /* trouble with the operating system */
  DDP_OUT_OF_MEMORY = 8,
  DDP_OTHER_ERROR = 9
};

/* Types of elements. */
enum {
  DDP_FLOAT32 = 0,
  DDP_FLOAT64 = 1,
  DDP_BFLOAT16 = 2,
  DDP_FLOAT16 = 3,
  DDP_INT64 = 4,
  DDP_INT32 = 5,
  DDP_UINT8 = 6
};

/* Reductions. Averages of integers truncate. */
enum { DDP_SUM = 0, DDP_AVERAGE = 1, DDP_PRODUCT = 2, DDP_MIN = 3, DDP_MAX = 4 };

typedef struct ddp_group ddp_group;
typedef struct ddp_averager ddp_averager;

/* The version of the library that runs; DDP_VERSION is that of this header. */
const char* ddp_version(void);

/* What the calling thread's last function that failed has to say; valid until the next that fails.
 * "" before the first. */
const char* ddp_last_error(void);

/*
 * A group of all ranks. Each function returns when all have met, and sets *group. `backend` is
 * "auto" (shared memory on one host, TCP between hosts), "gloo" (TCP), "shm" or "mpi".
 * `timeout_seconds` limits the meeting and each operation.
 */

/* The ranks meet at host:port, which rank 0 listens at. Ranks are 0 to world_size - 1. */
int ddp_group_create(const char* host, int port, int rank, int world_size, const char* backend,
                     double timeout_seconds, ddp_group** group);

/* The same by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them. Under mpirun
 * the first two need not be set. A launcher that holds the store itself says where:
 * DDP_STORE_HOSTED. */
int ddp_group_create_from_environment(const char* backend, double timeout_seconds,
                                      ddp_group** group);

/* The ranks of an MPI communicator, given as a Fortran handle: MPI_Comm_c2f(MPI_COMM_WORLD). The
 * program has called MPI_Init (backend "mpi": MPI_Init_thread with MPI_THREAD_MULTIPLE), and calls
 * MPI_Finalize after it has destroyed the group. The communicator is used in here only. */
int ddp_group_create_from_mpi(int communicator, const char* backend, double timeout_seconds,
                              ddp_group** group);

/* Ends the group. Where rank 0 listens, it waits here for the others, for 30 seconds at most. */
int ddp_group_destroy(ddp_group* group);

int ddp_group_rank(const ddp_group* group, int* rank);
int ddp_group_size(const ddp_group* group, int* size);

/* Afterwards `data`, [num_elements], is the reduction of all ranks' data, the same bits everywhere.
 */
int ddp_all_reduce(ddp_group* group, void* data, int64_t num_elements, int dtype, int reduction);
/* Afterwards `data` holds what rank `root`'s held. */
int ddp_broadcast(ddp_group* group, void* data, int64_t num_elements, int dtype, int root);
/* Returns when every rank has called it. */
int ddp_barrier(ddp_group* group);

/* A gradient. Where `data` is NULL its memory is the averager's: ddp_averager_data tells where. */
typedef struct {
  const char* name; /* for messages; another one for each array */
  void* data;
  int64_t num_elements;
  int dtype; /* floating point */
} ddp_array;

/*
 * Averages gradients while others are still calculated: arrays travel together in buckets, each as
 * soon as its arrays are ready. They are given in the order in which the model uses them, the same
 * on all ranks, and must live as long as the averager. `bucket_bytes` is the size of a bucket; 0:
 * 25 MiB, which is a good choice.
 */
int ddp_averager_create(ddp_group* group, const ddp_array* arrays, int num_arrays,
                        int64_t bucket_bytes, ddp_averager** averager);
/* An averager that ends between ready and wait aborts its group, as the others are waiting. */
int ddp_averager_destroy(ddp_averager* averager);

/* Where array `index` (from 0) is. */
int ddp_averager_data(const ddp_averager* averager, int index, void** data);
/* Array `index` is complete, and not to be touched until ddp_averager_wait returns. */
int ddp_averager_ready(ddp_averager* averager, int index);
/* Returns when all arrays are the average over the ranks. If one isn't ready on some rank, that is
 * DDP_WRONG_STATE on every rank, and the message names it. */
int ddp_averager_wait(ddp_averager* averager);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DDP_C_API_H_ */
