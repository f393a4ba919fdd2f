#include "virtual_job.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "cuda_double.hpp"
#include "device/work/work.hpp"
#include "exec/run.hpp"
#include "must_have.hpp"
#include "patterns.hpp"
#include "transport/staged/staged_link.hpp"
#include "virtual_links.hpp"

namespace ho::test {
namespace {

constexpr DType kType = DType::kFloat32;
constexpr ReduceOp kSum = ReduceOp::kSum;

BuiltPlan built_for(const Case& wanted_call, const GroupMap& map, GlobalRank rank) {
  PlanRequest request;
  request.collective = wanted_call.collective;
  request.algorithm = wanted_call.algorithm;
  request.ring_count = map.rail_count();
  return must_have(build_plan(map, request, rank));
}

// Without the hooks for what the host touches: in one thread, which sees every event that passes,
// they would find nothing, and take most of the time.
const device::Driver& driver() {
  static const device::Driver kTable = [] {
    device::Driver table = *must_have(device::driver());
    table.host_reads = nullptr;
    table.host_writes = nullptr;
    return table;
  }();
  return kTable;
}

// As src/comm makes one.
class Rank {
 public:
  Rank(const Case& wanted_call, const GroupMap& map, GlobalRank self)
      : wanted_call_(wanted_call),
        map_(map),
        self_(self),
        device_(must_have(
            device::Device::open(*must_have(device::driver()), static_cast<int>(self.value())))),
        work_(must_have(device::Work::create(device_))),
        slots_(std::make_unique<SharedSlots>(self, device_, nullptr, [] { return true; })) {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    run_.reset();
    links_.clear();
  }

  // A short first call, after which links have the slots that they need, or the call that is asked
  // for.
  void start(VirtualNetwork& network, uint32_t sequence) {
    host_ns_ = 0;
    block_count_ = sequence == 1 ? (wanted_call_.block_count + 3) / 4 : wanted_call_.block_count;
    BuiltPlan built = built_for(wanted_call_, map_, self_);
    Call call;
    call.collective = wanted_call_.collective;
    call.algorithm = wanted_call_.algorithm;
    call.dtype = kType;
    call.block_counts = BlockCounts(block_count_);
    call.self = self_;
    call.world_size = map_.world_size();
    call.sequence = sequence;
    uint64_t in = 0;
    out_count_ = 0;
    for (uint32_t block = 0; block < built.plan.block_count; ++block) {
      const BlockRole role = role_of(built.plan, block, map_.world_size());
      in += role.in_input(self_) ? block_count_ : 0;
      out_count_ += role.in_output(self_) ? block_count_ : 0;
    }
    call.count = in;
    input_ = must_have(device::DeviceMemory::create(*device_, in * sizeof(float)));
    output_ = must_have(device::DeviceMemory::create(*device_, out_count_ * sizeof(float)));
    std::vector<float> values(in);
    for (uint64_t i = 0; i < in; ++i) {
      values[i] = static_cast<float>(pattern(kSum, self_.value(), i));
    }
    cuda_double::set_device_bytes(input_.address(), std::as_bytes(std::span(values)));
    call.input = static_cast<const std::byte*>(input_.pointer());
    call.output = static_cast<std::byte*>(output_.pointer());
    call.device = {work_.get(), true, true};
    auto schedule =
        must_have(make_schedule(std::move(built), [&](GlobalRank peer, Lane lane, RailIndex rail) {
          return Result<Link*>(link(network, peer, lane, rail));
        }));
    run_ =
        std::make_unique<Run>(std::move(call), std::move(schedule), wanted_call_.limits, nullptr);
    if (sequence > 1) {
      work_->give_back(std::move(scratch_));
      work_->give_back(std::move(device_scratch_));
    }
    scratch_ = must_have(work_->take_pinned(std::max<uint64_t>(run_->scratch_bytes(), 1)));
    device_scratch_ =
        must_have(work_->take_device(std::max<uint64_t>(run_->device_scratch_bytes(), 1)));
    run_->start(scratch_.bytes().data(), static_cast<std::byte*>(device_scratch_.pointer()));
  }

  // As turns of the engine: until nothing moves, or calls of the driver have taken some time; true:
  // something moved last.
  bool make_progress() {
    bool moved = true;
    while (moved && cuda_double::host_ns(device_->ordinal()) == 0) {
      const bool completed = must_have(work_->look());
      if (const auto error = run_->make_progress(&moved)) {
        throw std::runtime_error(error->status.to_string());
      }
      must_be_ok(work_->start());
      moved |= completed;
    }
    const int64_t spent_ns = cuda_double::take_host_ns(device_->ordinal());
    host_ns_ += spent_ns;
    busy_until_ns_ = cuda_double::now_ns() + spent_ns;
    return moved;
  }
  [[nodiscard]] int64_t busy_until_ns() const { return busy_until_ns_; }
  [[nodiscard]] int64_t host_ns() const { return host_ns_; }
  [[nodiscard]] bool finished() const { return run_->finished(); }
  [[nodiscard]] std::string waiting_text() const { return run_->waiting_text(); }

  [[nodiscard]] bool result_is_right() const {
    const auto bytes = cuda_double::device_bytes(output_.address(), out_count_ * sizeof(float));
    for (uint64_t i = 0; i < out_count_; ++i) {
      float got = 0;
      std::memcpy(&got, bytes.data() + i * sizeof(float), sizeof(float));
      if (got != static_cast<float>(expected_at(i))) {
        return false;
      }
    }
    return true;
  }

 private:
  Link* link(VirtualNetwork& network, GlobalRank peer, Lane lane, RailIndex rail) {
    auto& around = links_[{peer, lane, rail}];
    if (around == nullptr) {
      Link* const inner = network.link(self_, peer, lane, rail);
      StagedLink::Shared shared;
      if (!inner->over_network()) {
        shared = {slots_.get(), peer};
      }
      around = std::make_unique<StagedLink>(*inner, *work_, shared);
    }
    return around.get();
  }
  [[nodiscard]] double expected_at(uint64_t i) const {
    const uint64_t block = block_count_;
    switch (wanted_call_.collective) {
      case Collective::kAllGather:
        return pattern(kSum, static_cast<uint32_t>(i / block), i % block);
      case Collective::kReduceScatter:
        return expected(kSum, map_.world_size(), self_.value() * block + i);
      default:
        return expected(kSum, map_.world_size(), i);
    }
  }

  const Case& wanted_call_;
  const GroupMap& map_;
  const GlobalRank self_;
  std::shared_ptr<device::Device> device_;
  std::unique_ptr<device::Work> work_;
  std::unique_ptr<SharedSlots> slots_;
  std::map<std::tuple<GlobalRank, Lane, RailIndex>, std::unique_ptr<StagedLink>> links_;
  device::DeviceMemory input_;
  device::DeviceMemory output_;
  device::PinnedMemory scratch_;
  device::DeviceMemory device_scratch_;
  uint64_t block_count_ = 0;
  uint64_t out_count_ = 0;
  int64_t busy_until_ns_ = 0;
  int64_t host_ns_ = 0;
  std::unique_ptr<Run> run_;
};

// What one op of a rank costs, by where its memory lies.
struct Loads {
  std::array<double, 4> work{};  // ns: what leaves, what arrives, and the same inside
  std::array<double, 2> bus{};   // ns: towards the device, from it
  void add(const Case& rates, size_t which, uint64_t bytes, uint64_t to, uint64_t from) {
    const double bus_ns = static_cast<double>(std::max(to, from)) / rates.bus;
    work.at(which) += std::max(static_cast<double>(bytes) / rates.inside, bus_ns);
    bus[0] += static_cast<double>(to) / rates.bus;
    bus[1] += static_cast<double>(from) / rates.bus;
  }
  [[nodiscard]] double most() const {
    return std::max(*std::max_element(work.begin(), work.end()), std::max(bus[0], bus[1]));
  }
};

// The bytes of a plan's ops on the way that each of them has to take.
Loads loads_of(const Case& wanted_call, const RankPlan& mine, const Binding& binding) {
  Loads loads;
  for (const PlanOp& op : mine.ops) {
    uint64_t bytes = 0;
    for (uint32_t piece = 0; piece < binding.op_pieces(op); ++piece) {
      bytes += binding.wire_bytes(op, piece);
    }
    const bool inter = op.lane == Lane::kInter;
    const auto pinned = [&](Space space) {
      return space == Space::kScratch && !binding.scratch_on_device(op.chunks.front());
    };
    const uint64_t incoming = inter ? bytes : 0;
    if (op.kind == OpKind::kSend) {
      if (!pinned(op.src)) {
        loads.add(wanted_call, inter ? 0 : 2, bytes, 0, inter ? bytes : 0);
      }
    } else if (op.kind != OpKind::kRecvReduce) {
      loads.add(wanted_call, inter ? 1 : 3, bytes, op.kind == OpKind::kRecv ? incoming : 0, 0);
    } else if (!pinned(op.src) || !pinned(op.dst)) {
      loads.add(wanted_call,
                inter ? 1 : 3,
                bytes,
                incoming + (pinned(op.src) ? bytes : 0),
                pinned(op.dst) ? bytes : 0);
    } else if (!inter) {
      loads.add(wanted_call, 1, bytes, 0, bytes);  // the host adds what was copied to it
    }
  }
  return loads;
}

// A piece leaves a device, or enters it, over the bus; crosses on a NIC; is copied into a slot,
// named to its reader and read there.
double block_ns(const Case& wanted_call, const Binding& binding) {
  const auto bytes = static_cast<double>(binding.largest_piece_bytes());
  const double bus = bytes / wanted_call.bus;
  const double nic = bytes / wanted_call.between;
  const double inside =
      2 * bytes / wanted_call.inside + static_cast<double>(wanted_call.message_ns);
  const double gather = bus + nic + bus + inside;
  const double scatter = inside + nic + bus;
  switch (wanted_call.collective) {
    case Collective::kAllGather:
      return gather;
    case Collective::kReduceScatter:
      return scatter;
    default:
      return scatter + gather;
  }
}

Binding binding_of(const Case& wanted_call,
                   const GroupMap& map,
                   const BuiltPlan& built,
                   GlobalRank rank) {
  Call call;
  call.collective = wanted_call.collective;
  call.block_counts = BlockCounts(wanted_call.block_count);
  call.self = rank;
  call.world_size = map.world_size();
  call.dtype = kType;
  device::Work* const some = std::bit_cast<device::Work*>(uintptr_t{1});
  call.device = {some, true, true};  // only whether there is one matters to a binding
  return {built.plan, built.mine, call, wanted_call.limits};
}

void add_bounds(const Case& wanted_call, const GroupMap& map, Times& times) {
  std::map<std::pair<GroupIndex, RailIndex>, double> nics;
  for (uint32_t r = 0; r < map.world_size(); ++r) {
    const BuiltPlan built = built_for(wanted_call, map, GlobalRank(r));
    const Binding binding = binding_of(wanted_call, map, built, GlobalRank(r));
    times.inside_ns = std::max(times.inside_ns, loads_of(wanted_call, built.mine, binding).most());
    times.block_ns = std::max(times.block_ns, block_ns(wanted_call, binding));
    uint64_t pieces = 0;
    for (const PlanOp& op : built.mine.ops) {
      pieces += binding.op_pieces(op);
      for (uint32_t piece = 0;
           op.kind == OpKind::kSend && op.lane == Lane::kInter && piece < binding.op_pieces(op);
           ++piece) {
        double& nic = nics[{map.group_of(GlobalRank(r)), op.rail}];
        nic += static_cast<double>(binding.wire_bytes(op, piece)) / wanted_call.between;
        times.between_ns = std::max(times.between_ns, nic);
      }
    }
    times.pieces = std::max(times.pieces, pieces);
  }
}

// Until all have finished.
void drive(std::vector<std::unique_ptr<Rank>>& ranks, VirtualNetwork& network) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    network.set_due(GlobalRank(r));
  }
  while (true) {
    while (const auto due = network.take_due()) {
      Rank& rank = *ranks[due->at()];
      if (rank.busy_until_ns() > network.now_ns()) {
        network.set_due_at(rank.busy_until_ns(), *due);
      } else if (rank.make_progress() && rank.busy_until_ns() > network.now_ns()) {
        network.set_due_at(rank.busy_until_ns(), *due);
      }
    }
    if (std::all_of(
            ranks.begin(), ranks.end(), [](const auto& rank) { return rank->finished(); })) {
      return;
    }
    const auto on_devices = cuda_double::next_event_ns();
    const auto on_links = network.next_event_ns();
    if (!on_devices && !on_links) {
      std::string text = "nothing can happen any more;";
      for (size_t r = 0; r < ranks.size(); ++r) {
        text += " rank " + std::to_string(r) + ": " + ranks[r]->waiting_text() + ";";
      }
      throw std::runtime_error(text);
    }
    // Calls that wait for a device let time pass, too.
    const int64_t next =
        std::max(cuda_double::now_ns(),
                 std::min(on_devices.value_or(INT64_MAX), on_links.value_or(INT64_MAX)));
    network.advance(next);
    for (const int device : cuda_double::advance(next)) {
      network.set_due(GlobalRank(static_cast<uint32_t>(device)));
    }
  }
}

}  // namespace

uint64_t piece_bytes_of(const Case& wanted_call) {
  const GroupMap map = must_have(GroupMap::parse(wanted_call.groups));
  const BuiltPlan built = built_for(wanted_call, map, GlobalRank(0));
  return binding_of(wanted_call, map, built, GlobalRank(0)).largest_piece_bytes();
}

Times run_in_virtual_time(const Case& wanted_call) {
  const GroupMap map = must_have(GroupMap::parse(wanted_call.groups));
  (void)driver();  // its first call resets the double
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kTimed;
  config.devices = static_cast<int>(map.world_size());
  config.rates = {wanted_call.bus, wanted_call.inside};
  config.host_times = wanted_call.host;
  cuda_double::reset(config);
  Times times;
  {
    VirtualNetwork network(map, {wanted_call.between, wanted_call.message_ns}, [](GlobalRank rank) {
      return cuda_double::host_ns(static_cast<int>(rank.value()));
    });
    std::vector<std::unique_ptr<Rank>> ranks;
    for (uint32_t r = 0; r < map.world_size(); ++r) {
      ranks.push_back(std::make_unique<Rank>(wanted_call, map, GlobalRank(r)));
    }
    int64_t began_ns = 0;
    for (const uint32_t sequence : {1U, 2U}) {  // allocating is the first call's
      began_ns = network.now_ns();
      for (const auto& rank : ranks) {
        rank->start(network, sequence);
      }
      cuda_double::forget_counts();
      drive(ranks, network);
    }
    times.end_ns = network.now_ns() - began_ns;
    times.starts =
        static_cast<double>(cuda_double::calls("launch") + cuda_double::calls("copy_async")) /
        map.world_size();
    for (const auto& rank : ranks) {
      const auto host_ns = static_cast<double>(rank->host_ns());
      times.host_share = std::max(times.host_share, host_ns / static_cast<double>(times.end_ns));
    }
    times.waiting_calls = cuda_double::synchronizing_calls();
    times.results_are_right = std::all_of(
        ranks.begin(), ranks.end(), [](const auto& rank) { return rank->result_is_right(); });
  }
  add_bounds(wanted_call, map, times);
  return times;
}

}  // namespace ho::test
