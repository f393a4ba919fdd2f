#include "core/plugin.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/logger.hpp"
#include "core/network.hpp"
#include "core/watched_job.hpp"

namespace ho::plugin {
namespace {

// Our log lines as NCCL's.
class NcclSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit NcclSink(Plugin::Log log) : log_(std::move(log)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string text(message.payload.data(), message.payload.size());
    const Plugin::Level level = message.level >= spdlog::level::warn   ? Plugin::Level::kWarn
                                : message.level >= spdlog::level::info ? Plugin::Level::kInfo
                                                                       : Plugin::Level::kTrace;
    log_(level, text.c_str());
  }
  void flush_() override {}

 private:
  Plugin::Log log_;
};

// As NCCL reads the variable, from the level on at which it passes warnings on.
bool nccl_shows_warnings() {
  const char* const set = std::getenv("NCCL_DEBUG");
  std::string level = set == nullptr ? "" : set;
  std::ranges::transform(level, level.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return level == "warn" || level == "info" || level == "abort" || level == "trace";
}

// NCCL_DEBUG decides what NCCL shows of what it gets, so NCCL gets everything from info on. stderr
// follows HORING_LOG_LEVEL; where that is not set it has what NCCL does not show.
void log_to(Plugin::Log log) {
  const bool said_by_nccl = nccl_shows_warnings() && !env::text_if_set(env::kLogLevel);
  auto& sinks = logger().sinks();
  for (const auto& sink : sinks) {
    sink->set_level(said_by_nccl ? spdlog::level::off : logger().level());
  }
  sinks.push_back(std::make_shared<NcclSink>(std::move(log)));
  logger().set_level(std::min(logger().level(), spdlog::level::info));
}

std::vector<DeviceProperties> devices_of(NetDriver& net) {
  std::vector<DeviceProperties> devices;
  int32_t count = 0;
  for (int32_t device = 0; net.device_count(&count) == Reply::kSuccess && device < count;
       ++device) {
    DeviceProperties properties;
    if (net.properties(device, &properties) == Reply::kSuccess) {
      devices.push_back(std::move(properties));
    }
  }
  return devices;
}

// "eth0 (10000 Mbit/s, taken: up, 10.1.0.1/24)"
std::string description(const DeviceProperties& device) {
  std::string text = fmt::format("{} ({} Mbit/s", device.name, device.speed_mbps);
  if (!device.pci_path.empty()) {
    text += ", " + device.pci_path;
  }
  if ((device.memory_kinds & kCudaMemory) != 0) {
    text += ", CUDA memory";
  }
  if ((device.memory_kinds & kDmaBufMemory) != 0) {
    text += ", DMA-BUF";
  }
  if (!device.reason.empty()) {
    text += ", " + device.reason;
  }
  return text + ")";
}

const char* compared_text(bool network_is_ours, bool compared, bool has_files) {
  if (!network_is_ours) {
    return "; its network is not in use, so only the tuning file counts, and nothing "
           "compares it: NCCL hangs where a rank has another file or no tuner of ours";
  }
  return compared || !has_files
             ? ""
             : "; this rank is on no rail of that communicator, so nothing compares its tuning "
               "file (HORING_TUNING_FILE) and its levels (HORING_LEVELS_FILE): NCCL hangs where "
               "another rank has another one, or none";
}

}  // namespace

Plugin& Plugin::instance() {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): never destroyed, see above
  static Plugin* const plugin = new Plugin();
  return *plugin;
}

void Plugin::log_through(Log log) {
  if (log && !has_log_) {
    has_log_ = true;
    log_to(std::move(log));
  }
}

Status Plugin::start(const std::string& interface, Log log, SearchTuner search_tuner) {
  const std::lock_guard lock(mutex_);
  if (!started_) {
    started_ = true;
    log_through(std::move(log));
    interface_ = interface;
    search_tuner_ = std::move(search_tuner);
    made_ = make();
    if (!made_.ok()) {
      const bool tells = make_off(made_).ok();
      log_warn("horing plugin: not usable: {}{}",
               made_.message(),
               tells ? "; connections to and from this rank fail, and its peers get this reason "
                       "(NCCL_NET_PLUGIN=none on all ranks goes on without the plugin)"
                     : "");
      made_ = tells ? Status() : made_;
    }
  }
  return made_;
}

Status Plugin::make() {
  env::warn_of_misspelt_names();
  HORING_TRY(env::check_numbers());
  HORING_ASSIGN(Network network, network_from_environment());
  CollNet::Settings settings;
  HORING_ASSIGN(const uint64_t timeout_ms, env::number(env::kConnectTimeoutMs));
  HORING_ASSIGN(settings.wanted_piece_bytes, env::number(env::kPieceBytes));
  HORING_ASSIGN(settings.host_memory_wanted, env::flag(env::kCollNetHost));
  settings.job_key = std::move(network.job_key);
  settings.timeout = std::chrono::milliseconds(timeout_ms);
  settings.rendezvous_address = std::move(network.rendezvous_address);
  settings.consistency = [this] { return consistency(); };
  net_ = std::move(network.driver);
  coll_net_ = std::make_unique<CollNet>(*net_, std::move(settings));
  return {};
}

// NCCL goes on with the next network of the user's list where there is one.
Status Plugin::make_off(const Status& why) {
  const char* const named = std::getenv("NCCL_NET_PLUGIN");
  if (named != nullptr && std::string_view(named).find(',') != std::string_view::npos) {
    return why;
  }
  const TurnedOff off = turned_off_here(why);
  HORING_ASSIGN(Network network, network_turned_off(off));
  CollNet::Settings settings;
  settings.off = off;
  off_ = true;
  net_ = std::move(network.driver);
  coll_net_ = std::make_unique<CollNet>(*net_, std::move(settings));
  return {};
}

const std::string& Plugin::tuner_in_use() {
  std::call_once(tuner_searched_, [this] {
    const char* const set = std::getenv("NCCL_TUNER_PLUGIN");
    const std::string own = own_library_path();
    std::optional<std::string> setting;
    if (set != nullptr || env_plugin_) {
      setting = set == nullptr ? own : set;  // our env plugin names this file
    }
    tuner_in_use_ = tuner_taken(search_tuner_(setting), open_tuner, own);
  });
  return tuner_in_use_;
}

// First, whether there is a tuner of ours at all: without one nothing else of it counts.
std::string Plugin::consistency() {
  const std::string tuner = "tuners (NCCL_TUNER_PLUGIN)=" + tuner_in_use() + "\n";
  const std::lock_guard lock(basis_mutex_);
  return basis_ && basis_->ok() ? tuner + (*basis_)->consistency() : tuner;
}

Result<TunerBasis> Plugin::make_basis() {
  std::vector<uint32_t> nic_mbps;
  for (const DeviceProperties& device : devices_of(*net_)) {
    nic_mbps.push_back(static_cast<uint32_t>(std::max(device.speed_mbps, 0)));
  }
  return TunerBasis::from_environment(nic_mbps, CollNet::reduces_all());
}

Result<std::unique_ptr<Tuner>> Plugin::make_tuner(const std::string& interface,
                                                  Log log,
                                                  CommunicatorShape shape,
                                                  std::optional<uint64_t> comm_id) {
  const std::lock_guard lock(mutex_);
  log_through(std::move(log));
  std::optional<Result<TunerBasis>> of_network;
  {
    const std::lock_guard basis_lock(basis_mutex_);
    of_network = basis_;
  }
  const bool ours = of_network.has_value();
  // Of several ranks on a node those that are no heads do not know whether rails are connected.
  const bool all_are_heads = shape.ranks == shape.nodes;
  shape.collnet_connected = ours && comm_id && all_are_heads && coll_net_->is_connected(*comm_id);
  Result<TunerBasis> found =
      ours ? *std::move(of_network) : TunerBasis::from_environment({}, false);
  if (!found.ok() && off_) {
    found = TunerBasis::silent();  // the settings that cannot be followed may be the tuner's
  }
  HORING_ASSIGN(TunerBasis basis, std::move(found));
  if (ours && comm_id && coll_net_->members_differ(*comm_id)) {
    // Only what is known on every rank may change what it chooses.
    log_warn("horing plugin: the members of a rail differ (see why CollNet is not used): {}",
             all_are_heads
                 ? "the tuner leaves all choices of this communicator to NCCL"
                 : "ranks beside this rail cannot know it, so a tuning file still counts; "
                   "where it is not the same on all ranks, NCCL hangs");
    // A file that cannot be used stops this rank in any case: tuner_for() returns the reason.
    if (all_are_heads && basis.can_follow_files()) {
      basis = TunerBasis::silent();
    }
  }
  // Only a rail's members compare their files. NCCL before 2.28 does not pass whose tuner this is.
  const bool compared = !comm_id || shape.nodes == 1 || !ours ||
                        coll_net_->is_connected(*comm_id) || coll_net_->members_differ(*comm_id);
  const bool has_files = basis.has_files();
  auto tuner = basis.tuner_for(shape);
  if (tuner.ok()) {
    log_info("horing plugin: loaded by NCCL as {} for {} ranks on {} nodes{}",
             interface,
             shape.ranks,
             shape.nodes,
             compared_text(ours, compared, has_files));
  } else {
    log_warn("horing plugin: no tuner: {}", tuner.status().message());
  }
  return tuner;
}

NetDriver& Plugin::net() {
  if (net_ == nullptr) {
    throw std::logic_error("a call of the network before its init has succeeded");
  }
  return *net_;
}

CollNet& Plugin::coll_net() {
  if (coll_net_ == nullptr) {
    throw std::logic_error("a call of CollNet before its init has succeeded");
  }
  return *coll_net_;
}

Reply Plugin::open_net(const NetDriver::Opening& opening, void** context) {
  const Reply reply = net_->open(opening, context);
  if (reply == Reply::kSuccess) {
    std::call_once(opened_, [this] {
      if (off_) {
        return;
      }
      say_what_is_used();
      auto basis = make_basis();
      const std::lock_guard lock(basis_mutex_);
      basis_.emplace(std::move(basis));
    });
  }
  if (reply == Reply::kSuccess && !off_) {
    show_status(*context);
  }
  // A process's context has communicator 0, and no class.
  if (reply == Reply::kSuccess && opening.traffic_class >= 0) {
    traffic_classes_.note(opening.comm_id, *context, opening.traffic_class);
  }
  return reply;
}

Reply Plugin::close_net(void* context) {
  traffic_classes_.forget(context);
  const Reply reply = net().close(context);
  hide_status(context);
  return reply;
}

Reply Plugin::open_coll_net(uint64_t comm_id, void** context) {
  const int32_t traffic_class = traffic_classes_.take(comm_id).value_or(kNoTrafficClass);
  return coll_net().open(comm_id, traffic_class, context);
}

void Plugin::say_what_is_used() {
  std::string devices;
  for (const DeviceProperties& device : devices_of(*net_)) {
    devices += (devices.empty() ? "" : ", ") + description(device);
  }
  const std::string left_out = net_->left_out();
  log_info("horing plugin: NCCL took {}; network {} ({}) on {}{}{}",
           interface_,
           net_->name(),
           net_->origin(),
           devices.empty() ? "no device" : devices,
           left_out.empty() ? "" : "; not on ",
           left_out);
  if (tuner_in_use() == "ours") {
    return;
  }
  // Ranks that are no heads meet no others: each logs it for itself.
  const std::string file = env::text(env::kTuningFile);
  const std::string text = fmt::format(
      "horing plugin: the tuner that NCCL takes here is {} (NCCL_TUNER_PLUGIN), not ours{}. NCCL "
      "hangs where other ranks have ours and choose another algorithm: set it to the same value on "
      "all ranks",
      tuner_in_use(),
      file.empty() ? "" : ", so that HORING_TUNING_FILE has no effect");
  if (file.empty()) {
    log_info("{}", text);
  } else {
    log_warn("{}", text);
  }
}

void Plugin::show_status(void* context) {
  const std::lock_guard lock(seen_mutex_);
  open_contexts_.insert(context);
  if (seen_ != nullptr) {
    return;
  }
  WatchedJob job = job_of_this_process();
  for (const DeviceProperties& device : devices_of(*net_)) {
    job.devices.push_back(
        {device.name, device.address, static_cast<uint64_t>(std::max(device.speed_mbps, 0))});
  }
  job.network = [this] { return WatchedNetwork{coll_net_->rings(), net_->connections()}; };
  seen_ = std::make_unique<StatusService::Member>(StatusService::of_process(), std::move(job));
  // Where NCCL closes nothing, and this object stays: its socket would.
  static std::once_flag at_exit;
  std::call_once(at_exit, [] {
    (void)std::atexit([] {
      const std::lock_guard end(instance().seen_mutex_);
      instance().seen_.reset();
    });
  });
}

void Plugin::hide_status(void* context) {
  const std::lock_guard lock(seen_mutex_);
  if (const auto found = open_contexts_.find(context); found != open_contexts_.end()) {
    open_contexts_.erase(found);
  }
  if (open_contexts_.empty()) {
    seen_.reset();
  }
}

Reply Plugin::open_process_context(const Host& host, bool of_coll_net) {
  const std::lock_guard lock(mutex_);
  Shared& shared = shared_[of_coll_net ? 1 : 0];
  if (shared.open) {
    return Reply::kSuccess;
  }
  NetDriver::Opening opening;
  opening.host = host;
  const Reply reply = of_coll_net ? coll_net_->open(0, kNoTrafficClass, &shared.context)
                                  : open_net(opening, &shared.context);
  shared.open = reply == Reply::kSuccess;
  return reply;
}

void* Plugin::process_context(bool of_coll_net) {
  const std::lock_guard lock(mutex_);
  return shared_[of_coll_net ? 1 : 0].context;
}

}  // namespace ho::plugin
