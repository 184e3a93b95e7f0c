/* The same in C, as one rank of those that a launcher started: torchrun's variables say which. */
#include <stdio.h>
#include <stdlib.h>

#include "ddp/c_api.h"

static void check(int status) {
  if (status == DDP_OK) return;
  fprintf(stderr, "%s\n", ddp_last_error());
  exit(1);
}

int main(void) {
  float w = 0, b = 0, w_grad, b_grad, x, error;
  int rank, step;
  ddp_group *group;
  ddp_averager *averager;
  ddp_array arrays[2] = {{"w", NULL, 1, DDP_FLOAT32}, {"b", NULL, 1, DDP_FLOAT32}};
  arrays[0].data = &w_grad;
  arrays[1].data = &b_grad;

  check(ddp_group_create_from_environment("auto", 60, &group));
  check(ddp_group_rank(group, &rank));
  check(ddp_averager_create(group, arrays, 2, 0, &averager));
  for (step = 0; step < 500; ++step) {
    w_grad = b_grad = 0;
    for (x = rank; x < 4; x += 2) {
      error = w * x + b - (3 * x + 1);
      w_grad += error * x;
      b_grad += error;
    }
    check(ddp_averager_ready(averager, 1));
    check(ddp_averager_ready(averager, 0));
    check(ddp_averager_wait(averager));
    w -= 0.1f * w_grad;
    b -= 0.1f * b_grad;
  }
  printf("rank %d: w %.3f b %.3f\n", rank, w, b);
  check(ddp_averager_destroy(averager));
  check(ddp_group_destroy(group));
  return 0;
}
