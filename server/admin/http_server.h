// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A few pages over HTTP/1.1, for probes, scrapes and people: only GET and HEAD, one thread, and bounds on
// connections, sizes and time. Boost.Beast implements the protocol. On a loopback address, requests whose
// Host is neither an IP address nor localhost get 403, so that pages of other sites in a browser read
// nothing.
//
// Threads: the constructor and the destructor from one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/net/listener.h"

namespace warpfold::server {

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  // One more connection closes the one that has waited longest for its client.
  static constexpr std::size_t kMaxConnections = 64;
  // How many descriptors it may have open at once besides those that the constructor opens: a connection that
  // is closed at once was accepted first.
  static constexpr std::size_t kDescriptors = kMaxConnections + 1;

  // Returns the response for a path (without its query). Called on the server's thread; must not block.
  using Handler = std::function<HttpResponse(const std::string& path)>;

  // Serves from now on. Throws std::system_error if there is no thread or no descriptor.
  HttpServer(Listener listener, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address, with the port that was bound.
  const std::string& address() const;
  // Whether only processes on this machine can connect.
  bool is_local() const;

 private:
  class Connection;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpfold::server
