// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/goaway.h"

#include <grpcpp/alarm.h>

#include <future>
#include <memory>

// gRPC's core/lib/surface/server.h, which is not installed, though its functions are exported. A later gRPC
// that lacks them does not link.
namespace grpc_core {
class Server {
 public:
  void SendGoaways();
  bool HasOpenConnections();
};
}  // namespace grpc_core

namespace warpfold::server {
namespace {

// The C handle is a pointer to the object (core/lib/gprpp/cpp_impl_of.h).
grpc_core::Server& CoreOf(grpc::Server& server) {
  return *reinterpret_cast<grpc_core::Server*>(server.c_server());
}

}  // namespace

void SendGoaways(grpc::Server& server) {
  // gRPC's internal work needs a thread that gRPC has made: an alarm's function runs on one.
  const auto sent = std::make_shared<std::promise<void>>();  // that thread may still be in set_value
  grpc::Alarm alarm;
  alarm.Set(gpr_inf_past(GPR_CLOCK_REALTIME), [&server, sent](bool) {
    CoreOf(server).SendGoaways();
    sent->set_value();
  });
  sent->get_future().wait();
}

bool HasOpenConnections(grpc::Server& server) { return CoreOf(server).HasOpenConnections(); }

}  // namespace warpfold::server
