#include "ddp/collectives/auto/auto_backend.h"

#include "ddp/collectives/auto/hierarchical_backend.h"
#include "ddp/collectives/auto/host_plan.h"
#include "ddp/collectives/gloo/gloo_backend.h"
#include "ddp/collectives/shm/shm_backend.h"

namespace ddp {

std::unique_ptr<Backend> MakeAutoBackend(const Meeting& meeting) {
  const HostPlan plan = PlanHosts(meeting.members, meeting.rank());
  if (plan.hosts.size() == 1) return MakeShmBackend(meeting);
  if (static_cast<int>(plan.hosts.size()) == meeting.size()) return MakeGlooBackend(meeting);
  return std::make_unique<HierarchicalBackend>(meeting, plan, MakeShmBackend, MakeGlooBackend);
}

}  // namespace ddp
