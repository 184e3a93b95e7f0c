// Message: what a TcpStore and its server say to each other, and what a FileStore writes down.
// On the wire: the size of the rest (uint32), kind (uint8), number (int64), then each string as its
// size (uint32) and bytes; little endian.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Values may be some MB; a length that says more than this is no message of ours.
inline constexpr uint32_t kMaxMessageBytes = 64 << 20;

// What each side says first, so that neither mistakes a stranger for the other.
inline constexpr std::string_view kClientHello = "ddp store client 2\n";
inline constexpr std::string_view kServerHello = "ddp store server 2\n";

struct Message {
  enum class Kind : uint8_t {
    // Requests: strings hold the key, and number or more strings what the operation takes.
    kSet,            // key, value
    kGet,            // key; number: timeout in ns
    kAdd,            // key; number: amount
    kCompareAndSet,  // key, expected, desired
    kWait,           // keys; number: timeout in ns
    kCheck,          // keys
    kDelete,         // key
    kEnter,          // token; the first of a connection
    kWill,  // key, value, key, value, ...; number: how long the client may be silent, in ns
    // Answers.
    kDone,      // number or strings[0]: the result
    kTimedOut,  // the keys that are missing
    kInvalid,   // strings[0]: what was wrong with the arguments
    kRefused,   // strings[0]: why the server has nothing more to say to this client
  };

  Kind kind = Kind::kDone;
  int64_t number = 0;
  std::vector<std::string> strings = {};
};

// Bytes that are no message.
class MalformedMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws std::invalid_argument for a message over kMaxMessageBytes.
std::string Encode(const Message& message);

// What a client says first: the hello, and its token.
std::string Greeting(const std::string& token);

// Reads the first message of `bytes`. Returns how many bytes it took, 0 while it isn't complete.
// Throws MalformedMessage.
size_t Decode(std::string_view bytes, Message* message);

}  // namespace ddp
