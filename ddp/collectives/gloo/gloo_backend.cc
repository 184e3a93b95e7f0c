#include "ddp/collectives/gloo/gloo_backend.h"

#include <exception>
#include <utility>

#include "ddp/collectives/gloo/address.h"
#include "ddp/collectives/gloo/connector.h"
#include "ddp/collectives/gloo/loop.h"
#include "ddp/collectives/gloo/mesh.h"
#include "ddp/collectives/messages/message_backend.h"

namespace ddp {
namespace {

class GlooBackend : public MessageBackend {
 public:
  using MessageBackend::MessageBackend;

  void Run(const Operation& operation, const Call& call, Deadline deadline) override {
    const ScopedIgnoreSigpipe guard;
    MessageBackend::Run(operation, call, deadline);
  }

  void Exchange(std::span<const Operation> operations, Deadline deadline) override {
    const ScopedIgnoreSigpipe guard;
    MessageBackend::Exchange(operations, deadline);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeGlooBackend(const Meeting& meeting) {
  // The threads that are started here write to sockets too.
  const ScopedIgnoreSigpipe guard;
  try {
    return std::make_unique<GlooBackend>(std::make_unique<Mesh>(meeting, ChooseAddress(meeting)));
  } catch (const std::exception& error) {
    Connector::TellUnreachable(meeting, error.what());
    throw;
  }
}

}  // namespace ddp
