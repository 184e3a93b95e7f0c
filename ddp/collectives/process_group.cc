#include "ddp/collectives/process_group.h"

#include <stdexcept>

namespace ddp {

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
  }
  throw std::invalid_argument("not a reduce operation");
}

}  // namespace ddp
