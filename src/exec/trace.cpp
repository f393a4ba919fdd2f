#include "exec/trace.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "os/fd.hpp"
#include "os/written_file.hpp"

namespace ho {
namespace {

constexpr std::string_view kEnd = "\n]\n";

std::string header_line(uint64_t job_id) {
  return fmt::format(
      "[{{\"name\":\"job\",\"ph\":\"M\",\"pid\":0,\"args\":{{\"job\":\"{:016x}\"}}}}", job_id);
}

std::string track_names(uint32_t rank) {
  std::string text = fmt::format(
      ",\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"name\":\"rank "
      "{0}\"}}}}",
      rank);
  constexpr std::array<const char*, 4> kTracks{
      "intra send", "intra recv", "inter send", "inter recv"};
  for (size_t track = 0; track < kTracks.size(); ++track) {
    text += fmt::format(
        ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":"
        "\"{}\"}}}}",
        rank,
        track,
        kTracks.at(track));
  }
  return text;
}

std::string slice_line(const TraceSlice& slice, uint32_t rank) {
  const int track = (slice.lane == Lane::kInter ? 2 : 0) + (slice.kind == OpKind::kSend ? 0 : 1);
  return fmt::format(
      ",\n{{\"name\":\"{} #{} {} step {} piece "
      "{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},"
      "\"dur\":{:.3f},\"args\":{{\"bytes\":{},\"peer\":{},\"chunk\":{},\"phase\":{},\"rail\":{}}}}"
      "}",
      to_string(slice.collective),
      slice.sequence,
      to_string(slice.kind),
      slice.step,
      slice.piece,
      rank,
      track,
      static_cast<double>(slice.begin_ns) / 1e3,
      static_cast<double>(slice.end_ns - slice.begin_ns) / 1e3,
      slice.bytes,
      slice.peer,
      slice.chunk,
      slice.phase,
      slice.rail);
}

std::string mark_line(size_t rail, const RailUse& use, int64_t at_ns, uint32_t rank) {
  const std::optional<double> own = use.own_share();
  return fmt::format(
      ",\n{{\"name\":\"rail {}: {} failovers{}\",\"ph\":\"i\",\"s\":\"p\",\"pid\":{},\"tid\":2,"
      "\"ts\":{:.3f}}}",
      rail,
      use.failovers,
      own ? fmt::format(", {} of {} links lost, carries {:.0f} %",
                        use.lost,
                        use.links + use.lost,
                        100 * *own)
          : "",
      rank,
      static_cast<double>(at_ns) / 1e3);
}

// How much of `tail`, the last bytes of a file of ours, is whole events. A writer that was killed
// leaves an event cut anywhere, or one that is whole but without the array's end. Every event is a
// line of its own, and no name in one holds a brace.
std::optional<size_t> whole_events(std::string_view tail) {
  if (tail.ends_with(kEnd)) {
    return tail.size() - kEnd.size();
  }
  while (!tail.empty()) {
    const size_t newline = tail.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    int depth = 0;
    for (size_t at = line; at < tail.size(); ++at) {
      depth += tail[at] == '{' ? 1 : 0;
      depth -= tail[at] == '}' ? 1 : 0;
      if (tail[at] == '}' && depth == 0) {
        return at + 1;
      }
    }
    tail = tail.substr(0, line == 0 ? 0 : newline);
  }
  return std::nullopt;
}

// Cuts the file to its whole events, so that more can follow. false: it holds none that are ours.
Result<bool> cut_to_whole_events(int fd, const std::string& path) {
  constexpr off_t kTailBytes = 4096;  // many times the longest event
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(size - kTailBytes, 0);
  std::string tail(static_cast<size_t>(std::max<off_t>(size - from, 0)), '\0');
  if (::pread(fd, tail.data(), tail.size(), from) != static_cast<ssize_t>(tail.size())) {
    return system_error("trace file " + path + ": read", errno);
  }
  const std::optional<size_t> whole = whole_events(tail);
  if (whole && ::ftruncate(fd, from + static_cast<off_t>(*whole)) != 0) {
    return system_error("trace file " + path + ": truncate", errno);
  }
  return whole.has_value();
}

std::string file_name(const std::string& path, uint32_t rank) {
  std::string name = path;
  if (const size_t at = name.find("%r"); at != std::string::npos) {
    name.replace(at, 2, std::to_string(rank));
  }
  return name;
}

bool starts_with(int fd, const std::string& header) {
  std::string present(header.size(), '\0');
  const ssize_t got = ::pread(fd, present.data(), present.size(), 0);
  return got == static_cast<ssize_t>(header.size()) && present == header;
}

}  // namespace

Status check_trace_file(const std::string& path, uint32_t rank) {
  const Status opened = open_log_file(file_name(path, rank)).status();
  return opened.ok() ? Status()
                     : invalid("trace file " + opened.message() +
                               "; give a file in a directory that you may write");
}

void TraceBuffer::add(const TraceSlice& slice) {
  if (slices_.size() < kMaxSlices) {
    slices_.push_back(slice);
  } else {
    ++dropped_;
  }
}

void TraceBuffer::note_rails(std::span<const RailUse> rails, int64_t now_ns) {
  rails_.resize(std::max(rails_.size(), rails.size()));
  for (size_t rail = 0; rail < rails.size(); ++rail) {
    const RailUse& use = rails[rail];
    const RailUse before = std::exchange(rails_[rail], use);
    if (use.failovers == before.failovers && use.lost == before.lost) {
      continue;
    }
    if (marks_.size() < kMaxSlices) {
      marks_.push_back({now_ns, rail, use});
    } else {
      ++dropped_;
    }
  }
}

Status TraceBuffer::append_to(const std::string& path, uint32_t rank, uint64_t job_id) const {
  const std::string name = file_name(path, rank);
  auto opened = open_log_file(name);
  if (!opened.ok()) {
    return opened.status().with_context("trace file");
  }
  const Fd file = *std::move(opened);
  if (::flock(file.get(), LOCK_EX) != 0) {
    return system_error("trace file " + name + ": lock", errno);
  }
  const std::string header = header_line(job_id);
  bool continues = starts_with(file.get(), header);
  if (continues) {
    HORING_ASSIGN(continues, cut_to_whole_events(file.get(), name));
  }
  std::string text;
  if (!continues) {
    if (::ftruncate(file.get(), 0) != 0) {
      return system_error("trace file " + name + ": truncate", errno);
    }
    text = header;
  }
  text += track_names(rank);
  for (const TraceSlice& slice : slices_) {
    text += slice_line(slice, rank);
  }
  for (const RailMark& mark : marks_) {
    text += mark_line(mark.rail, mark.use, mark.at_ns, rank);
  }
  text += kEnd;
  if (dropped_ > 0) {
    log_warn("trace file {}: kept the first {} slices, dropped {}", name, slices_.size(), dropped_);
  }
  return write_text(file.get(), text, name);
}

}  // namespace ho
