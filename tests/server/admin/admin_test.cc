// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pages of --admin_listen while shards, the device and clients are as they should not be.
#include "server/admin/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/rpc_fixture.h"

namespace warpfold::server {
namespace {

using testing::HasSubstr;
using testing::Not;

int Connect(const std::string& address) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(made, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return made;
}

// Everything that comes until the server closes the connection.
std::string Exchange(const std::string& address, const std::string& request) {
  const int connection = Connect(address);
  EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t size = 0; (size = read(connection, buffer, sizeof(buffer))) > 0;) answer.append(buffer, size);
  close(connection);
  return answer;
}

std::string Get(const std::string& address, const std::string& path, const std::string& host = "localhost") {
  return Exchange(address,
                  absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", host, "\r\nConnection: close\r\n\r\n"));
}

// Names and labels of all samples on a page.
std::set<std::string> SeriesOf(const std::string& page) {
  std::set<std::string> series;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "warpfold_")) series.emplace(line.substr(0, line.rfind(' ')));
  }
  return series;
}

// A server that reports every call to the Admin, and whose shard's thread waits at the end of a call for as
// long as the test wants.
class AdminTest : public RpcTest, public CallObserver {
 protected:
  AdminTest() {
    absl::StatusOr<std::unique_ptr<Admin>> admin = Admin::Open("127.0.0.1:0");
    EXPECT_TRUE(admin.ok()) << admin.status();
    admin_ = *std::move(admin);
    service_.observer = this;
  }
  ~AdminTest() override {
    server_.reset();
    admin_.reset();
  }

  void Attach() {
    const auto attached = admin_->Attach(
        {.service = &service_,
         .memory_budget_bytes = 123,
         .pool =
             [this] {
               const SlotCounts counts = server_->published_slots();
               return PoolGauges{counts.free, counts.in_flight, counts.waiting};
             },
         .registrations =
             [] {
               return RegistrationGauges{.registrations = 2,
                                         .bytes = 77,
                                         .max_bytes = 88,
                                         .rejections = {1, 2, 3, 4, 5, 6, 7, 8, 9}};
             },
         .connections = [this] { return server_->connections(); },
         .log_lines_dropped = [] { return 5; },
         .grpc_errors = [] { return 6; },
         .reloads =
             [] {
               return std::vector<Reload>{{.file = "keys",
                                           .is_successful = true,
                                           .used_since = absl::FromUnixSeconds(1'900'000'000)},
                                          {.file = "allow",
                                           .is_successful = false,
                                           .used_since = absl::FromUnixSeconds(1'900'000'001)}};
             },
         .certificate_expiry = [] { return std::optional(absl::FromUnixSeconds(2'000'000'000)); },
         .authorities_expiry = [] { return std::optional(absl::FromUnixSeconds(3'000'000'000)); },
         .addresses = server_->addresses(),
         .flags = {{"--device", "<fake>"}}});
    ASSERT_TRUE(attached.ok()) << attached;
  }

  std::string Page(const std::string& path) { return Get(admin_->address(), path); }

  // What the device reports is requested in the background.
  void AwaitDeviceSample() {
    Await([&] { return absl::StrContains(Page("/metrics"), "warpfold_device_memory_used_bytes"); });
  }

  void OnBegin(const std::shared_ptr<const LiveCall>& call) override { admin_->OnBegin(call); }
  void OnEnd(const std::shared_ptr<const LiveCall>& call, const CallRecord& record) override {
    admin_->OnEnd(call, record);
    ++ended_;
    while (shard_stays_busy_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::unique_ptr<Admin> admin_;
  std::atomic<int> ended_ = 0;
  std::atomic<bool> shard_stays_busy_ = false;
};

TEST_F(AdminTest, ProbesSayWhetherTheServiceTakesCalls) {
  EXPECT_THAT(Page("/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Page("/readyz"), HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(Page("/statusz"), HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(Page("/metrics"), AllOf(HasSubstr("200 OK"), HasSubstr("\nwarpfold_ready 0\n"),
                                      HasSubstr("\nprocess_start_time_seconds ")))
      << "a server that starts is up";
  Attach();
  EXPECT_THAT(Page("/readyz?verbose"), HasSubstr("200 OK"));
  server_->Drain(absl::ZeroDuration());
  EXPECT_THAT(Page("/readyz"), HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(Page("/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Page("/metrics"), HasSubstr("\nwarpfold_ready 0\n"));
}

TEST_F(AdminTest, AFailedDeviceIsNeitherHealthyNorReady) {
  Attach();
  backend_.faulty = true;
  Await([&] { return server_->faulted(); });
  EXPECT_THAT(Page("/healthz"), HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(Page("/readyz"), HasSubstr("503 Service Unavailable"));
}

TEST_F(AdminTest, NoPageWaitsForAShardThatIsBusy) {
  Attach();
  shard_stays_busy_ = true;
  EXPECT_TRUE(Reduce(GoodRequests()).ok());
  Await([&] { return ended_ == 1; });
  EXPECT_THAT(Page("/readyz"), HasSubstr("200 OK"));
  EXPECT_THAT(Page("/metrics"), HasSubstr("\nwarpfold_calls_total{method=\"Reduce\",code=\"OK\"} 1\n"));
  EXPECT_THAT(Page("/statusz"), HasSubstr("</html>"));
  shard_stays_busy_ = false;
}

TEST_F(AdminTest, NoPageWaitsForADeviceOrItsDriver) {
  backend_.telemetry_hangs = true;
  Attach();
  backend_.behaviour.SetBlocked(true);
  auto call = std::async([&] { return Reduce(GoodRequests()); });
  Await([&] { return backend_.behaviour.working() > 0; });
  Await([&] { return !absl::StrContains(Page("/metrics"), "\nwarpfold_slots_in_flight 0\n"); });
  EXPECT_THAT(Page("/readyz"), HasSubstr("200 OK"));
  EXPECT_THAT(Page("/metrics"), HasSubstr("\nwarpfold_calls_in_progress{method=\"Reduce\"} 1\n"));
  EXPECT_THAT(Page("/metrics"), Not(HasSubstr("warpfold_device_")));
  EXPECT_THAT(Page("/statusz"), HasSubstr("<td>Reduce</td>"));
  backend_.behaviour.SetBlocked(false);
  backend_.telemetry_hangs = false;
  EXPECT_TRUE(call.get().ok());
  Await([&] {
    return absl::StrContains(Page("/metrics"),
                             "\nwarpfold_device_temperature_celsius{device=\"fake:0\"} 41\n");
  });
}

TEST_F(AdminTest, MetricsCountWhatHappened) {
  Attach();
  EXPECT_TRUE(Reduce(GoodRequests()).ok());
  std::vector<v1::ReduceRequest> truncated = GoodRequests();
  truncated.pop_back();
  EXPECT_EQ(Reason(Reduce(truncated)), "NO_COMMIT");
  Await([&] { return ended_ == 2; });
  AwaitDeviceSample();
  const std::string page = Page("/metrics");
  for (const char* sample : {
           "warpfold_build_info{version=\"0.1.0\",backend=\"fake\",device=\"fake:0\"} 1",
           "warpfold_calls_total{method=\"Reduce\",code=\"OK\"} 1",
           "warpfold_calls_total{method=\"Reduce\",code=\"DATA_LOSS\"} 1",
           "warpfold_calls_total{method=\"Reduce\",code=\"INTERNAL\"} 0",
           "warpfold_results_total{operator=\"sum\",code=\"OK\"} 1",
           "warpfold_results_total{operator=\"sum\",code=\"DATA_LOSS\"} 1",
           "warpfold_rejections_total{reason=\"NO_COMMIT\"} 1",
           "warpfold_rejections_total{reason=\"TOO_MANY_REDUCTIONS\"} 0",
           "warpfold_call_duration_seconds_bucket{method=\"Reduce\",le=\"+Inf\"} 2",
           "warpfold_stage_duration_seconds_count{stage=\"kernel\"} 1",
           "warpfold_stage_duration_seconds_count{stage=\"queue\"} 2",
           "warpfold_array_bytes_total{method=\"Reduce\"} 1600000",
           "warpfold_slots 0",  // the fixture's limits do not say
           "warpfold_slots_free 2",
           "warpfold_reductions_in_progress 0",
           "warpfold_merges_in_progress 0",
           "warpfold_reductions_limit 4",
           "warpfold_registrations 2",
           "warpfold_kept_arrays 0",
           "warpfold_kept_arrays_limit 4096",
           "warpfold_registered_bytes 77",
           "warpfold_registered_bytes_limit 88",
           "warpfold_registrations_rejected_total{reason=\"BAD_MEMORY\"} 1",
           "warpfold_registrations_rejected_total{reason=\"NOT_ALLOWED\"} 4",
           "warpfold_registrations_rejected_total{reason=\"other\"} 9",
           "warpfold_memory_budget_bytes 123",
           "warpfold_connections 1",
           "warpfold_connections_total 1",
           "warpfold_connections_refused_total{reason=\"limit\"} 0",
           "warpfold_connections_refused_total{reason=\"left_calls\"} 0",
           "warpfold_connections_refused_total{reason=\"descriptors\"} 0",
           "warpfold_connections_refused_total{reason=\"flood\"} 0",
           "warpfold_log_lines_dropped_total 5",
           "warpfold_grpc_errors_total 6",
           "warpfold_reload_successful{file=\"keys\"} 1",
           "warpfold_reload_successful{file=\"allow\"} 0",
           "warpfold_reload_success_timestamp_seconds{file=\"allow\"} 1900000001",
           "warpfold_certificate_expiry_timestamp_seconds 2e+09",
           "warpfold_client_authority_expiry_timestamp_seconds 3e+09",
           "warpfold_device_memory_used_bytes{device=\"fake:0\"} 250000",
           "warpfold_device_memory_errors_total{device=\"fake:0\",kind=\"corrected\"} 3",
       }) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n", sample, "\n")));
  }
}

TEST_F(AdminTest, ConnectionsThatAreClosedAreNoLongerCounted) {
  Attach();
  const int connection = Connect(server_->addresses()[0]);
  Await([&] { return absl::StrContains(Page("/metrics"), "\nwarpfold_connections 1\n"); });
  EXPECT_THAT(Page("/metrics"),
              HasSubstr(absl::StrCat("\nwarpfold_connections_limit ", server_->connections().limit, "\n")));
  close(connection);
  Await([&] { return absl::StrContains(Page("/metrics"), "\nwarpfold_connections 0\n"); });
  EXPECT_THAT(Page("/metrics"), HasSubstr("\nwarpfold_connections_total 1\n"));
}

TEST_F(AdminTest, ThePageSaysWhichFilesAreInUse) {
  Attach();
  const std::string page = Page("/statusz");
  EXPECT_THAT(page, HasSubstr("<th>keys</th><td>of 2030-03-17 17:46:40 UTC</td>"));
  EXPECT_THAT(page, HasSubstr("<th>allow</th><td>of 2030-03-17 17:46:41 UTC; newer ones were refused</td>"));
  EXPECT_THAT(page, HasSubstr(absl::StrCat("<th>process</th><td>", getpid(), ", since ")));
}

TEST_F(AdminTest, SeriesStayBoundedWhateverClientsSend) {
  Attach();
  AwaitDeviceSample();
  const auto call = [&](const std::string& method, const std::string& text) {
    v1::ReduceArrayRequest request;
    request.set_request_id(text);
    request.mutable_spec()->add_operators(static_cast<v1::Operator>(4000 + ended_));
    RawCall raw(channel_, method, {{"traceparent", text}, {"warpfold-array", text}});
    raw.Write(request.SerializeAsString());
    raw.WritesDone();
    EXPECT_FALSE(raw.Finish().ok());
  };
  std::set<std::string> first;
  for (int i = 0; i < 200; ++i) {
    call(absl::StrCat("/warpfold.v1.ReductionService/Method", i, "\"\\"), absl::StrCat("name", i));
    call("/warpfold.v1.ReductionService/ReduceArray", absl::StrCat("id", i));
    if (i == 0) {
      Await([&] { return ended_ == 2; });
      first = SeriesOf(Page("/metrics"));
    }
  }
  Await([&] { return ended_ == 400; });
  const std::string page = Page("/metrics");
  EXPECT_EQ(SeriesOf(page), first);
  EXPECT_THAT(page, HasSubstr("\nwarpfold_calls_total{method=\"unknown\",code=\"UNIMPLEMENTED\"} 200\n"));
}

TEST_F(AdminTest, TheStatusPageIsSafeToLookAt) {
  Attach();
  const auto call = std::make_shared<LiveCall>();
  call->method = "Reduce";
  call->identity = "<script>alert('x')</script>";
  call->begin = service_.clock() - absl::Seconds(75);
  call->bytes = 3 << 20;
  call->trace.emplace().trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  admin_->OnBegin(call);
  const std::string page = Page("/statusz");
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("<td>1m15s</td><td>3 MiB</td>"));
  EXPECT_THAT(page, HasSubstr("<td>4bf92f3577b34da6a3ce929d0e0e4736</td>"));
  EXPECT_THAT(page, HasSubstr("&lt;fake&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  CallRecord record;
  record.method = "Reduce";
  record.identity = call->identity;
  record.status = absl::DataLossError("<b>");
  for (int i = 0; i < 30; ++i) admin_->OnEnd(call, record);
  const std::string after = Page("/statusz");
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(after, "DATA_LOSS")).size() - 1, CallTable::kMaxFailures);
  EXPECT_THAT(after, HasSubstr("&lt;b&gt;"));
}

TEST_F(AdminTest, WhatIsNoRequestOfOursIsRefused) {
  Attach();
  const std::string& address = admin_->address();
  EXPECT_THAT(Get(address, "/nothing"), HasSubstr("404 Not Found"));
  EXPECT_THAT(
      Exchange(
          address,
          "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"),
      HasSubstr("405 Method Not Allowed"));
  EXPECT_THAT(Exchange(address, "nonsense\r\n\r\n"), HasSubstr("400 Bad Request"));
  EXPECT_THAT(Get(address, "/" + std::string(100'000, 'x')),
              testing::AnyOf("", HasSubstr("400 Bad Request")));
  const std::string head =
      Exchange(address, "HEAD /statusz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("200 OK"));
  EXPECT_THAT(head, Not(HasSubstr("<html")));
}

TEST_F(AdminTest, ConnectionsBeyondTheLimitTakeThePlaceOfTheOldest) {
  Attach();
  std::vector<int> idle;
  for (std::size_t i = 0; i < HttpServer::kMaxConnections; ++i) idle.push_back(Connect(admin_->address()));
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Page("/readyz"), HasSubstr("200 OK"));
  char nothing = 0;
  EXPECT_EQ(read(idle.front(), &nothing, 1), 0);
  EXPECT_EQ(recv(idle.back(), &nothing, 1, MSG_DONTWAIT), -1);
  for (const int connection : idle) close(connection);
}

TEST_F(AdminTest, ARequestMayNameTheServer) {
  Attach();
  EXPECT_THAT(Get(admin_->address(), "http://127.0.0.1:1/healthz?x"), HasSubstr("200 OK"));
  EXPECT_THAT(Get(admin_->address(), "http://localhost"), HasSubstr("404 Not Found"));
}

// The name of a page in a browser may come to resolve to 127.0.0.1, and the page may then read what is there.
TEST_F(AdminTest, NoOtherSiteIsOnALoopbackAddress) {
  Attach();
  const std::string& address = admin_->address();
  for (const std::string host : {"localhost", "LocalHost:9464", "localhost.:80", "127.0.0.1", "127.0.0.1:1",
                                 "192.0.2.1:9464", "[::1]", "[2001:db8::1]:9464"}) {
    EXPECT_THAT(Get(address, "/statusz", host), HasSubstr("200 OK")) << host;
  }
  for (const std::string host :
       {"example.com", "rebound.example.com:9464", "localhost.example.com", "127.0.0.1.example.com",
        "x@127.0.0.1", "notlocalhost", "[::1", ":9464", ""}) {
    for (const char* path : {"/statusz", "/metrics", "/healthz", "/", "/nothing", "http://localhost@x/"}) {
      EXPECT_THAT(Get(address, path, host), HasSubstr("403 Forbidden")) << host;
    }
  }
  EXPECT_THAT(Get(address, "http://example.com/statusz"), HasSubstr("403 Forbidden"))
      << "the header does not count where the target names a host";
}

// RFC 9112, 3.2. Which of two names a browser meant is not for the server to guess.
TEST_F(AdminTest, ARequestHasOneHost) {
  Attach();
  const std::string& address = admin_->address();
  EXPECT_THAT(Get(address, "/statusz", "localhost\r\nHost: example.com"), HasSubstr("400 Bad Request"));
  EXPECT_THAT(Get(address, "/statusz", "localhost\r\nHost: localhost"), HasSubstr("400 Bad Request"));
  EXPECT_THAT(Exchange(address, "GET /statusz HTTP/1.1\r\nConnection: close\r\n\r\n"),
              HasSubstr("400 Bad Request"));
  EXPECT_THAT(Exchange(address, "GET /statusz HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"))
      << "it need not have one";
  EXPECT_THAT(Exchange(address, "GET http://example.com/statusz HTTP/1.0\r\n\r\n"),
              HasSubstr("403 Forbidden"));
}

// Probes and scrapes from other machines may use any name of a service.
TEST_F(AdminTest, OnOtherAddressesTheServerHasAnyName) {
  for (const char* address : {"0.0.0.0:0", "127.0.0.1:0"}) {
    const auto admin = Admin::Open(address);
    ASSERT_TRUE(admin.ok()) << admin.status();
    EXPECT_EQ((*admin)->is_local(), address[0] != '0');
    EXPECT_THAT(Get((*admin)->address(), "/healthz", "warpfold.gpu.svc:9464"),
                HasSubstr((*admin)->is_local() ? "403 Forbidden" : "200 OK"));
  }
}

TEST(AdminOpenTest, NamesTheAddressThatIsInUse) {
  const auto first = Admin::Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const auto second = Admin::Open((*first)->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace warpfold::server
