/* A GPU driver with FAKE_DEVICES devices whose initialisation answers FAKE_RESULT. */
int fakeInit(unsigned flags) {
  (void)flags;
  return FAKE_RESULT;
}
int fakeCount(int* devices) {
  *devices = FAKE_DEVICES;
  return 0;
}
int fakeName(char* text, int bytes, int device) {
  const char name[] = "Imaginary 0";
  int i = 0;
  for (; i + 1 < bytes && name[i] != 0; ++i) text[i] = name[i];
  text[i - 1] = (char)('0' + device);
  text[i] = 0;
  return 0;
}
