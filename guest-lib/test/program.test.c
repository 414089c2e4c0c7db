// What a program is called, by its executable and arguments.
#include "setup/program.h"

#include <string.h>

#include "check.h"

#define WORDS(text) text "\0", sizeof text "\0" - 1

struct named {
  const char *executable;
  const char *arguments;
  size_t length;
  const char *name;
};

static const struct named names[] = {
    {"train", WORDS("./train\0run.py"), "train"},
    {"python3", WORDS("python3\0train.py\0--lr\0005"), "train.py"},
    {"python3.11", WORDS("/usr/bin/python3.11\0/home/ann/jobs/train.py"), "train.py"},
    {"python", WORDS("python\0-u\0-W\0ignore\0-Xdev\0a/b.py"), "b.py"},
    {"python3", WORDS("python3\0-um\0torch.distributed.run\0train.py"), "torch.distributed.run"},
    {"python3", WORDS("python3\0-mvllm\0serve"), "vllm"},
    {"python3", WORDS("python3\0-c\0import torch\0x.py"), "python3"},
    {"python3", WORDS("python3\0-Ic\0import torch"), "python3"},
    {"python3", WORDS("python3\0--check-hash-based-pycs\0always\0x.py"), "x.py"},
    {"python3", WORDS("python3\0package/"), "package"},
    {"python3", WORDS("python3\0--\0-odd.py"), "-odd.py"},
    {"python3", WORDS("python3\0-"), "python3"},
    {"python3", WORDS("python3"), "python3"},
    {"python3", WORDS("python3\0"), "python3"},
    {"python3", WORDS("ray::worker"), "python3"},
    {"python3", WORDS("python3\0-m"), "python3"},
    {"python3", WORDS("python3\0/"), "/"},
    {"python3", "", 0, "python3"},
    {"python3", "python3\0cut", 11, "python3"},
    {"pythonista", WORDS("pythonista\0train.py"), "pythonista"},
    {"node", WORDS("node\0--enable-source-maps\0--require\0x.cjs\0serve.mjs"), "serve.mjs"},
    {"node", WORDS("node\0-e\0work()"), "node"},
    {"node", WORDS("node\0--eval\0work()\0secret"), "node"},
    {"node", WORDS("node\0--print=work()\0secret"), "node"},
    {"node", WORDS("node\0--import\0x.mjs\0--eval=work()\0secret"), "node"},
    {"bash", WORDS("bash\0-e\0job.sh"), "job.sh"},
};

static void names_of_programs(void **state) {
  (void)state;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    char name[64];
    const struct named *one = &names[i];
    program_name_of(one->executable, one->arguments, one->length, name, sizeof name);
    if (strcmp(name, one->name) != 0) print_message("row %u\n", i);
    assert_string_equal(name, one->name);
  }
  char small[4];
  program_name_of("python3", "python3\0train.py\0", 17, small, sizeof small);
  assert_string_equal(small, "tra");
}

static void this_process(void **state) {
  (void)state;
  char name[64];
  program_name(name, sizeof name);
  assert_string_equal(name, "guest-program-test");
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_of_programs),
      cmocka_unit_test(this_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
