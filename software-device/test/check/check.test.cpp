// The check tool as a user runs it, on files that are made here: PTX, fatbins, programs, archives,
// and damaged ones of each kind.
#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include <setjmp.h>

#include <cmocka.h>
}

namespace {

std::string tool, folder;

struct Answer {
  int status;
  std::string text;
};

Answer run(const std::string &arguments) {
  std::string command = tool + " " + arguments + " 2>&1";
  FILE *pipe = popen(command.c_str(), "r");
  assert_non_null(pipe);
  Answer answer{0, ""};
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof buffer, pipe)) answer.text.append(buffer, got);
  int status = pclose(pipe);
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

std::string file(const char *name, const std::string &content) {
  std::string path = folder + "/" + name;
  FILE *out = fopen(path.c_str(), "wb");
  assert_non_null(out);
  fwrite(content.data(), 1, content.size(), out);
  fclose(out);
  return path;
}

void expect(const std::string &arguments, int status, const std::vector<const char *> &parts) {
  Answer answer = run(arguments);
  for (const char *part : parts)
    if (answer.text.find(part) == answer.text.npos)
      fail_msg("no \"%s\" in: %s", part, answer.text.c_str());
  if (answer.status != status) fail_msg("exit %d: %s", answer.status, answer.text.c_str());
}

const std::string kGood =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry _Z4goodPf(.param .u64 a)\n{\n  ret;\n}\n";
const std::string kMixed = kGood +
                           ".visible .entry bad()\n{\n"
                           "  tcgen05.wait::ld.sync.aligned;\n  ret;\n}\n";

template <class T>
void put(std::string *out, T value) {
  out->append(reinterpret_cast<const char *>(&value), sizeof value);
}

// One fatbin with one entry; `flags` and sizes as in driver-abi/src/abi_fatbin.h.
std::string fatbin(uint16_t kind, uint32_t arch, const std::string &payload, uint64_t flags,
                   uint64_t plain_size) {
  std::string padded = payload;
  padded.resize((padded.size() + 7) & ~size_t{7});
  std::string entry;
  put<uint16_t>(&entry, kind);
  put<uint16_t>(&entry, 0x101);
  put<uint32_t>(&entry, 64);
  put<uint64_t>(&entry, padded.size());
  put<uint32_t>(&entry, flags ? static_cast<uint32_t>(payload.size()) : 0);
  put<uint32_t>(&entry, 0);
  put<uint16_t>(&entry, 8);
  put<uint16_t>(&entry, 0);
  put<uint32_t>(&entry, arch);
  put<uint64_t>(&entry, 0);
  put<uint64_t>(&entry, 0x11 | flags);
  put<uint64_t>(&entry, 0);
  put<uint64_t>(&entry, flags ? plain_size : 0);
  entry += padded;
  std::string out;
  put<uint32_t>(&out, 0xBA55ED50u);
  put<uint16_t>(&out, 1);
  put<uint16_t>(&out, 16);
  put<uint64_t>(&out, entry.size());
  return out + entry;
}

std::string zstd(const std::string &plain) {
  std::string out(ZSTD_compressBound(plain.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 3));
  return out;
}

// An ELF file with one section.
std::string elf(const char *section, const std::string &content) {
  std::string names = std::string("\0.shstrtab\0", 11) + section + '\0';
  Elf64_Ehdr header = {};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header;
  sections[1].sh_size = names.size();
  sections[2].sh_name = 11;
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_offset = (sizeof header + names.size() + 7) & ~uint64_t{7};
  sections[2].sh_size = content.size();
  header.e_shoff = (sections[2].sh_offset + content.size() + 7) & ~uint64_t{7};
  std::string out(reinterpret_cast<char *>(&header), sizeof header);
  out += names;
  out.resize(sections[2].sh_offset);
  out += content;
  out.resize(header.e_shoff);
  out.append(reinterpret_cast<char *>(sections), sizeof sections);
  return out;
}

std::string member(const std::string &name, const std::string &content) {
  char header[61];
  snprintf(header, sizeof header, "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name.c_str(), 0, 0, 0, 0644u,
           content.size());
  std::string out = header + content;
  return content.size() % 2 ? out + "\n" : out;
}

std::string compressed_program() {
  std::string first = fatbin(1, 80, zstd(kMixed), 0x8000, kMixed.size());
  first.resize((first.size() + 7) & ~size_t{7});
  return elf(".nv_fatbin", first + fatbin(1, 80, kGood, 0, 0));
}

void ptx(void **) {
  expect(file("good.ptx", kGood), 0, {"good.ptx: 1 module, 1 kernel: 1 translated, 0 refused\n"});
  expect(file("mixed.ptx", kMixed), 1,
         {"2 kernels: 1 translated, 1 refused\n", "  refused     bad: ", "tcgen05", "line 10"});
  expect("--all " + folder + "/mixed.ptx", 1, {"  translated  good(float*) ("});
}

void programs(void **) {
  expect(file("program", compressed_program()), 1,
         {"program: 2 modules, 3 kernels: 2 translated, 1 refused\n"});
  expect(file("host-only", elf(".text", "code")), 0, {"0 modules", "no GPU code in it"});
  expect(file("sass-only", elf(".nv_fatbin", fatbin(2, 75, elf(".text.k", "code"), 0, 0))), 1,
         {"machine code for sm_75", "code=compute_XX"});
  // What nvcc's device link leaves in every program has no kernel and is no finding.
  expect(file("hollow", elf(".nv_fatbin", fatbin(2, 75, elf(".info", "none"), 0, 0))), 0,
         {"0 modules"});
  expect(file("newer", fatbin(1, 121, kGood, 0, 0)), 1, {"PTX for sm_121"});
  expect("--compute-capability 12.1 " + folder + "/newer", 0, {"1 translated"});
}

void archives(void **) {
  std::string object = elf(".nv_fatbin", fatbin(1, 80, kMixed, 0, 0));
  std::string names = "a-name-that-is-too-long-for-the-header.o/\n";
  std::string whole = "!<arch>\n" + member("/", "symbols") + member("//", names) +
                      member("/0", object) + member("short.o/", object) + member("readme/", "text");
  expect(file("library.a", whole), 1,
         {"2 modules, 4 kernels: 2 translated, 2 refused",
          "a-name-that-is-too-long-for-the-header.o: bad: ", "short.o: bad: "});
}

void damaged(void **) {
  std::string program = compressed_program();
  for (size_t length = 0; length < program.size(); length += 7) {
    Answer answer = run(file("cut", program.substr(0, length)));
    if (answer.status != 0 && answer.status != 1)
      fail_msg("cut to %zu: exit %d: %s", length, answer.status, answer.text.c_str());
  }
  expect(file("empty", ""), 1, {"it is empty"});
  expect(file("text", "hello\n"), 1, {"no program, library"});
  expect(folder, 1, {"no regular file"});
  expect(folder + "/nowhere", 1, {"No such file"});
  std::string wrong = fatbin(1, 80, zstd(kGood).substr(0, 40), 0x8000, kGood.size());
  expect(file("wrong", wrong), 1, {"damaged"});
}

void usage(void **) {
  expect("", 2, {"usage: "});
  expect("--help", 0, {"usage: "});
  expect("--nonsense x", 2, {"--nonsense is no option"});
  expect("--compute-capability twelve x", 2, {"12.0"});
}

void json(void **) {
  std::string path = file("a \"name\"", kMixed);
  expect("--json '" + path + "'", 1,
         {"\"computeCapability\":\"12.0\"", "\"kernels\":2", "\"refusedKernels\":1",
          "a \\\"name\\\"", "\"name\":\"bad\",\"translated\":false"});
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  tool = argv[1];
  char name[] = "/tmp/software-device-check-XXXXXX";
  if (!mkdtemp(name)) return 2;
  folder = name;
  const CMUnitTest tests[] = {cmocka_unit_test(ptx),      cmocka_unit_test(programs),
                              cmocka_unit_test(archives), cmocka_unit_test(damaged),
                              cmocka_unit_test(usage),    cmocka_unit_test(json)};
  int failures = cmocka_run_group_tests(tests, nullptr, nullptr);
  if (system(("rm -rf '" + folder + "'").c_str()) != 0) return 2;
  return failures;
}
