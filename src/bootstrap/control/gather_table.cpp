// Calls belong together when tag and members are equal. Split communicators gather at the same time
// from several threads, so another tag is not wrong by itself: another thread of that rank may be
// about to bring the right one. Only at the deadline is it said that a missing rank sits in another
// call, and then it is named with that call's tag.
//
// A rank that is missing because it waits in another gather is a victim. At the deadline its wait
// is followed: to ranks that have given nothing to any gather that is open, which all others wait
// for, or round a circle, which no waiting ends and which is therefore a mismatch.
#include "bootstrap/control/gather_table.hpp"

#include <algorithm>
#include <numeric>

#include "bootstrap/messages/rank_names.hpp"

namespace ho {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;
// Of a gather, beside its blobs: a number and an empty place.
constexpr size_t kBytesPerMember = 40;

std::vector<std::shared_ptr<const wire::Buffer>> pack(
    std::vector<std::optional<wire::Buffer>>& blobs) {
  std::vector<std::shared_ptr<const wire::Buffer>> parts;
  wire::GatheredPart part;
  size_t part_bytes = 0;
  const auto close = [&] {
    parts.push_back(std::make_shared<const wire::Buffer>(wire::encode(part)));
  };
  for (size_t i = 0; i < blobs.size(); ++i) {
    const size_t blob_bytes = blobs[i]->size() + 4;
    if (!part.blobs.empty() && part_bytes + blob_bytes > kPartBytes) {
      close();
      part = wire::GatheredPart{.first = static_cast<uint32_t>(i), .blobs = {}};
      part_bytes = 0;
    }
    part.blobs.push_back(std::move(*blobs[i]));
    part_bytes += blob_bytes;
  }
  close();
  return parts;
}

}  // namespace

GatherTable::GatherTable(uint32_t world_size)
    : world_size_(world_size), ended_(world_size), last_(world_size) {}

Status GatherTable::check(const wire::Contribution& contribution, uint32_t rank) const {
  std::vector<bool> seen(world_size_, false);
  for (const uint32_t member : contribution.members) {
    if (member >= world_size_ || seen[member]) {
      return invalid("all_gather \"" + contribution.tag + "\": member list has rank " +
                     std::to_string(member) +
                     (member >= world_size_ ? " beyond the world" : " twice"));
    }
    seen[member] = true;
  }
  if (!seen[rank]) {
    return invalid("all_gather \"" + contribution.tag + "\": rank " + std::to_string(rank) +
                   " is not among the members it names");
  }
  for (const uint32_t member : contribution.members) {
    if (ended_[member].has_value()) {
      return ended_[member]->with_context("all_gather \"" + contribution.tag + "\"");
    }
  }
  return {};
}

// What a peer may send is checked, but it may send much of it: one that keeps the key must not make
// rank 0 hold all of its memory.
Status GatherTable::check_held(const wire::Contribution& contribution, uint32_t rank) const {
  size_t held = contribution.blob.size() + contribution.members.size() * kBytesPerMember;
  size_t gathers = 0;
  for (const Gather& gather : gathers_) {
    for (size_t i = 0; i < gather.waiters.size(); ++i) {
      if (gather.waiters[i].rank != rank) {
        continue;
      }
      ++gathers;
      const auto member = std::ranges::find(gather.members, rank);
      held += gather.blobs[static_cast<size_t>(member - gather.members.begin())]->size() +
              (i == 0 ? gather.members.size() * kBytesPerMember : 0);
    }
  }
  if (gathers == 0 || held <= kMaxHeldBytes) {
    return {};
  }
  return invalid("all_gather \"" + contribution.tag + "\": rank " + std::to_string(rank) +
                 " waits in " + std::to_string(gathers) + " others, and rank 0 would hold " +
                 std::to_string(held) + " bytes of it, more than " +
                 std::to_string(kMaxHeldBytes >> 20U) + " MiB; make fewer communicators at a time");
}

GatherTable::Entry GatherTable::find(const wire::Contribution& contribution, uint32_t rank) {
  return std::ranges::find_if(gathers_, [&](const Gather& gather) {
    return gather.tag == contribution.tag && gather.members == contribution.members &&
           std::ranges::none_of(gather.waiters,
                                [&](const Waiter& waiter) { return waiter.rank == rank; });
  });
}

std::optional<GatherTable::Outcome> GatherTable::add(Waiter waiter,
                                                     wire::Contribution contribution,
                                                     Deadline now) {
  if (contribution.members.empty()) {
    contribution.members.resize(world_size_);
    std::iota(contribution.members.begin(), contribution.members.end(), 0U);
  }
  if (Status status = check(contribution, waiter.rank); !status.ok()) {
    return Outcome{{waiter}, std::move(status), {}};
  }
  if (Status status = check_held(contribution, waiter.rank); !status.ok()) {
    return Outcome{{waiter}, std::move(status), {}};
  }
  if (auto why = failed_before(contribution, waiter.rank, now)) {
    return Outcome{{waiter}, std::move(*why), {}};
  }
  Entry entry = find(contribution, waiter.rank);
  if (entry == gathers_.end()) {
    Gather gather;
    gather.tag = contribution.tag;
    gather.members = contribution.members;
    gather.blobs.resize(gather.members.size());
    gather.since = now;
    gather.deadline = Deadline::max();
    entry = gathers_.insert(gathers_.end(), std::move(gather));
  }
  const auto member = std::ranges::find(entry->members, waiter.rank) - entry->members.begin();
  entry->blobs[static_cast<size_t>(member)] = std::move(contribution.blob);
  entry->waiters.push_back(waiter);
  last_[waiter.rank] = {.tag = entry->tag, .at = now};
  const Deadline deadline = now + std::chrono::milliseconds(contribution.timeout_ms);
  if (deadline < entry->deadline) {
    entry->deadline = deadline;
    entry->timeout_ms = contribution.timeout_ms;
  }
  if (entry->waiters.size() < entry->members.size()) {
    return std::nullopt;
  }
  Outcome outcome{std::move(entry->waiters), {}, pack(entry->blobs)};
  gathers_.erase(entry);
  return outcome;
}

GatherTable::Waits GatherTable::all_waits() const {
  Waits waits;
  for (const Gather& gather : gathers_) {
    for (const Waiter& waiter : gather.waiters) {
      waits[waiter.rank].push_back(&gather);
    }
  }
  return waits;
}

void GatherTable::follow(const Gather& gather,
                         const Waits& waits,
                         Visits& visits,
                         Roots& roots) const {
  const auto [entry, is_new] = visits.emplace(&gather, Visit::kOpen);
  if (!is_new) {
    roots.circle = roots.circle || entry->second == Visit::kOpen;
    return;
  }
  for (size_t i = 0; i < gather.members.size(); ++i) {
    if (!gather.blobs[i].has_value()) {
      follow_rank(gather.members[i], gather.since, waits, visits, roots);
    }
  }
  visits[&gather] = Visit::kDone;
}

void GatherTable::follow_rank(
    uint32_t rank, Deadline since, const Waits& waits, Visits& visits, Roots& roots) const {
  if (const auto entry = waits.find(rank); entry != waits.end()) {
    for (const Gather* other : entry->second) {
      follow(*other, waits, visits, roots);
    }
    return;
  }
  // It may wait in nothing because its last gather has failed meanwhile, as this one does now. One
  // that failed before it was waited for here is its own affair.
  bool is_victim = false;
  const Last& last = last_[rank];
  if (const auto& failed_for = last.failed_for; failed_for && last.failed_at >= since) {
    for (const uint32_t root : *failed_for) {
      if (!waits.contains(root)) {
        is_victim = true;
        roots.ranks.insert(root);
      }
    }
  }
  if (!is_victim) {
    roots.ranks.insert(rank);
  }
}

// "rank 1 has not answered since all_gather "rank info", 1480 ms ago; ..."
std::string GatherTable::silence_of(const std::set<uint32_t>& ranks, Deadline now) const {
  const auto longest = std::ranges::min_element(
      ranks, [this](uint32_t a, uint32_t b) { return last_[a].at < last_[b].at; });
  const Last& last = last_[*longest];
  const bool single = ranks.size() == 1;
  std::string text = rank_list(std::vector<uint32_t>(ranks.begin(), ranks.end()));
  text += single ? " has not answered since " : " have not answered; the longest, rank ";
  text += single ? "" : std::to_string(*longest) + ", since ";
  if (last.tag.empty()) {
    text += "the ranks found each other";
  } else {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - last.at).count();
    text += "all_gather \"" + last.tag + "\", " + std::to_string(ms) + " ms ago";
  }
  return text + (single ? ": it is stopped, still computing, or in another call"
                        : ": they are stopped, still computing, or in another call");
}

Status GatherTable::missing_error(const Gather& gather,
                                  const Waits& waits,
                                  const Roots& roots,
                                  Deadline now) const {
  std::vector<uint32_t> missing;
  std::string elsewhere;
  for (size_t i = 0; i < gather.members.size(); ++i) {
    if (gather.blobs[i].has_value()) {
      continue;
    }
    const uint32_t rank = gather.members[i];
    missing.push_back(rank);
    const auto entry = waits.find(rank);
    if (entry != waits.end() && elsewhere.size() < 512) {
      const Gather& other = *entry->second.front();
      elsewhere += "; rank " + std::to_string(rank) + " is in all_gather \"" + other.tag + "\"" +
                   (other.members == gather.members ? "" : " with other members");
    }
  }
  std::ranges::sort(missing);
  const bool stalled = !roots.circle && !roots.ranks.empty();
  return {stalled ? StatusCode::kTimeout : StatusCode::kMismatch,
          "all_gather \"" + gather.tag + "\": " + std::to_string(gather.waiters.size()) + " of " +
              std::to_string(gather.members.size()) + " ranks came within " +
              std::to_string(gather.timeout_ms) + " ms; " +
              (stalled ? silence_of(roots.ranks, now) + "; " : "") +
              "missing: " + rank_list(missing) + elsewhere};
}

GatherTable::Outcome GatherTable::fail(Entry entry, Status why) {
  Outcome outcome{std::move(entry->waiters), std::move(why), {}};
  gathers_.erase(entry);
  return outcome;
}

// Of those who are late, the first call with this tag is the one that the others have failed in.
void GatherTable::remember(const Gather& gather, const Status& why, Deadline now) {
  Failed failed{.tag = gather.tag, .members = gather.members, .to_come = {}, .why = why, .at = now};
  for (size_t i = 0; i < gather.members.size(); ++i) {
    if (!gather.blobs[i].has_value()) {
      failed.to_come.insert(gather.members[i]);
    }
  }
  failed_.push_back(std::move(failed));
  if (failed_.size() > kMaxFailed) {
    failed_.pop_front();
  }
}

std::optional<Status> GatherTable::failed_before(const wire::Contribution& contribution,
                                                 uint32_t rank,
                                                 Deadline now) {
  const auto entry = std::ranges::find_if(failed_, [&](const Failed& failed) {
    return failed.to_come.contains(rank) && failed.tag == contribution.tag &&
           failed.members == contribution.members;
  });
  if (entry == failed_.end()) {
    return std::nullopt;
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - entry->at).count();
  Status why(entry->why.code(),
             entry->why.message() + "; rank " + std::to_string(rank) + " came " +
                 std::to_string(ms) + " ms after that");
  last_[rank] = {.tag = entry->tag, .at = now};
  entry->to_come.erase(rank);
  if (entry->to_come.empty()) {
    failed_.erase(entry);
  }
  return why;
}

std::vector<GatherTable::Outcome> GatherTable::expire(Deadline now) {
  if (next_deadline() > now) {
    return {};
  }
  // All texts first: each may name a rank that waits in another gather that expires now.
  const Waits waits = all_waits();
  std::vector<std::pair<Entry, Status>> expired;
  for (Entry entry = gathers_.begin(); entry != gathers_.end(); ++entry) {
    if (entry->deadline > now) {
      continue;
    }
    Visits visits;
    Roots roots;
    follow(*entry, waits, visits, roots);
    expired.emplace_back(entry, missing_error(*entry, waits, roots, now));
    if (!roots.circle) {
      const auto failed_for = std::make_shared<const std::set<uint32_t>>(std::move(roots.ranks));
      for (const Waiter& waiter : entry->waiters) {
        last_[waiter.rank].failed_for = failed_for;
        last_[waiter.rank].failed_at = now;
      }
    }
  }
  std::vector<Outcome> outcomes;
  outcomes.reserve(expired.size());
  for (auto& [entry, why] : expired) {
    remember(*entry, why, now);
    outcomes.push_back(fail(entry, std::move(why)));
  }
  return outcomes;
}

std::vector<GatherTable::Outcome> GatherTable::rank_ended(uint32_t rank, const Status& why) {
  ended_[rank] = why;
  std::erase_if(failed_, [rank](Failed& failed) {
    failed.to_come.erase(rank);
    return failed.to_come.empty();
  });
  std::vector<Outcome> outcomes;
  for (Entry entry = gathers_.begin(); entry != gathers_.end();) {
    const Entry current = entry++;
    if (std::ranges::find(current->members, rank) != current->members.end()) {
      outcomes.push_back(fail(current, why.with_context("all_gather \"" + current->tag + "\"")));
    }
  }
  return outcomes;
}

Deadline GatherTable::next_deadline() const {
  Deadline next = Deadline::max();
  for (const Gather& gather : gathers_) {
    next = std::min(next, gather.deadline);
  }
  return next;
}

}  // namespace ho
