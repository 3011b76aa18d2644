#include "transports/shm/mapping_cache.h"

#include <errno.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/fork.h"

namespace omnes::transports::shm {
namespace {

using Key = std::pair<dev_t, ino_t>;  // a memfd is a file of its own

struct Cache {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<base::Mapping>> mappings;  // guarded by mutex
};

// Not destroyed: endpoints may outlive the static destructors of a process that does not destroy
// them.
constinit base::PerProcess<Cache> cacheOfProcess;

}  // namespace

base::Result<std::shared_ptr<base::Mapping>> mapOnce(int fd, size_t bytes) {
  struct stat file;
  if (fstat(fd, &file) != 0) return base::Status::fromErrno(errno, "fstat of shared memory");
  Cache& cache = cacheOfProcess.get();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  std::erase_if(cache.mappings, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<base::Mapping>& known = cache.mappings[{file.st_dev, file.st_ino}];
  if (std::shared_ptr<base::Mapping> shared = known.lock(); shared && shared->size() == bytes)
    return shared;
  OMNES_ASSIGN_OR_RETURN(base::Mapping mapping, base::mapShared(fd, bytes));
  auto made = std::make_shared<base::Mapping>(std::move(mapping));
  known = made;
  return made;
}

}  // namespace omnes::transports::shm
