// Streams and groups.
#include "api/boundary.h"

namespace {

omnesResult_t notYet() {
  return omnes::api::finish(omnes::base::Status(omnes::base::Code::kNotSupported,
                                                "streams and groups are not supported yet"));
}

}  // namespace

omnesResult_t omnesStreamCreate(omnesStream_t*) { return notYet(); }
omnesResult_t omnesStreamDestroy(omnesStream_t) { return notYet(); }
omnesResult_t omnesStreamSynchronize(omnesStream_t) { return notYet(); }
omnesResult_t omnesStreamQuery(omnesStream_t) { return notYet(); }
omnesResult_t omnesStreamAddCallback(omnesStream_t, omnesStreamCallback_t, void*, unsigned int) {
  return notYet();
}
omnesResult_t omnesGroupStart(void) { return notYet(); }
omnesResult_t omnesGroupEnd(void) { return notYet(); }
