/* Uses everything that a linker must relocate: constants, tables of pointers, initialised and zeroed data,
 * and calls between functions. */
#include "block.h"

static const float table[4] = {0.5f, 1.5f, 2.5f, 3.5f};
static int initialised = 41;
static int zeroed[4096];

__attribute__((noinline)) static float twice(float x) { return x + x; }
__attribute__((noinline)) static float thrice(float x) { return x + x + x; }
static float (*const functions[2])(float) = {twice, thrice};

/* d[task] = functions[task % 2](table[task % 4]) + initialised + zeroed[task] */
void relocations(const block* x, i64 task) {
  volatile int* number = &initialised;
  volatile int* zeros = zeroed;
  ((float*)x->d)[task] = functions[task % 2](table[task % 4]) + (float)*number + (float)zeros[task];
}
