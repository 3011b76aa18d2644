#include "core/bootstrap/pmix_session.h"

#ifdef OMNES_HAVE_PMIX

#include <dlfcn.h>
#include <pmix.h>
#include <poll.h>
#include <sodium.h>

#include <array>
#include <cstring>
#include <mutex>

#include "base/event.h"
#include "base/thread.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

// The name that PMIx 3 to 6 have in common; what is used of it has not changed since.
constexpr const char* kLibrary = "libpmix.so.2";

struct Library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Publish_nb) publish = nullptr;
  decltype(&PMIx_Lookup_nb) lookup = nullptr;
  decltype(&PMIx_Error_string) errorString = nullptr;
  std::string problem;  // why it is not there; empty when it is
};

template <typename Function>
void find(void* handle, const char* name, Function* function, std::string* problem) {
  *function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (*function == nullptr) *problem = std::string(kLibrary) + " has no " + name;
}

// Loaded once and never unloaded: its threads run its code.
const Library& library() {
  static const Library loaded = [] {
    Library library;
    void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* text = ::dlerror();
      library.problem = text != nullptr ? text : std::string("cannot load ") + kLibrary;
      return library;
    }
    find(handle, "PMIx_Init", &library.init, &library.problem);
    find(handle, "PMIx_Finalize", &library.finalize, &library.problem);
    find(handle, "PMIx_Publish_nb", &library.publish, &library.problem);
    find(handle, "PMIx_Lookup_nb", &library.lookup, &library.problem);
    find(handle, "PMIx_Error_string", &library.errorString, &library.problem);
    return library;
  }();
  return loaded;
}

// Whether this process has loaded an MPI and not yet initialised it: linked, or as a module.
bool isBeforeMpiInit() {
  using Initialized = int (*)(int*);
  const char* const name = "MPI_Initialized";
  void* module = nullptr;
  auto ask = reinterpret_cast<Initialized>(::dlsym(RTLD_DEFAULT, name));
  for (const char* file : {"libmpi.so.40", "libmpich.so.12"}) {
    if (ask != nullptr) break;
    module = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (module != nullptr) ask = reinterpret_cast<Initialized>(::dlsym(module, name));
  }
  int isInitialized = 1;
  if (ask != nullptr && ask(&isInitialized) != 0) isInitialized = 1;
  if (module != nullptr) ::dlclose(module);
  return isInitialized == 0;
}

std::string nameOf(pmix_status_t status) {
  return std::string(library().errorString(status)) + " (" + std::to_string(status) + ")";
}

Status failed(const char* call, pmix_status_t status) {
  return Status(Code::kSystemError,
                std::string("the launcher's PMIx: ") + call + ": " + nameOf(status));
}

template <size_t n>
void setText(char (&field)[n], const char* text) {
  std::strncpy(field, text, n - 1);
}

// One request under way, and all that PMIx may look at until it answers, which may be after
// everybody has stopped waiting. It is shared by the waiting thread and the answer.
struct Request {
  explicit Request(base::EventFd event) : answered(std::move(event)) {}
  ~Request() {
    ::sodium_memzero(bytes.data(), bytes.size());
    ::sodium_memzero(result.data(), result.size());
  }

  base::EventFd answered;
  std::string name;
  std::string bytes;
  std::array<char*, 2> keys{};
  std::array<pmix_info_t, 3> info{};

  std::mutex mutex;  // guards what follows
  bool isDone = false;
  pmix_status_t status = PMIX_ERROR;
  std::string result;
};
using Shared = std::shared_ptr<Request>;

Result<Shared> makeRequest(const std::string& name) {
  OMNES_ASSIGN_OR_RETURN(base::EventFd event, base::EventFd::open());
  auto request = std::make_shared<Request>(std::move(event));
  request->name = name;
  return request;
}

// What is handed to PMIx and comes back with the answer.
void* cookieOf(const Shared& request) { return std::make_unique<Shared>(request).release(); }
std::unique_ptr<Shared> takeCookie(void* cookie) {
  return std::unique_ptr<Shared>(static_cast<Shared*>(cookie));
}

void answer(Request& request, pmix_status_t status, const pmix_value_t* value) {
  {
    const std::lock_guard<std::mutex> lock(request.mutex);
    request.status = status;
    if (value != nullptr && value->type == PMIX_BYTE_OBJECT)
      request.result.assign(value->data.bo.bytes, value->data.bo.size);
    request.isDone = true;
  }
  request.answered.signal();
}

extern "C" void onPublished(pmix_status_t status, void* cookie) {
  answer(**takeCookie(cookie), status, nullptr);
}

extern "C" void onFound(pmix_status_t status, pmix_pdata_t data[], size_t count, void* cookie) {
  answer(**takeCookie(cookie), status, count > 0 ? &data[0].value : nullptr);
}

void setRange(pmix_info_t* info) {
  setText(info->key, PMIX_RANGE);
  info->value.type = PMIX_DATA_RANGE;
  info->value.data.range = PMIX_RANGE_NAMESPACE;
}

Result<pmix_status_t> await(Request& request, const WaitLimits& limits, const char* what) {
  OMNES_RETURN_IF_ERROR(waitFor(request.answered.fd(), POLLIN, limits, what));
  const std::lock_guard<std::mutex> lock(request.mutex);
  return request.status;
}

// PMIx_Init and PMIx_Finalize of several threads do not overlap.
std::mutex& initMutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Result<std::unique_ptr<PmixSession>> PmixSession::open(const std::string& jobName, uint32_t rank,
                                                       std::string* why) {
  if (!library().problem.empty()) {
    *why = library().problem;
    return std::unique_ptr<PmixSession>();
  }
  if (isBeforeMpiInit()) {
    *why = "this program uses MPI, which must be initialised first";
    return std::unique_ptr<PmixSession>();
  }
  pmix_proc_t self{};
  pmix_status_t status = PMIX_ERROR;
  {
    const std::lock_guard<std::mutex> lock(initMutex());
    // In a thread of ours, since the threads that PMIx starts inherit its blocked signals.
    OMNES_ASSIGN_OR_RETURN(base::Thread starter, base::Thread::start("omnes-pmix", [&] {
                             status = library().init(&self, nullptr, 0);
                           }));
    starter.join();
  }
  if (status == PMIX_ERR_UNREACH) {
    *why = "PMIx_Init: " + nameOf(status);
    return std::unique_ptr<PmixSession>();
  }
  if (status != PMIX_SUCCESS) return failed("PMIx_Init", status);
  std::unique_ptr<PmixSession> session(new PmixSession(jobName));  // NOLINT: private constructor
  // Without a server newer versions make up a job of one process.
  if (jobName != self.nspace || rank != self.rank) {
    *why = "PMIx has no server for job " + jobName;
    return std::unique_ptr<PmixSession>();
  }
  return session;
}

PmixSession::~PmixSession() {
  const std::lock_guard<std::mutex> lock(initMutex());
  library().finalize(nullptr, 0);
}

Status PmixSession::publish(const std::string& name, const std::string& bytes,
                            const WaitLimits& limits) {
  OMNES_ASSIGN_OR_RETURN(const Shared request, makeRequest(jobName_ + "." + name));
  request->bytes = bytes;
  pmix_info_t* info = request->info.data();
  setText(info[0].key, request->name.c_str());
  info[0].value.type = PMIX_BYTE_OBJECT;
  info[0].value.data.bo.bytes = request->bytes.data();
  info[0].value.data.bo.size = request->bytes.size();
  setRange(&info[1]);
  // Until the job ends: a rank may come late, when this session is long over.
  setText(info[2].key, PMIX_PERSISTENCE);
  info[2].value.type = PMIX_PERSIST;
  info[2].value.data.persist = PMIX_PERSIST_SESSION;
  void* cookie = cookieOf(request);
  pmix_status_t status = library().publish(info, request->info.size(), &onPublished, cookie);
  if (status != PMIX_SUCCESS) {
    takeCookie(cookie).reset();
  } else {
    OMNES_ASSIGN_OR_RETURN(status,
                           await(*request, limits, "publishing where to meet through PMIx"));
  }
  if (status == PMIX_ERR_NOT_SUPPORTED)
    return Status(Code::kNotSupported, "PMIx_Publish: " + nameOf(status));
  return status == PMIX_SUCCESS ? Status::ok() : failed("PMIx_Publish", status);
}

Result<std::optional<std::string>> PmixSession::lookup(const std::string& name,
                                                       const WaitLimits& limits) {
  OMNES_ASSIGN_OR_RETURN(const Shared request, makeRequest(jobName_ + "." + name));
  request->keys = {request->name.data(), nullptr};
  setRange(request->info.data());
  void* cookie = cookieOf(request);
  pmix_status_t status =
      library().lookup(request->keys.data(), request->info.data(), 1, &onFound, cookie);
  if (status != PMIX_SUCCESS) {
    takeCookie(cookie).reset();
  } else {
    OMNES_ASSIGN_OR_RETURN(status, await(*request, limits, "asking where to meet through PMIx"));
  }
  if (status == PMIX_ERR_NOT_FOUND) return std::optional<std::string>();
  if (status == PMIX_ERR_NOT_SUPPORTED)
    return Status(Code::kNotSupported, "PMIx_Lookup: " + nameOf(status));
  if (status != PMIX_SUCCESS) return failed("PMIx_Lookup", status);
  const std::lock_guard<std::mutex> lock(request->mutex);
  return std::optional<std::string>(request->result);
}

}  // namespace omnes::core::bootstrap

#else  // without its headers

namespace omnes::core::bootstrap {

using base::Code;
using base::Result;
using base::Status;

Result<std::unique_ptr<PmixSession>> PmixSession::open(const std::string&, uint32_t,
                                                       std::string* why) {
  *why = "this omnes was built without the headers of PMIx (package libpmix-dev)";
  return std::unique_ptr<PmixSession>();
}

PmixSession::~PmixSession() = default;

Status PmixSession::publish(const std::string&, const std::string&, const WaitLimits&) {
  return Status(Code::kNotSupported, "there is no PMIx");
}

Result<std::optional<std::string>> PmixSession::lookup(const std::string&, const WaitLimits&) {
  return Status(Code::kNotSupported, "there is no PMIx");
}

}  // namespace omnes::core::bootstrap

#endif
