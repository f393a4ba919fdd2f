// Rules 2 and 3 of verify(): pairing by sorting the ends of all links, order by Kahn's algorithm.
#include "plan/op_graph.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace ho {
namespace {

// One end of a message: sends and receives of a link sort in the same order.
struct LinkEnd {
  uint32_t from = 0;
  uint32_t to = 0;
  Lane lane = Lane::kIntra;
  uint32_t rail = 0;
  uint32_t connection = 0;
  OpId id = 0;

  [[nodiscard]] auto key() const { return std::tuple(from, to, lane, rail, connection); }
  friend bool operator<(const LinkEnd& a, const LinkEnd& b) {
    return std::tuple(a.key(), a.id) < std::tuple(b.key(), b.id);
  }
};

class Connector {
 public:
  explicit Connector(const WholePlan& whole) : whole_(whole) { graph_.whole = &whole; }

  Result<OpGraph> run() {
    number();
    HORING_TRY(pair());
    add_edges();
    HORING_TRY(order());
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::string text_at(OpId id) const {
    return op_text(whole_, graph_.rank[id], id - graph_.first[graph_.rank[id]]);
  }
  void number();
  [[nodiscard]] Status pair();
  void link_in_order(const std::vector<LinkEnd>& ends);
  void add_edges();
  void add_barriers(uint32_t rank);
  [[nodiscard]] Status order();
  [[nodiscard]] std::string name_cycle(const std::vector<uint32_t>& waits) const;
  void edge(uint32_t before, uint32_t after) { edges_.emplace_back(before, after); }
  // What waits for `earlier` to be done: for a send that its receive has run.
  void edge_done(OpId earlier, uint32_t after) {
    edge(earlier, after);
    if (graph_.op(earlier).kind == OpKind::kSend) {
      edge(graph_.partner[earlier], after);
    }
  }

  const WholePlan& whole_;
  OpGraph graph_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  // nodes: ops, then barriers
  uint32_t vertices_ = 0;
  uint32_t links_ = 0;
};

void Connector::number() {
  for (uint32_t rank = 0; rank < whole_.ranks.size(); ++rank) {
    graph_.first.push_back(static_cast<OpId>(graph_.rank.size()));
    graph_.rank.insert(graph_.rank.end(), whole_.ranks[rank].ops.size(), rank);
  }
  graph_.first.push_back(static_cast<OpId>(graph_.rank.size()));
  graph_.partner.assign(graph_.size(), kNoOp);
  graph_.link.assign(graph_.size(), 0);
  vertices_ = static_cast<uint32_t>(graph_.size());
}

void Connector::link_in_order(const std::vector<LinkEnd>& ends) {
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i > 0 && ends[i - 1].key() == ends[i].key()) {
      edge(ends[i - 1].id, ends[i].id);
    } else {
      ++links_;
    }
    graph_.link[ends[i].id] = links_;
  }
}

Status Connector::pair() {
  std::vector<LinkEnd> sends;
  std::vector<LinkEnd> recvs;
  for (OpId id = 0; id < graph_.size(); ++id) {
    const PlanOp& op = graph_.op(id);
    const uint32_t self = graph_.rank[id];
    if (op.kind == OpKind::kSend) {
      sends.push_back({self, op.peer.value(), op.lane, op.rail.value(), op.connection, id});
    } else if (op.kind != OpKind::kCopy) {
      recvs.push_back({op.peer.value(), self, op.lane, op.rail.value(), op.connection, id});
    }
  }
  std::sort(sends.begin(), sends.end());
  std::sort(recvs.begin(), recvs.end());
  const auto broken = [&](std::string message) {
    return broken_plan(whole_.plan, "pairing", std::move(message));
  };
  for (size_t i = 0; i < std::max(sends.size(), recvs.size()); ++i) {
    const bool send_alone =
        i >= recvs.size() || (i < sends.size() && sends[i].key() < recvs[i].key());
    if (send_alone) {
      return broken(text_at(sends[i].id) + " is never received");
    }
    if (i >= sends.size() || recvs[i].key() < sends[i].key()) {
      return broken(text_at(recvs[i].id) + " is never sent");
    }
    if (graph_.op(sends[i].id).chunks != graph_.op(recvs[i].id).chunks) {
      return broken(text_at(sends[i].id) + " meets " + text_at(recvs[i].id) +
                    ", which expects other chunks");
    }
    graph_.partner[sends[i].id] = recvs[i].id;
    graph_.partner[recvs[i].id] = sends[i].id;
    edge(sends[i].id, recvs[i].id);
  }
  link_in_order(sends);
  link_in_order(recvs);
  for (OpId id = 0; id < graph_.size(); ++id) {
    if (graph_.partner[id] == kNoOp) {
      graph_.link[id] = ++links_;
    }
  }
  return {};
}

void Connector::add_edges() {
  for (OpId id = 0; id < graph_.size(); ++id) {
    for (const uint32_t dep : graph_.op(id).deps) {
      edge_done(graph_.sibling(id, dep), id);
    }
  }
  for (uint32_t rank = 0; whole_.plan.phase_barrier && rank < whole_.ranks.size(); ++rank) {
    add_barriers(rank);
  }
}

// One node between each two phases that follow each other.
void Connector::add_barriers(uint32_t rank) {
  std::map<uint16_t, std::vector<OpId>> phases;
  for (OpId id = graph_.first[rank]; id < graph_.first[rank + 1]; ++id) {
    phases[graph_.op(id).phase].push_back(id);
  }
  bool started = false;
  for (const auto& [phase, ids] : phases) {
    for (const OpId id : ids) {
      if (started) {
        edge(vertices_ - 1, id);
      }
      edge_done(id, vertices_);
    }
    if (started) {
      edge(vertices_ - 1, vertices_);
    }
    started = true;
    ++vertices_;
  }
}

Status Connector::order() {
  std::ranges::sort(edges_);
  std::vector<size_t> begin(vertices_ + 1, edges_.size());
  std::vector<uint32_t> waits(vertices_, 0);
  for (size_t i = edges_.size(); i-- > 0;) {
    begin[edges_[i].first] = i;
    ++waits[edges_[i].second];
  }
  for (size_t vertex = vertices_; vertex-- > 0;) {
    begin[vertex] = std::min(begin[vertex], begin[vertex + 1]);
  }
  std::vector<uint32_t> ready;
  for (uint32_t vertex = vertices_; vertex-- > 0;) {
    if (waits[vertex] == 0) {
      ready.push_back(vertex);
    }
  }
  graph_.position.assign(graph_.size(), 0);
  while (!ready.empty()) {
    const uint32_t vertex = ready.back();
    ready.pop_back();
    if (vertex < graph_.size()) {
      graph_.position[vertex] = static_cast<uint32_t>(graph_.in_order.size());
      graph_.in_order.push_back(vertex);
    }
    for (size_t i = begin[vertex]; i < begin[vertex + 1]; ++i) {
      if (--waits[edges_[i].second] == 0) {
        ready.push_back(edges_[i].second);
      }
    }
  }
  if (graph_.in_order.size() != graph_.size()) {
    return broken_plan(whole_.plan, "cycle", name_cycle(waits));
  }
  return {};
}

// Every node that still waits has a predecessor that still waits: walking back from one of them
// must meet a node twice, and from there on the walk is a cycle.
std::string Connector::name_cycle(const std::vector<uint32_t>& waits) const {
  std::vector<uint32_t> before(vertices_, kNoOp);
  uint32_t vertex = 0;
  for (const auto& [from, to] : edges_) {
    if (waits[from] > 0 && waits[to] > 0) {
      before[to] = from;
      vertex = to;
    }
  }
  for (uint32_t i = 0; i < vertices_; ++i) {
    vertex = before[vertex];
  }
  std::string text;
  uint32_t named = 0;
  for (uint32_t at = vertex; named == 0 || at != vertex; at = before[at]) {
    if (at < graph_.size() && named < 6) {
      text += (text.empty() ? "" : ", which waits for ") + text_at(at);
    }
    ++named;
  }
  return text + (named > 6 ? ", and so on back to the first" : ", which waits for the first");
}

}  // namespace

Result<OpGraph> connect_ops(const WholePlan& whole) {
  return Connector(whole).run();
}

}  // namespace ho
