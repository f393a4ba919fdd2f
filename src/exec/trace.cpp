#include "exec/trace.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/log.hpp"
#include "os/fd.hpp"

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

Status write_all(int fd, const std::string& text, const std::string& path) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote < 0 && errno != EINTR) {
      return system_error("trace file " + path + ": write", errno);
    }
    at += wrote > 0 ? static_cast<size_t>(wrote) : 0;
  }
  return {};
}

}  // namespace

void TraceBuffer::add(const TraceSlice& slice) {
  if (slices_.size() < kMostSlices) {
    slices_.push_back(slice);
  } else {
    ++dropped_;
  }
}

Status TraceBuffer::append_to(const std::string& path, uint32_t rank, uint64_t job_id) const {
  std::string name = path;
  if (const size_t at = name.find("%r"); at != std::string::npos) {
    name.replace(at, 2, std::to_string(rank));
  }
  const Fd file(::open(name.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) {
    return system_error("trace file " + name, errno);
  }
  if (::flock(file.get(), LOCK_EX) != 0) {
    return system_error("trace file " + name + ": lock", errno);
  }
  const std::string header = header_line(job_id);
  std::string present(header.size(), '\0');
  const ssize_t got = ::pread(file.get(), present.data(), present.size(), 0);
  std::string text;
  if (got != static_cast<ssize_t>(header.size()) || present != header) {
    if (::ftruncate(file.get(), 0) != 0) {
      return system_error("trace file " + name + ": truncate", errno);
    }
    text = header;
  } else if (const off_t size = ::lseek(file.get(), 0, SEEK_END);
             ::ftruncate(file.get(), size - static_cast<off_t>(kEnd.size())) != 0) {
    return system_error("trace file " + name + ": truncate", errno);
  }
  text += track_names(rank);
  for (const TraceSlice& slice : slices_) {
    text += slice_line(slice, rank);
  }
  text += kEnd;
  if (dropped_ > 0) {
    logger().warn(
        "trace file {}: kept the first {} slices, dropped {}", name, slices_.size(), dropped_);
  }
  return write_all(file.get(), text, name);
}

}  // namespace ho
