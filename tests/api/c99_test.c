/* The public headers in a C99 program: they compile, the initialisers are complete, and calls work. */
#include <lathe/lathe.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int condition, const char* what) {
  if (condition) return;
  printf("FAILED: %s (%s)\n", what, lathe_last_error());
  ++failures;
}

static void append(void* user, const char* name, const char* text, size_t size) {
  (void)name;
  (void)text;
  *(size_t*)user += size;
}

/* Every initialiser sets struct_size, and all other fields to their defaults. */
static void check_initialisers(void) {
  lathe_scale scale = LATHE_SCALE_INIT;
  lathe_operand operand = LATHE_OPERAND_INIT;
  lathe_epilogue epilogue = LATHE_EPILOGUE_INIT;
  lathe_matmul_desc matmul = LATHE_MATMUL_DESC_INIT;
  lathe_argmax_desc argmax = LATHE_ARGMAX_DESC_INIT;
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  lathe_tuning tuning = LATHE_TUNING_INIT;
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  lathe_statistics statistics = LATHE_STATISTICS_INIT;
  lathe_warmup_options warmup = LATHE_WARMUP_OPTIONS_INIT;
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  expect(scale.struct_size == sizeof scale && scale.data == NULL, "scale");
  expect(operand.struct_size == sizeof operand && operand.data == NULL && operand.layout == LATHE_ROW_MAJOR,
         "operand");
  expect(epilogue.struct_size == sizeof epilogue && epilogue.alpha == 1.0f && epilogue.beta == 0.0f &&
             epilogue.residual.struct_size == sizeof(lathe_operand),
         "epilogue");
  expect(matmul.struct_size == sizeof matmul && matmul.batch == 1 &&
             matmul.d.struct_size == sizeof(lathe_operand) &&
             matmul.epilogue.struct_size == sizeof(lathe_epilogue),
         "matmul");
  expect(argmax.struct_size == sizeof argmax && argmax.index_dtype == LATHE_I64, "argmax");
  expect(workspace.struct_size == sizeof workspace && workspace.kind == LATHE_CHAIN_WORKSPACE, "workspace");
  expect(tuning.struct_size == sizeof tuning && tuning.kind == LATHE_CHAIN_TUNING, "tuning");
  expect(options.struct_size == sizeof options && options.log_level == LATHE_LOG_WARNING, "options");
  expect(statistics.struct_size == sizeof statistics, "statistics");
  expect(options.record == NULL && options.metrics == NULL && options.trace == NULL, "files");
  expect(warmup.struct_size == sizeof warmup && warmup.cancel == NULL, "warmup");
  expect(report.struct_size == sizeof report, "report");
}

static void check_calls(void) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  lathe_context* context = NULL;
  lathe_device* device = NULL;
  float c[2] = {1.5f, -2.0f};
  float d[2] = {0.0f, 0.0f};
  size_t text = 0;

  options.cache_dir = "";
  options.compiler_library = "/nowhere/liblathe-compiler.so";
  expect(lathe_context_create(&options, &context) == LATHE_OK, "create a context");
  expect(lathe_devices(context, append, &text) == LATHE_OK && text > 0, "list devices");
  expect(lathe_device_open(context, "cpu", &device) == LATHE_OK, "open the CPU");

  /* K = 0: relu(2 * C), which needs no kernel. */
  desc.m = 1;
  desc.n = 2;
  desc.a.dtype = desc.b.dtype = desc.c.dtype = desc.d.dtype = LATHE_F32;
  desc.c.data = c;
  desc.d.data = d;
  desc.epilogue.beta = 2.0f;
  desc.epilogue.activation = LATHE_ACTIVATION_RELU;
  expect(lathe_matmul(device, NULL, &desc) == LATHE_OK, "matmul with K = 0");
  expect(d[0] == 3.0f && d[1] == 0.0f, "its result");

  desc.k = 4;
  expect(lathe_matmul(device, NULL, &desc) == LATHE_INVALID_ARGUMENT, "A is NULL");
  expect(strstr(lathe_last_error(), "a is NULL") != NULL, "the message says so");
  desc.a.data = desc.b.data = c;
  desc.k = 1;
  desc.c.data = d;
  expect(lathe_matmul(device, NULL, &desc) == LATHE_NOT_AVAILABLE, "there is no compiler");

  lathe_device_close(device);
  lathe_context_destroy(context);
}

int main(void) {
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", LATHE_VERSION_MAJOR, LATHE_VERSION_MINOR,
           LATHE_VERSION_PATCH);
  expect(strcmp(lathe_version(), version) == 0, "version");
  expect(strcmp(lathe_status_name(LATHE_MISS), "MISS") == 0, "status name");
  expect(strcmp(lathe_last_error(), "") == 0, "no error yet");
  check_initialisers();
  check_calls();
  if (failures == 0) printf("ok\n");
  return failures != 0;
}
