// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/admin.h"

#include <system_error>

#include "absl/time/clock.h"
#include "server/admin/service_metrics.h"
#include "server/admin/status_page.h"

namespace warpfold::server {
namespace {

constexpr char kIndex[] =
    "<!DOCTYPE html><title>warpfold-server</title><ul><li><a href=\"/statusz\">statusz</a>"
    "<li><a href=\"/metrics\">metrics</a><li><a href=\"/healthz\">healthz</a>"
    "<li><a href=\"/readyz\">readyz</a></ul>\n";
constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr unsigned kUnavailable = 503;

}  // namespace

absl::StatusOr<std::unique_ptr<Admin>> Admin::Open(const std::string& address) {
  absl::StatusOr<Listener> listener = Listener::Resolve(address);
  if (!listener.ok()) return listener.status();
  if (absl::Status status = listener->Listen(); !status.ok()) return status;
  std::unique_ptr<Admin> admin(new Admin());
  try {
    admin->server_ = std::make_unique<HttpServer>(
        *std::move(listener), [&self = *admin](const std::string& path) { return self.Answer(path); });
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system allows no thread or no file for it");
  }
  return admin;
}

absl::Status Admin::Attach(AdminSources sources) {
  sources_ = std::move(sources);
  try {
    device_.emplace(sources_.service->backend);
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system allows no thread for the device's state");
  }
  attached_ = true;
  return absl::OkStatus();
}

void Admin::OnEnd(const std::shared_ptr<const LiveCall>& call, const CallRecord& record) {
  calls_.Add(record);
  table_.Remove(call, record, absl::Now());
}

HttpResponse Admin::Answer(const std::string& path) const {
  const bool attached = attached_;
  if (path == "/healthz") {
    const bool failed = attached && !sources_.service->device.fault().ok();
    return failed ? HttpResponse{.status = kUnavailable, .body = "the device failed\n"}
                  : HttpResponse{.body = "ok\n"};
  }
  if (path == "/readyz") {
    if (is_ready()) return {.body = "ready\n"};
    return {.status = kUnavailable, .body = attached ? "draining, or the device failed\n" : "starting\n"};
  }
  if (path == "/") return {.content_type = kHtml, .body = kIndex};
  if (path != "/metrics" && path != "/statusz") return {.status = 404, .body = "there is no such page\n"};
  if (path == "/metrics") {
    return {.content_type = Exposition::kContentType, .body = attached ? Metrics() : MetricsOfStart()};
  }
  if (!attached) return {.status = kUnavailable, .body = "starting\n"};
  return {.content_type = kHtml, .body = StatusPage(sources_, table_, device_->last(), absl::Now())};
}

std::string Admin::MetricsOfStart() const {
  Exposition out;
  WriteReady(out, /*is_ready=*/false);
  WriteProcess(out);
  return out.text();
}

std::string Admin::Metrics() const {
  Exposition out;
  WriteServiceMetrics(out, sources_, is_ready());
  calls_.Write(out);
  WriteCallTable(out, table_);
  WriteDevice(out, device_->last());
  WriteProcess(out);
  return out.text();
}

}  // namespace warpfold::server
