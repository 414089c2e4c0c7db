// The command line of an example: every option is asked for once, with its default, its limits
// and its meaning, and --help is made from the questions. `--name value` and `--name=value` both
// work. finish() comes after the last question: it answers --help and refuses what nobody asked
// for.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

class Arguments {
 public:
  Arguments(int argc, char **argv, const char *purpose) : purpose_(purpose) {
    std::string path = argc > 0 ? argv[0] : "example";
    program_ = path.substr(path.find_last_of('/') + 1);
    for (int i = 1; i < argc; i++) words_.push_back(argv[i]);
    used_.assign(words_.size(), false);
    help_wanted_ = flag("--help", "print this text");
  }

  const std::string &program() const { return program_; }

  bool flag(const char *name, const char *meaning) {
    describe(name, meaning);
    bool given = false;
    for (size_t i = 0; i < words_.size(); i++) {
      if (!used_[i] && words_[i] == name) used_[i] = given = true;
    }
    return given;
  }

  // The last one given wins, as users expect of a command line made by a script.
  std::string text(const char *name, const char *fallback, const char *placeholder,
                   const char *meaning) {
    std::string shown = meaning;
    if (*fallback) shown += std::string(" (default ") + fallback + ")";
    describe(std::string(name) + " " + placeholder, shown);
    std::string value = fallback, prefix = std::string(name) + "=";
    for (size_t i = 0; i < words_.size(); i++) {
      if (used_[i]) continue;
      if (words_[i].compare(0, prefix.size(), prefix) == 0) {
        used_[i] = true;
        value = words_[i].substr(prefix.size());
      } else if (words_[i] == name) {
        used_[i] = true;
        if (i + 1 == words_.size()) {
          complain(std::string(name) + " needs a value: " + name + " " + placeholder);
        } else {
          used_[i + 1] = true;
          value = words_[i + 1];
        }
      }
    }
    return value;
  }

  int integer(const char *name, int fallback, int least, int most, const char *meaning) {
    std::string limits = std::to_string(least) + " to " + std::to_string(most);
    std::string value = text(name, std::to_string(fallback).c_str(), "N",
                             (std::string(meaning) + ", " + limits).c_str());
    char *end = nullptr;
    errno = 0;
    long number = std::strtol(value.c_str(), &end, 10);
    if (end == value.c_str() || *end != 0 || errno != 0 || number < least || number > most) {
      complain(std::string(name) + " must be a whole number from " + limits + ", not '" + value +
               "'");
      return fallback;
    }
    return static_cast<int>(number);
  }

  // A word that is not an option; empty when there is none. Ask for these after all options.
  std::string positional(const char *placeholder, const char *meaning) {
    synopsis_ += std::string(" [") + placeholder + "]";
    describe(placeholder, meaning);
    for (size_t i = 0; i < words_.size(); i++) {
      if (used_[i] || words_[i].compare(0, 1, "-") == 0) continue;
      used_[i] = true;
      return words_[i];
    }
    return "";
  }

  // For rules that concern several options; reported by finish(), the first complaint only.
  void complain(const std::string &problem) {
    if (problem_.empty()) problem_ = problem;
  }

  void finish() {
    if (help_wanted_) {
      std::printf("%s\n\nUsage: %s%s [options]\n%s", purpose_.c_str(), program_.c_str(),
                  synopsis_.c_str(), help_.c_str());
      std::exit(0);
    }
    for (size_t i = 0; i < words_.size(); i++) {
      if (!used_[i]) complain("'" + words_[i] + "' is not an argument of this program");
    }
    if (problem_.empty()) return;
    std::fprintf(stderr, "%s: %s\n(%s --help lists the options)\n", program_.c_str(),
                 problem_.c_str(), program_.c_str());
    std::exit(1);
  }

 private:
  void describe(const std::string &name, const std::string &meaning) {
    std::string padding(name.size() < 18 ? 18 - name.size() : 1, ' ');
    help_ += "  " + name + padding + meaning + "\n";
  }

  std::string program_, purpose_, synopsis_, help_, problem_;
  std::vector<std::string> words_;
  std::vector<bool> used_;
  bool help_wanted_ = false;
};
