// What NCCL's calls without a context make the process share: one network and one CollNet on it,
// made when NCCL first initialises either, and where their log goes. Nothing else of the plugin is
// global.
//
// It lives until the process ends: NCCL may unload and load the library again, finalize late or not
// at all, and its threads may still be in a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/status.hpp"
#include "core/collnet/coll_net.hpp"
#include "core/driver/net_driver.hpp"
#include "core/settings.hpp"
#include "core/traffic_classes.hpp"
#include "core/tuner/basis.hpp"
#include "status/service.hpp"

namespace ho::plugin {

class Plugin {
 public:
  enum class Level : uint8_t { kWarn, kInfo, kTrace };
  // NCCL's log, which is written to NCCL_DEBUG_FILE.
  using Log = std::function<void(Level, const char* text)>;
  // How this NCCL searches for a tuner, by NCCL_TUNER_PLUGIN as it sees it.
  using SearchTuner = std::function<TunerSearch(const std::optional<std::string>& setting)>;

  static Plugin& instance();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  ~Plugin() = default;

  // Makes the network at the first call. interface: "net v11", for the log. One line of the log
  // has what was made, once it is open. If a setting prevents it, a network is made that only sends
  // peers the reason; if that is not possible either, the same error again.
  [[nodiscard]] Status start(const std::string& interface, Log log, SearchTuner search_tuner);
  // Throw std::logic_error before a start() that went well.
  [[nodiscard]] NetDriver& net();
  [[nodiscard]] CollNet& coll_net();
  [[nodiscard]] Reply open_net(const NetDriver::Opening& opening, void** context);
  [[nodiscard]] Reply close_net(void* context);
  // NCCL names a traffic class to the network only: CollNet, opened next, takes its communicator's.
  [[nodiscard]] Reply open_coll_net(uint64_t comm_id, void** context);

  // The tuner of one communicator. comm_id: where NCCL passes it, so that what is connected for the
  // communicator can be known. interface: "tuner v5". Where our network has not been started, what
  // CollNet there may be is not ours, and only the tuning file counts.
  [[nodiscard]] Result<std::unique_ptr<Tuner>> make_tuner(const std::string& interface,
                                                          Log log,
                                                          CommunicatorShape shape,
                                                          std::optional<uint64_t> comm_id);

  // NCCL takes its settings from our env plugin.
  void note_env_plugin() { env_plugin_ = true; }

  // For NCCL versions without contexts: one for the process. They do not close it, so it stays.
  [[nodiscard]] Reply open_process_context(const Host& host, bool of_coll_net);
  [[nodiscard]] void* process_context(bool of_coll_net);

 private:
  Plugin() = default;
  void log_through(Log log);
  [[nodiscard]] Status make();
  // After make() has failed for that reason.
  [[nodiscard]] Status make_off(const Status& why);
  [[nodiscard]] Result<TunerBasis> make_basis();
  void say_what_is_used();
  // `horing status` finds this process as long as a context of the network is open.
  void show_status(void* context);
  void hide_status(void* context);
  // Which tuner NCCL takes here: "ours", "none" or "another (libother.so)".
  [[nodiscard]] const std::string& tuner_in_use();
  [[nodiscard]] std::string consistency();

  std::mutex mutex_;
  bool has_log_ = false;
  bool started_ = false;
  Status made_;
  bool off_ = false;       // the network only sends peers the reason
  std::string interface_;  // that NCCL took first
  std::once_flag opened_;  // the network: some have their devices only then
  TrafficClasses traffic_classes_;
  std::unique_ptr<NetDriver> net_;
  std::unique_ptr<CollNet> coll_net_;
  std::atomic<bool> env_plugin_{false};
  SearchTuner search_tuner_;
  std::once_flag tuner_searched_;
  std::string tuner_in_use_;
  std::mutex basis_mutex_;
  std::optional<Result<TunerBasis>> basis_;  // once the network was opened
  std::mutex seen_mutex_;
  std::multiset<void*> open_contexts_;
  std::unique_ptr<StatusService::Member> seen_;
  struct Shared {
    void* context = nullptr;
    bool open = false;
  };
  Shared shared_[2];  // of the network, of CollNet
};

}  // namespace ho::plugin
