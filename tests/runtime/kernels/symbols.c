#include "block.h"

int data = 7;
__attribute__((used)) static void local(const block* x, i64 task) {
  (void)x;
  (void)task;
}
__attribute__((visibility("hidden"))) void hidden(const block* x, i64 task) { ((i64*)x->d)[task] = 5; }
