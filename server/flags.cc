// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/flags.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "kernels/devices.h"
#include "kernels/geometry.h"
#include "proto/shared/command_line.h"
#include "server/core/limits.h"
#include "server/core/references/range_allocator.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

constexpr int kUsageError = 2;
constexpr std::int64_t kSlotBytesUnit = 64 << 10;
constexpr std::int64_t kMaxSeconds = 30 * 24 * 3600;

// What is wrong with the host of an address, in the form of CLI11's validators. The system accepts more texts
// as addresses than clients do, which then could not connect to the address that the server prints.
std::string CheckHost(const std::string& host) {
  in_addr ipv4 = {};
  in6_addr ipv6 = {};
  if (absl::StartsWith(host, "[")) {
    const std::string inside = absl::EndsWith(host, "]") ? host.substr(1, host.size() - 2) : "";
    const std::string bare = inside.substr(0, inside.find('%'));  // without the interface
    return inet_pton(AF_INET6, bare.c_str(), &ipv6) == 1 ? "" : "no IPv6 address is in the brackets";
  }
  if (absl::StrContains(host, ':'))
    return "an IPv6 address stands in brackets, as in [::1]:50051; others are one host:port, without a "
           "scheme";
  const bool is_short = inet_aton(host.c_str(), &ipv4) != 0 && inet_pton(AF_INET, host.c_str(), &ipv4) != 1;
  return is_short ? "an IPv4 address has four decimal numbers, as in 127.0.0.1:50051" : "";
}

// Empty if `address` is "host:port" or "unix:/path", in the form of CLI11's validators.
std::string CheckAddress(const std::string& address) {
  // Addresses are in lines that others read: READY, and the log.
  if (std::any_of(address.begin(), address.end(), absl::ascii_iscntrl))
    return "must have no control characters";
  if (absl::StartsWith(address, "unix:/")) return "";
  if (absl::StartsWith(address, "unix:")) return "a Unix socket is named by its absolute path, as unix:/path";
  if (absl::StartsWith(address, "*:")) return "all addresses of the machine are 0.0.0.0 or [::], not *";
  const std::size_t colon = address.rfind(':');
  if (colon == 0) return "the host is missing; all addresses of the machine are 0.0.0.0 or [::]";
  int port = -1;
  if (colon != std::string::npos && address.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port <= 65535) {
    return CheckHost(address.substr(0, colon));
  }
  return "must be host:port with a port of 0 to 65535, or unix:/path";
}

std::string CheckAdminAddress(const std::string& address) {
  const std::string complaint = CheckAddress(address);
  // Pages are not served on a socket in the file system, so none is proposed either.
  const bool names_unix = absl::StartsWith(address, "unix:") || absl::StrContains(complaint, "unix:/path");
  return names_unix ? "must be host:port with a port of 0 to 65535" : complaint;
}

// Whether a socket that listens on one of them replaces the other's, as far as their texts show.
bool IsSameSocket(const std::string& a, const std::string& b) {
  const auto split = [](const std::string& address) {
    const std::size_t colon = address.rfind(':');
    const std::string host = absl::AsciiStrToLower(address.substr(0, colon));
    int port = 0;
    static_cast<void>(absl::SimpleAtoi(address.substr(colon + 1), &port));
    const bool is_loopback = host == "localhost" || host == "[::1]";
    return std::pair(is_loopback ? "127.0.0.1" : host, port);
  };
  const auto is_wildcard = [](const std::string& host) { return host == "0.0.0.0" || host == "[::]"; };
  const auto [a_host, a_port] = split(a);
  const auto [b_host, b_port] = split(b);
  return a_port == b_port && a_port != 0 && (a_host == b_host || is_wildcard(a_host) || is_wildcard(b_host));
}

constexpr absl::string_view kUnixPrefix = "unix:";
bool IsUnix(const std::string& address) { return absl::StartsWith(address, kUnixPrefix); }

// All texts of an absolute path have this form: without doubled slashes, "." and "..".
std::string Plain(const std::string& path) { return std::filesystem::path(path).lexically_normal().string(); }

// Two sockets on one address would be one too many; and nobody asks us before gRPC answers for channelz.
std::string CheckTogether(const Flags& flags) {
  if (flags.channelz && !flags.allow.empty())
    return "--channelz: excludes --allow, whose list it would not obey";
  if (!flags.tls_client_ca.empty() && flags.allow.empty())
    return "--tls_client_ca: needs --allow, a list of who may call what; a file with the one line \"* *\" "
           "allows everything to whoever has a certificate of the authority";
  if (flags.resident_owner_bytes > flags.resident_bytes)
    return "--resident_owner_bytes: is more than --resident_bytes";
  if (!flags.tls_cert.empty() && std::all_of(flags.listen.begin(), flags.listen.end(), IsUnix))
    return "--tls_cert: no address of --listen would use it";
  for (auto it = flags.listen.begin(); it != flags.listen.end(); ++it) {
    const bool is_one_socket = IsUnix(*it) || IsSameSocket(*it, *it);  // port 0 is another one each time
    if (is_one_socket && std::find(flags.listen.begin(), it, *it) != it)
      return absl::StrCat("--listen: names ", *it, " twice");
  }
  for (const std::string& address : flags.listen) {
    if (!flags.admin_listen.empty() && !IsUnix(address) && IsSameSocket(address, flags.admin_listen))
      return absl::StrCat("--admin_listen: must not be an address of --listen: ", address);
    // Otherwise the socket that is opened first would look like another server's.
    const bool is_memory_socket = IsUnix(address) && !flags.memory_socket.empty() &&
                                  Plain(address.substr(kUnixPrefix.size())) == Plain(flags.memory_socket);
    if (is_memory_socket)
      return absl::StrCat("--memory_socket: must not be an address of --listen: ", address);
  }
  return "";
}

// The value that a flag was given, or else its default.
std::string ValueOf(const CLI::Option& option) {
  const bool takes_value = option.get_items_expected_max() > 0;
  if (!takes_value) return option.count() > 0 ? "yes" : "no";  // it takes no value that could negate it
  if (option.count() > 0) return absl::StrJoin(option.results(), ",");
  std::string by_default = option.get_default_str();
  const bool is_list = absl::StartsWith(by_default, "[") || by_default == "{}";
  if (is_list) by_default = by_default.substr(1, by_default.size() - 2);
  return by_default.empty() ? "none" : by_default;
}

std::vector<std::pair<std::string, std::string>> AllOf(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option == app.get_version_ptr()) continue;
    all.emplace_back(option->get_name(), ValueOf(*option));
  }
  return all;
}

std::string CheckSlotBytes(const std::string& text) {
  std::int64_t bytes = 0;
  if (absl::SimpleAtoi(text, &bytes) && bytes >= kSlotBytesUnit && bytes <= std::int64_t{1} << 30 &&
      bytes % kSlotBytesUnit == 0) {
    return "";
  }
  return "must be a multiple of 65536, from 65536 to 1073741824";
}

std::string CheckDevice(const std::string& device) {
  if (device == "auto" || device == "cpu") return "";
  const absl::string_view view = device;
  std::uint64_t seed = 0;
  if (device == "simt" || (absl::StartsWith(view, "simt:") && absl::SimpleAtoi(view.substr(5), &seed)))
    return "";
  return std::string(kernels::ParseGpus(device).status().message());
}

std::string CheckSocketPath(const std::string& path) {
  constexpr std::size_t kMaxBytes = sizeof(sockaddr_un::sun_path) - 1;
  if (absl::StartsWith(path, "/") && path.size() <= kMaxBytes) return "";
  return absl::StrCat("must be an absolute path of at most ", kMaxBytes, " bytes");
}

// CLI11 would take the next word for an empty value, leave out an empty part of a list, and take
// "--flag=true".
void RefuseOddValues(const CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!absl::StartsWith(word, "--")) continue;
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == word.size() - 1) throw CLI::ValidationError(name, "has no value");
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) continue;
    const bool takes_value = option->get_items_expected_max() > 0;
    if (!takes_value && equals != std::string::npos) throw CLI::ValidationError(name, "takes no value");
    if (option->get_delimiter() != ',') continue;
    const std::string list = equals != std::string::npos ? word.substr(equals + 1)
                             : i + 1 < argc              ? argv[i + 1]
                                                         : "";
    const std::vector<std::string> parts = absl::StrSplit(list, ',');
    if (parts.size() > 1 && std::find(parts.begin(), parts.end(), "") != parts.end())
      throw CLI::ValidationError(name, absl::StrCat("'", list, "' has an empty part"));
  }
}

// Whether JSON is requested, in flags that CLI11 has not read.
bool AsksForJson(int argc, const char* const* argv) {
  bool asks = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (word == "--log_format" && i + 1 < argc) {
      asks = absl::string_view(argv[i + 1]) == "json";
    } else if (absl::ConsumePrefix(&word, "--log_format=")) {
      asks = word == "json";
    }
  }
  return asks;
}

void AddLimits(CLI::App& app, Flags* flags) {
  app.add_option(
         "--slots", flags->slots,
         "Number of staging buffers per device, distributed over the shards, the threads that serve calls")
      ->check(CLI::Range(1, 256))
      ->default_str("two for each shard");
  app.add_option("--slot_bytes", flags->slot_bytes,
                 "Size of each staging buffer, a multiple of 65536, from 65536 to 1073741824; with a GPU, "
                 "receive buffers take twice that in addition")
      ->check(CLI::Validator(CheckSlotBytes, "BYTES"))
      ->default_str("what suits the device");
  app.add_option("--cpu_threads", flags->cpu_threads,
                 "Threads of the CPU backend; 0 for one per processor that the process may use")
      ->check(CLI::Range(0, 1024));
  app.add_option("--max_concurrent_reductions", flags->max_concurrent_reductions,
                 "Maximum concurrent reductions, and separately merges; more are rejected")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max_connections", flags->max_connections,
                 "Maximum connections, of which one peer may have half; more are closed")
      ->check(CLI::Range(1, 1 << 20))
      ->default_str("what the limit on open files leaves room for, at most 512");
  app.add_option("--max_stream_bytes", flags->max_stream_bytes,
                 "Maximum size of an array that is sent on one stream, in bytes")
      ->check(CLI::Range(std::uint64_t{1}, kMaxStreamBytes));
  app.add_option("--max_stream_seconds", flags->max_stream_seconds,
                 "Maximum duration of a reduction, in seconds")
      ->check(CLI::Range(std::int64_t{1}, kMaxSeconds));
  app.add_option("--idle_timeout_seconds", flags->idle_timeout_seconds,
                 "Maximum wait for a client's next bytes, in seconds")
      ->check(CLI::Range(std::int64_t{1}, kMaxSeconds));
  app.add_option("--drain_seconds", flags->drain_seconds,
                 "Seconds that reductions in progress may take after SIGTERM")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{3600}));
}

void AddMemory(CLI::App& app, Flags* flags) {
  CLI::Option* resident = app.add_option("--resident_bytes", flags->resident_bytes,
                                         "Device memory for kept arrays (PutArray), in bytes, at least 1024 "
                                         "of each device; 0 disables them")
                              ->check(CLI::Range(std::uint64_t{0}, kMaxArrayBytes));
  app.add_option(
         "--resident_owner_bytes", flags->resident_owner_bytes,
         "Maximum of --resident_bytes for one owner, each of whose arrays takes a multiple of 512 bytes")
      ->check(CLI::Range(RangeAllocator::kAlignment, kMaxArrayBytes))
      ->default_str("all")
      ->needs(resident);
  CLI::Option* socket =
      app.add_option("--memory_socket", flags->memory_socket,
                     "Path of the socket on which processes of this machine register memory")
          ->check(CLI::Validator(CheckSocketPath, "PATH"));
  app.add_option("--memory_socket_users", flags->memory_socket_users,
                 "User IDs, besides the server's own, that may register memory; comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::uint32_t{0}, std::numeric_limits<std::uint32_t>::max()))
      ->needs(socket);
  app.add_option("--max_registered_bytes", flags->max_registered_bytes,
                 "Maximum registered memory in total, in bytes")
      ->check(CLI::Range(std::uint64_t{1}, kMaxArrayBytes))
      ->needs(socket);
}

void AddTls(CLI::App& app, Flags* flags) {
  CLI::Option* cert = app.add_option("--tls_cert", flags->tls_cert, "Certificate chain of the server (PEM)")
                          ->check(CLI::ExistingFile);
  CLI::Option* key = app.add_option("--tls_key", flags->tls_key, "Private key of --tls_cert (PEM)")
                         ->check(CLI::ExistingFile);
  app.add_option("--tls_client_ca", flags->tls_client_ca,
                 "Authority (PEM) that must have signed clients' certificates; needs --allow")
      ->check(CLI::ExistingFile)
      ->needs(cert);
  cert->needs(key);
  key->needs(cert);
  app.add_flag("--allow_insecure", flags->allow_insecure,
               "Serve plaintext also on addresses that other machines can reach");
  app.add_option("--allow", flags->allow,
                 "File of allowed methods per identity, one identity a line; all other calls are denied")
      ->check(CLI::ExistingFile);
}

// Returns the flag of the format.
const CLI::Option* AddLog(CLI::App& app, Flags* flags) {
  app.add_option_function<std::string>(
         "--log_level",
         [flags](const std::string& level) {
           flags->log_level = level == "debug"  ? LogLevel::kDebug
                              : level == "info" ? LogLevel::kInfo
                                                : LogLevel::kWarning;
         },
         "Lowest level logged: info has a line for each call, warning only what may need attention")
      ->check(CLI::IsMember({"debug", "info", "warning"}))
      ->default_str("info")
      ->option_text("debug|info|warning [info]");
  return app
      .add_option_function<std::string>(
          "--log_format",
          [flags](const std::string& format) {
            flags->log_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
          },
          "Format of the log on standard error")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text")
      ->option_text("text|json [text]");
}

}  // namespace

std::optional<int> ParseFlags(int argc, const char* const* argv, Flags* flags, std::ostream& out,
                              std::ostream& error) {
  CLI::App app("Reduces arrays that clients stream to it over gRPC.", "warpfold-server");
  app.set_version_flag("--version", kVersion);
  // One line: it may end up in a log.
  app.failure_message([](const CLI::App*, const CLI::Error& e) {
    std::string line = InPlainerWords(e.what());
    std::replace_if(line.begin(), line.end(), absl::ascii_iscntrl, ' ');
    return line + "\n";
  });
  app.option_defaults()->always_capture_default();
  app.add_option("--listen", flags->listen,
                 "Addresses to serve, comma-separated: host:port (port 0: a free one), unix:/path")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Validator(CheckAddress, "ADDRESS"));
  app.add_option("--device", flags->device,
                 "Device: auto (a GPU if there is one), cpu, cuda:N, several GPUs as cuda:0,cuda:1 or "
                 "cuda:all, or simt:SEED, a slow executor of kernels on the CPU")
      ->check(CLI::Validator(CheckDevice, "DEVICE"));
  AddLimits(app, flags);
  AddMemory(app, flags);
  AddTls(app, flags);
  app.add_option(
         "--admin_listen", flags->admin_listen,
         "HTTP address (host:port) for /metrics, /healthz, /readyz and /statusz; keep clients away from it")
      ->check(CLI::Validator(CheckAdminAddress, "ADDRESS"));
  app.add_flag("--reflection", flags->reflection, "Enable gRPC server reflection, for tools such as grpcurl");
  app.add_flag("--channelz", flags->channelz,
               "Enable gRPC channelz, which shows clients all connections and calls");
  const CLI::Option* const log_format = AddLog(app, flags);
  ReadNumbersAsDecimal<CLI::App, CLI::Validator>(app);
  try {
    RefuseOddValues(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // If JSON was requested, this line is JSON as well, even though it may come before the flag has been
    // parsed.
    const bool is_json =
        log_format->count() > 0 ? log_format->results().back() == "json" : AsksForJson(argc, argv);
    flags->log_format = is_json ? LogFormat::kJson : LogFormat::kText;
    const bool is_answer = app.exit(e, out, error) == 0;  // --help, --version
    if (is_answer && !out.flush()) error << "cannot write to standard output" << std::endl;
    return is_answer && out ? 0 : kUsageError;
  }
  if (const std::string complaint = CheckTogether(*flags); !complaint.empty()) {
    error << complaint << std::endl;
    return kUsageError;
  }
  flags->all = AllOf(app);
  return std::nullopt;
}

}  // namespace warpfold::server
