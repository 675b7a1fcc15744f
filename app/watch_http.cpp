#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <c10/util/Exception.h>
#include <httplib.h>

#include "train/run/interrupt.h"
#include "watch.h"
#include "watched_runs.h"

namespace adaact::app {
namespace {

constexpr char kThisMachine[] = "127.0.0.1";
constexpr int kFirstPort = 8008;
constexpr int kPortsTried = 20;

/// Another site must not read the page through a name of its own that leads to this machine.
bool is_meant_for_us(const httplib::Request& request) {
  auto host = request.get_header_value("Host");
  host.erase(std::min(host.find(':'), host.size()));
  return host == kThisMachine || host == "localhost";
}

void answer(httplib::Response& response, const std::string& content, const char* type) {
  response.set_header("Cache-Control", "no-store");
  response.set_header("Content-Security-Policy",
                      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                      "img-src data:; connect-src 'self'");
  response.set_content(content, type);
}

void add_pages(httplib::Server& server, WatchedRuns& runs) {
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    if (is_meant_for_us(request)) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [&runs](const httplib::Request& /*request*/, httplib::Response& response) {
    answer(response, runs.page(), "text/html; charset=utf-8");
  });
  server.Get("/version", [&runs](const httplib::Request& /*request*/, httplib::Response& response) {
    answer(response, runs.version(), "text/plain");
  });
  // Browsers ask for one; an absent one would be an error in their console.
  server.Get("/favicon.ico", [](const httplib::Request& /*request*/, httplib::Response& response) {
    response.status = 204;
  });
}

int bound_port(httplib::Server& server, std::optional<int> port) {
  if (port && *port != 0) {
    TORCH_CHECK(server.bind_to_port(kThisMachine, *port), "port ", *port,
                " is in use or not allowed; name another with --port, or none");
    return *port;
  }
  if (!port) {
    for (int tried = kFirstPort; tried < kFirstPort + kPortsTried; ++tried) {
      if (server.bind_to_port(kThisMachine, tried)) return tried;
    }
  }
  const int any = server.bind_to_any_port(kThisMachine);
  TORCH_CHECK(any > 0, "there is no free port at ", kThisMachine);
  return any;
}

}  // namespace

int watch_runs(const std::vector<std::filesystem::path>& folders, const ReportOptions& options,
               std::optional<int> port, Verbosity verbosity) {
  const InterruptGuard interrupts;
  WatchedRuns runs(folders, options);
  httplib::Server server;
  // Two processes at one port would each answer some of the requests.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_keep_alive_max_count(1);  // so that nobody is waited for at the end
  add_pages(server, runs);
  const auto address =
      "http://" + std::string(kThisMachine) + ":" + std::to_string(bound_port(server, port)) + "/";
  if (verbosity == Verbosity::Json) {
    print_json(nlohmann::json{{"address", address}});
  } else {
    say(verbosity, "the report is at " + address + " and follows the runs; Ctrl-C ends it");
  }
  std::fflush(stdout);
  std::atomic<bool> has_ended{false};
  std::thread serving([&] {
    server.listen_after_bind();
    has_ended = true;
  });
  while (InterruptGuard::received() == 0 && !has_ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  // A server that does not run yet would not hear that it is to stop.
  while (!server.is_running() && !has_ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  server.stop();
  serving.join();
  TORCH_CHECK(InterruptGuard::received() != 0, "the server at ", address, " ended by itself");
  return 0;
}

}  // namespace adaact::app
