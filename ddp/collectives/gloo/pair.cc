#include "ddp/collectives/gloo/pair.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <exception>
#include <mutex>

namespace ddp {

AdoptedPair::AdoptedPair(gloo::transport::tcp::Context* context,
                         gloo::transport::tcp::Device* device, int peer, FileDescriptor connection)
    : Pair(context, device, peer, context->getTimeout()) {
  std::lock_guard lock(m_);
  // The listener that Gloo has opened for the pair.
  device_->unregisterDescriptor(fd_, this);
  const FileDescriptor listener(fd_);
  fd_ = connection.Release();
  // First, as Pair's destructor takes it off the loop if what follows throws.
  device_->registerDescriptor(fd_, EPOLLIN, this);
  handleConnected();
}

bool AdoptedPair::HasUnsent() {
  std::lock_guard lock(m_);
  if (state_ != CONNECTED) return false;
  int num_bytes = 0;
  ioctl(fd_, SIOCOUTQ, &num_bytes);
  return num_bytes > 0 || !tx_.empty();
}

void AdoptedPair::CloseGently() {
  std::lock_guard lock(m_);
  if (state_ != CLOSED) changeState(CLOSED);
}

// The loop may have an event left for a pair that was closed in the same turn.
void AdoptedPair::handleEvents(int events) {
  if (IsClosed()) return;
  try {
    Pair::handleEvents(events);
  } catch (const std::exception& error) {
    signalExceptionExternal(error.what());
  }
}

// A pair that another thread uses just now isn't, or will be asked again.
bool AdoptedPair::IsClosed() {
  const std::unique_lock lock(m_, std::try_to_lock);
  return !lock || state_ == CLOSED;
}

}  // namespace ddp
