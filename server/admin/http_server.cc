// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_server.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace warpfold::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

// The time for a request to arrive, and for its answer to leave; an idle connection is closed after the same
// time.
constexpr auto kTimeout = std::chrono::seconds(30);
constexpr std::uint32_t kMaxHeaderBytes = 8 << 10;
constexpr unsigned kHttp11 = 11;
// The pause after an accept that failed because the system is short of something.
constexpr auto kPause = std::chrono::milliseconds(100);

// Whether "host[:port]" is an IP address or localhost. The name of a site whose page a browser shows is
// neither, even if its owner has let it resolve to this address meanwhile (DNS rebinding).
bool IsAddressOrLocalhost(std::string host) {
  const bool in_brackets = host[0] == '[';
  const std::size_t end = host.find(in_brackets ? ']' : ':');
  if (in_brackets && end == std::string::npos) return false;
  host = host.substr(in_brackets ? 1 : 0, in_brackets ? end - 1 : end);
  if (beast::iequals(host, "localhost") || beast::iequals(host, "localhost.")) return true;
  beast::error_code error;
  asio::ip::make_address(host, error);
  return !error;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(Listener listener, Handler handler)
      : listener_(std::move(listener)), is_local_(listener_.is_local()), handler_(std::move(handler)) {
    for (const int socket : listener_.sockets()) {
      // The acceptor closes its own.
      acceptors_.emplace_back(context_, Tcp::v4(), fcntl(socket, F_DUPFD_CLOEXEC, 0));
    }
    for (Tcp::acceptor& acceptor : acceptors_) Accept(acceptor);
    thread_ = std::thread([this] { context_.run(); });
  }

  ~Impl() {
    context_.stop();
    thread_.join();
  }

  const Listener& listener() const { return listener_; }
  // Other machines may know this one by any name, as probes and scrapes in a cluster do.
  bool HasName(const std::string& host) const { return !is_local_ || IsAddressOrLocalhost(host); }
  HttpResponse Answer(const std::string& path) const { return handler_(path); }
  std::size_t& connections() { return connections_; }
  // Connections that wait for their client, the one that waits longest first.
  std::list<Connection*>& waiting() { return waiting_; }

 private:
  void Accept(Tcp::acceptor& acceptor);

  Listener listener_;
  const bool is_local_;
  const Handler handler_;
  std::size_t connections_ = 0;
  std::list<Connection*> waiting_;
  asio::io_context context_{1};
  std::vector<Tcp::acceptor> acceptors_;
  std::thread thread_;
};

// One connection: reads a request, answers it, and again. It lives as long as an operation is in progress.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, Tcp::socket socket) : server_(server), stream_(std::move(socket)) {
    ++server_.connections();
  }
  ~Connection() { --server_.connections(); }

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(kMaxHeaderBytes);
    is_head_ = false;
    stream_.expires_after(kTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this(), place = Wait()](beast::error_code error, std::size_t) {
                       self->server_.waiting().erase(place);
                       self->OnRead(error);
                     });
  }

  // A read or write that is in progress ends with an error.
  void Close() { stream_.close(); }

 private:
  using Request = http::request<http::string_body>;

  void OnRead(beast::error_code error) {
    if (!error) return Answer(parser_->get());
    const bool is_malformed = error.category() == make_error_code(http::error::end_of_stream).category();
    if (!is_malformed || error == http::error::end_of_stream) return;
    Send({.status = 400, .body = "the request is malformed or too large\n"}, kHttp11, /*keep_alive=*/false);
  }

  void Answer(const Request& request) {
    is_head_ = request.method() == http::verb::head;
    std::string target(request.target());
    std::string host(request[http::field::host]);
    const std::size_t hosts = request.count(http::field::host);
    // The absolute form, which proxies use: "http://host/path". The header does not count (RFC 9112, 3.2.2).
    if (const std::size_t scheme = target.find("://"); target[0] != '/' && scheme != std::string::npos) {
      const std::size_t path = std::min(target.find('/', scheme + 3), target.size());
      host = target.substr(scheme + 3, path - scheme - 3);
      target.erase(0, path);
    }
    HttpResponse answer = {.status = 405, .body = "only GET and HEAD are allowed\n"};
    if (hosts > 1 || (hosts == 0 && request.version() == kHttp11)) {
      answer = {.status = 400, .body = "a request must have one Host\n"};  // RFC 9112, 3.2
    } else if (!(hosts == 0 && host.empty()) && !server_.HasName(host)) {
      answer = {.status = 403, .body = "on a loopback address, Host must be an IP address or localhost\n"};
    } else if (is_head_ || request.method() == http::verb::get) {
      answer = server_.Answer(target.substr(0, target.find('?')));
    }
    Send(std::move(answer), request.version(), request.keep_alive());
  }

  void Send(HttpResponse answer, unsigned version, bool keep_alive) {
    response_ = {};
    response_.version(version);
    response_.result(answer.status);
    response_.keep_alive(keep_alive);
    response_.set(http::field::content_type, answer.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    if (answer.status == 405) response_.set(http::field::allow, "GET, HEAD");
    response_.content_length(answer.body.size());
    if (!is_head_) response_.body() = std::move(answer.body);
    stream_.expires_after(kTimeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), place = Wait()](beast::error_code error, std::size_t) {
                        self->server_.waiting().erase(place);
                        if (!error && self->response_.keep_alive()) self->Read();
                      });
  }

  std::list<Connection*>::iterator Wait() { return server_.waiting().insert(server_.waiting().end(), this); }

  Impl& server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kMaxHeaderBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  bool is_head_ = false;
  http::response<http::string_body> response_;
};

void HttpServer::Impl::Accept(Tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](beast::error_code error, Tcp::socket socket) {
    if (!error) {
      if (connections_ >= kMaxConnections && !waiting_.empty()) waiting_.front()->Close();
      if (connections_ < kMaxConnections || !waiting_.empty()) {
        std::make_shared<Connection>(*this, std::move(socket))->Read();
      }
      return Accept(acceptor);
    }
    const auto pause = std::make_shared<asio::steady_timer>(context_, kPause);
    pause->async_wait([this, &acceptor, pause](beast::error_code) { Accept(acceptor); });
  });
}

HttpServer::HttpServer(Listener listener, Handler handler) try
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(handler))) {
} catch (const boost::system::system_error& error) {
  throw std::system_error(error.code());
}
HttpServer::~HttpServer() = default;
const std::string& HttpServer::address() const { return impl_->listener().address(); }
bool HttpServer::is_local() const { return impl_->listener().is_local(); }

}  // namespace warpfold::server
