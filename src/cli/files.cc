#include "cli/files.h"

#include <cerrno>
#include <cstdio>
#include <memory>

namespace omnes::cli {
namespace {

using base::Code;
using base::Status;

constexpr size_t kMaxFile = size_t{32} << 20;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

base::Result<std::string> readFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return Status::fromErrno(errno, path + " cannot be opened");
  std::string text;
  char piece[16384];
  while (const size_t got = std::fread(piece, 1, sizeof(piece), file.get())) {
    text.append(piece, got);
    if (text.size() > kMaxFile)
      return Status(Code::kInvalidArgument,
                    path + " is longer than 32 MiB, the limit of plan files");
  }
  if (std::ferror(file.get()) != 0) return Status::fromErrno(errno, path + " cannot be read");
  return text;
}

Status writeFile(const std::string& path, const std::string& text) {
  if (path.empty()) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      return Status::fromErrno(errno, "standard output cannot be written");
    return Status::ok();
  }
  File file(std::fopen(path.c_str(), "wbe"));
  if (!file) return Status::fromErrno(errno, path + " cannot be created");
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size())
    return Status::fromErrno(errno, path + " cannot be written");
  // Full disks may show only here.
  if (std::fclose(file.release()) != 0)
    return Status::fromErrno(errno, path + " cannot be written");
  return Status::ok();
}

}  // namespace omnes::cli
