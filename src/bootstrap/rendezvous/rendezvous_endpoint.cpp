#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"

#include "auth/printable.hpp"
#include "base/quantity.hpp"

namespace ho {
namespace {

constexpr std::string_view kFileMark = "horing rendezvous ";
constexpr std::string_view kFileHead = "horing rendezvous 2";
constexpr std::string_view kFileJob = "job ";
constexpr std::string_view kFileEnd = "end";
constexpr size_t kMaxJobTextBytes = 256;
constexpr size_t kMaxHostTextBytes = 255;
constexpr size_t kMaxAddresses = 64;

Status bad(std::string_view text, std::string_view why) {
  return invalid("\"" + printable(text, 300) + "\" " + std::string(why) +
                 "; a rendezvous is tcp://HOST:PORT or file:///PATH");
}

}  // namespace

std::string HostPort::to_string() const {
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return bad(text, "has no port");
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad(text, "has an IPv6 address without brackets");
  }
  if (host.empty() || host.size() > kMaxHostTextBytes ||
      host.find_first_of(" \t/[]") != std::string_view::npos || printable(host, 256) != host) {
    return bad(text, "has no valid host");
  }
  const auto port = whole_number<uint16_t>(digits);
  if (port.value_or(0) == 0) {
    return bad(text, "has no port between 1 and 65535");
  }
  return HostPort{.host = std::string(host), .port = *port};
}

Result<RendezvousEndpoint> parse_rendezvous_endpoint(std::string_view text) {
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kFile = "file://";
  if (text.starts_with(kTcp)) {
    HORING_ASSIGN(HostPort tcp, parse_host_port(text.substr(kTcp.size())));
    return RendezvousEndpoint{.tcp = std::move(tcp), .path = {}};
  }
  if (text.starts_with(kFile)) {
    const std::string_view path = text.substr(kFile.size());
    if (path.size() < 2 || path.front() != '/' || path.back() == '/' ||
        path.find('\0') != std::string_view::npos) {
      return bad(text, "does not name a file by an absolute path");
    }
    return RendezvousEndpoint{.tcp = {}, .path = std::string(path)};
  }
  return bad(text, "begins with neither tcp:// nor file://");
}

std::string rendezvous_file_text(const RendezvousFile& file) {
  std::string text(kFileHead);
  text += "\n" + std::string(kFileJob) + printable(file.job, kMaxJobTextBytes) + "\n";
  size_t count = 0;
  for (const HostPort& address : file.addresses) {
    if (count++ < kMaxAddresses) {
      text += address.to_string() + "\n";
    }
  }
  return text + std::string(kFileEnd) + "\n";
}

Result<RendezvousFile> parse_rendezvous_file(std::string_view contents) {
  RendezvousFile file;
  bool head_seen = false;
  bool job_seen = false;
  while (!contents.empty() && contents.size() <= kMaxRendezvousFileBytes) {
    const size_t newline = contents.find('\n');
    if (newline == std::string_view::npos) {
      break;
    }
    const std::string_view line = contents.substr(0, newline);
    contents.remove_prefix(newline + 1);
    if (!head_seen) {
      if (line != kFileHead) {
        break;
      }
      head_seen = true;
    } else if (!job_seen) {
      if (!line.starts_with(kFileJob)) {
        break;
      }
      job_seen = true;
      file.job = printable(line.substr(kFileJob.size()), kMaxJobTextBytes);
    } else if (line == kFileEnd) {
      return file;
    } else if (file.addresses.size() == kMaxAddresses) {
      break;
    } else {
      HORING_ASSIGN(HostPort address, parse_host_port(line));
      file.addresses.push_back(std::move(address));
    }
  }
  return Status(StatusCode::kProtocol,
                "the rendezvous file is incomplete, or was not written by HO-Ring");
}

bool may_replace_rendezvous_file(std::string_view contents) {
  return contents.empty() || contents.starts_with(kFileMark);
}

}  // namespace ho
