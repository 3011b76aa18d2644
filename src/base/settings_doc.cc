// Prints docs/settings.md from the table of settings, or compares it.
//   settings_doc             prints to standard output
//   settings_doc FILE        writes the file
//   settings_doc --check FILE  exit code 1 when the file differs
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/config.h"

namespace omnes::base {
namespace {

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

std::string settingsMarkdown() {
  std::ostringstream out;
  out << "# Settings\n\n"
         "Generated from `src/base/settings.def`; change it there.\n\n"
         "Environment variables are read whenever a communicator is made. The environment "
         "overrides\n"
         "what a program puts into `omnesConfig_t`. An empty variable counts as unset. A value "
         "that is not\n"
         "valid is an error that lists the valid ones; an unknown name that starts with `OMNES_` "
         "is ignored\n"
         "with a warning that names the nearest setting. Words are accepted in upper and lower "
         "case. Sizes\n"
         "take `K`, `M`, `G` or `T`, powers of 1024, and fractions such as `0.5M`.\n\n"
         "Subsystems of the log: ";
  std::string list;
  for (const std::string_view name : logSubsystemNames())
    list.append(list.empty() ? "`" : ", `").append(name) += "`";
  out << list << ".\n";
  for (const SettingInfo& row : settingTable()) {
    out << "\n## " << row.name << "\n\n" << row.sentence << ".\n\n";
    out << "* kind: " << row.kind << "\n";
    out << "* valid: "
        << (row.kind == std::string_view("text") ? std::string(row.valid) : code(row.valid))
        << "\n";
    if (row.unit[0] != '\0') out << "* unit: " << row.unit << "\n";
    out << "* default: " << (row.defaultValue.empty() ? "unset" : code(row.defaultValue)) << "\n";
  }
  return out.str();
}

int check(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file && text.str() == settingsMarkdown()) return 0;
  fprintf(stderr,
          "%s is not what src/base/settings.def says; write it anew with: settings_doc %s\n", path,
          path);
  return 1;
}

}  // namespace
}  // namespace omnes::base

int main(int argc, char** argv) {
  using omnes::base::settingsMarkdown;
  if (argc == 3 && std::string_view(argv[1]) == "--check") return omnes::base::check(argv[2]);
  if (argc == 2) return (std::ofstream(argv[1]) << settingsMarkdown()).flush() ? 0 : 1;
  if (argc == 1) return fputs(settingsMarkdown().c_str(), stdout) < 0;
  fprintf(stderr, "usage: settings_doc [FILE | --check FILE]\n");
  return 2;
}
