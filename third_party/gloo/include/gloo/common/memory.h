// Debian's libgloo-dev leaves this header out, though those of Gloo's TCP transport include it. Its
// classes are members of theirs: what matters here is how they lie in memory, which is as one
// pointer of the standard library each.
#pragma once

#include <memory>

namespace gloo {

// What a ShareableNonOwningPtr points to, kept from ending for a moment.
template <class T>
class NonOwningPtr final {
  std::shared_ptr<T> ptr_;
};

template <class T>
class WeakNonOwningPtr final {
  std::weak_ptr<T> ptr_;
};

template <class T>
class ShareableNonOwningPtr final {
  std::shared_ptr<T> ptr_;
};

}  // namespace gloo
