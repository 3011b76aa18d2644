// The launcher's notice board, where there is one: PMIx, found at run time.
//
// Open MPI's mpirun and PRRTE give every process a PMIx server to talk to. omnes uses two of its
// services: publish() and lookup() of bytes under a name, visible to the ranks of this job only.
// The library is loaded with dlopen when the launcher's variables speak of it, never linked, so
// that omnes runs without it; and it is used only if its headers were there when omnes was built.
//
// PMIx counts its initialisations, so that an application which uses it too (MPI does) is not
// disturbed while it does. A session is short: a process that ended inside one would count as
// crashed for the launcher. But an MPI that begins after the last session has ended fails (Open MPI
// 4.1: "orte_init failed", since PMIx does not fetch again what it has forgotten). So a process
// with an MPI that is not initialised yet gets no session.
//
// One thread at a time per session; several sessions at once are possible. The calls wait at most
// until their limits. open() waits for the server of this host, which PMIx itself bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

class PmixSession {
 public:
  // Null: PMIx cannot be used in this job, and `why` says the reason, which is one that holds for
  // all ranks of a host alike. kSystemError: it should work, but does not.
  static base::Result<std::unique_ptr<PmixSession>> open(const std::string& jobName, uint32_t rank,
                                                         std::string* why);
  ~PmixSession();
  PmixSession(const PmixSession&) = delete;
  PmixSession& operator=(const PmixSession&) = delete;

  // Under a name, to the ranks of this job, until the job ends. kNotSupported: this launcher's
  // server does not do it, whichever rank asks. kTimeout, kInvalidUsage (aborted), kSystemError.
  base::Status publish(const std::string& name, const std::string& bytes, const WaitLimits& limits);
  // Nothing: not published yet. Errors as publish().
  base::Result<std::optional<std::string>> lookup(const std::string& name,
                                                  const WaitLimits& limits);

 private:
  explicit PmixSession(std::string jobName) : jobName_(std::move(jobName)) {}
  const std::string jobName_;
};

}  // namespace omnes::core::bootstrap
