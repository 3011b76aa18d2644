#include "core/bootstrap/detached_thread.h"

#include <pthread.h>
#include <signal.h>

#include <memory>

namespace omnes::core::bootstrap {
namespace {

struct Start {
  const char* name;
  std::function<void()> body;
};

void* run(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  ::pthread_setname_np(::pthread_self(), start->name);
  start->body();
  return nullptr;
}

}  // namespace

base::Status startDetachedThread(const char* name, std::function<void()> body) {
  auto start = std::make_unique<Start>(Start{name, std::move(body)});
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  // A thread starts with its maker's mask, so there is no moment in which a signal could land on
  // it.
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = ::pthread_create(&thread, &attributes, run, start.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (error != 0) return base::Status::fromErrno(error, "cannot start a thread (see ulimit -u)");
  start.release();  // the thread owns it now
  return base::Status::ok();
}

}  // namespace omnes::core::bootstrap
