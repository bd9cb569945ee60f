#include "block.h"

extern float sqrtf_of_nobody(float);
extern int data_of_nobody;

void undefined(const block* x, i64 task) { ((float*)x->d)[task] = sqrtf_of_nobody((float)data_of_nobody); }
