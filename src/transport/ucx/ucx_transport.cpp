#include "transport/ucx/ucx_transport.hpp"

#include <sodium.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/log.hpp"
#include "transport/ucx/envelope.hpp"
#include "transport/ucx/ucx_link.hpp"
#include "transport/ucx/worker.hpp"

namespace ho {
namespace ucx {
namespace {

// Far above what UCX needs for many devices.
constexpr size_t kMaxEndpointBytes = 65536;
constexpr int kMaxProgressCalls = 1024;

class WorkerTransport final : public UcxTransport {
 public:
  explicit WorkerTransport(const UcxOptions& options) : options_(options) {}
  WorkerTransport(const WorkerTransport&) = delete;
  WorkerTransport& operator=(const WorkerTransport&) = delete;
  ~WorkerTransport() override {
    // Peers flush what their links have sent; links give back what UCX lent them.
    peers_.clear();
    if (worker_ != nullptr) {
      // Operations on closed endpoints end in a later turn of the worker.
      for (int calls = 0; calls < kMaxProgressCalls; ++calls) {
        worker_->progress();
      }
      static_cast<void>(
          worker_->set_handler(kMessageId, nullptr, nullptr));  // no receiver any more
    }
    links_.clear();
  }

  [[nodiscard]] Status open() {
    if (options_.key == nullptr) {
      return invalid("ucx transport: no job key");
    }
    // An address that is surely not this host's: UCX cannot be kept to loopback.
    if (const Status allowed = options_.key->allows_address("192.0.2.1"); !allowed.ok()) {
      return {StatusCode::kUnauthenticated,
              "ucx transport: no job key is set and UCX cannot be limited to loopback; set "
              "HORING_JOB_KEY, or HORING_TRANSPORT=tcp"};
    }
    HORING_ASSIGN(std::shared_ptr<Context> context,
                  Context::create(UCP_FEATURE_AM | UCP_FEATURE_WAKEUP));
    HORING_ASSIGN(worker_, Worker::create(std::move(context)));
    HORING_TRY(worker_->set_handler(kMessageId, &WorkerTransport::on_message, this));
    randombytes_buf(nonce_.data(), nonce_.size());
    HORING_ASSIGN(const std::vector<std::byte> address, worker_->address());
    endpoint_.assign(nonce_.begin(), nonce_.end());
    endpoint_.insert(endpoint_.end(), address.begin(), address.end());
    return {};
  }

  [[nodiscard]] const std::vector<std::byte>& endpoint() const override { return endpoint_; }

  [[nodiscard]] Status set_peers(std::vector<std::vector<std::byte>> peers) override {
    for (size_t rank = 0; rank < peers.size(); ++rank) {
      if (peers[rank].size() <= kNonceBytes || peers[rank].size() > kMaxEndpointBytes) {
        return {StatusCode::kProtocol,
                "ucx endpoint of rank " + std::to_string(rank) + " has " +
                    std::to_string(peers[rank].size()) + " bytes"};
      }
    }
    blobs_ = std::move(peers);
    return {};
  }

  [[nodiscard]] Result<Link*> link(const LinkKey& key) override {
    HORING_TRY(check_key(key));
    UcxLink& link = link_for(key);
    const size_t rank = key.peer.at();
    auto& peer = peers_[key.peer];
    if (peer == nullptr) {
      peer = std::make_unique<Peer>(
          *worker_,
          std::vector<std::byte>(blobs_[rank].begin() + kNonceBytes, blobs_[rank].end()),
          options_.report_lost_peers);
      if (const Status status = peer->connect(); !status.ok()) {
        peers_.erase(key.peer);
        return status.with_context("rank " + std::to_string(rank) + ", ucx");
      }
    }
    link.connect(peer.get());
    std::erase(unrequested_, key);
    return static_cast<Link*>(&link);
  }

  [[nodiscard]] std::vector<LinkKey> unrequested_links() const override { return unrequested_; }

  [[nodiscard]] Status progress() override {
    for (int calls = 0; calls < kMaxProgressCalls && worker_->progress(); ++calls) {
    }
    return {};
  }

  [[nodiscard]] int wait_fd() const override { return worker_->event_fd(); }

  [[nodiscard]] bool prepare_wait(const WaitHint& /*hint*/) override {
    // Sends that were posted since progress() may have to be moved along first.
    return !worker_->progress() && worker_->arm();
  }
  void finish_wait() override {}

  // UCX reads and writes the memory of a posted request until the request ends.
  [[nodiscard]] bool forgets_abandoned() override { return false; }
  [[nodiscard]] uint64_t memory_bytes() const override {
    uint64_t total = sizeof(*this);
    for (const auto& [key, link] : links_) {
      total += link->memory_bytes();
    }
    return total;
  }

 private:
  [[nodiscard]] Status check_key(const LinkKey& key) const {
    if (key.peer == options_.self || key.peer.value() >= options_.world_size ||
        key.peer.at() >= blobs_.size() || key.rail.value() >= options_.rail_count ||
        key.communicator != options_.communicator || key.channel >= kLinkChannelCount) {
      return invalid("ucx link to rank " + std::to_string(key.peer.value()) + ", rail " +
                     std::to_string(key.rail.value()) + ", communicator " +
                     std::to_string(key.communicator) + ", channel " + std::to_string(key.channel) +
                     " does not exist in this transport");
    }
    return {};
  }

  [[nodiscard]] UcxLink& link_for(const LinkKey& key) {
    auto& link = links_[key];
    if (link == nullptr) {
      Nonce theirs{};
      std::copy_n(blobs_[key.peer.at()].begin(), kNonceBytes, theirs.begin());
      LinkIdentity identity;
      identity.key = key;
      identity.self = options_.self;
      identity.receive_token =
          token_for(*options_.key, key, {options_.job_id, options_.self, theirs, nonce_});
      LinkKey mine = key;
      mine.peer = options_.self;
      identity.send_token =
          token_for(*options_.key, mine, {options_.job_id, key.peer, nonce_, theirs});
      link = std::make_unique<UcxLink>(*worker_, identity);
    }
    return *link;
  }

  static ucs_status_t on_message(void* self,
                                 const void* header,
                                 size_t header_bytes,
                                 void* data,
                                 size_t data_bytes,
                                 const ucp_am_recv_param_t* param) {
    return static_cast<WorkerTransport*>(self)->receive(
        {static_cast<const std::byte*>(header), header_bytes},
        {static_cast<const std::byte*>(data), data_bytes},
        *param);
  }

  // Messages may arrive before this rank has asked for their link; they wait in it.
  ucs_status_t receive(ConstBytes header, ConstBytes data, const ucp_am_recv_param_t& param) {
    const Result<Envelope> envelope = decode_envelope(header);
    Status status = envelope.status();
    if (status.ok()) {
      status = check_key(envelope->key_of_peer());
    }
    if (status.ok()) {
      UcxLink& link = link_for(envelope->key_of_peer());
      if (link.accepts(envelope->token)) {
        note_unrequested(envelope->key_of_peer(), link);
        return link.deliver(*envelope, data, param);
      }
      status = Status(StatusCode::kUnauthenticated, "it does not prove the job key");
    }
    log_warn("dropped a ucx message: {}", status.message());
    return UCS_OK;
  }

  void note_unrequested(const LinkKey& key, const UcxLink& link) {
    if (!link.connected() && key.channel >= kMessageChannel &&
        std::ranges::find(unrequested_, key) == unrequested_.end()) {
      unrequested_.push_back(key);
    }
  }

  UcxOptions options_;
  std::unique_ptr<Worker> worker_;
  Nonce nonce_{};
  std::vector<std::byte> endpoint_;
  std::vector<std::vector<std::byte>> blobs_;  // peers' endpoints, by global rank
  std::map<LinkKey, std::unique_ptr<UcxLink>> links_;
  std::map<GlobalRank, std::unique_ptr<Peer>> peers_;
  std::vector<LinkKey> unrequested_;  // for messages, and used by the peer
};

}  // namespace
}  // namespace ucx

Result<std::unique_ptr<UcxTransport>> UcxTransport::create(const UcxOptions& options) {
  auto transport = std::make_unique<ucx::WorkerTransport>(options);
  HORING_TRY(transport->open());
  return std::unique_ptr<UcxTransport>(std::move(transport));
}

}  // namespace ho
