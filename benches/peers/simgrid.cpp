// The same flows in SimGrid, to be compared with ours: start and finish of each, and how long it took.
//
//     simgrid raw FILE       the exchange format of `reweave sim raw`
//     simgrid all-to-all N   every host of N to every other at once, 1 MB each, 100 Gb/s per host
//     simgrid ring N         all-reduce of N times 100 KB around a ring of N hosts, 100 Gb/s per host
//
// Latencies are zero, where flows have them they are delays before the start, so that SimGrid's
// model (CM02, all factors one) is max-min fair sharing and nothing else.

#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

namespace {

constexpr double GBPS = 1e9 / 8;

struct Flow {
  double bytes = 0;
  double delay_s = 0;
  std::vector<int> path;
  std::vector<int> waits_for;
  double start_s = -1;
  double finish_s = -1;
};

std::vector<Flow> flows;

// Of this core: who else computes does not count.
double core_s() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

double simulated_s = 0;

void simulate(s4u::Engine& engine) {
  double began = core_s();
  engine.run();
  simulated_s = core_s() - began;
}

// ---- a problem of the exchange format -------------------------------------------------------

std::vector<double> read_problem(const char* file) {
  std::vector<double> capacities;
  std::ifstream input(file);
  for (std::string line; std::getline(input, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "cap") {
      double gbps;
      words >> gbps;
      capacities.push_back(gbps * GBPS);
    } else if (kind == "flow") {
      Flow flow;
      words >> flow.bytes >> flow.delay_s;
      for (int link; words >> link;)
        flow.path.push_back(link);
      flows.push_back(flow);
    } else if (kind == "dep") {
      int before, after;
      words >> before >> after;
      flows[after].waits_for.push_back(before);
    }
  }
  return capacities;
}

s4u::Link* make_link(s4u::NetZone* zone, const std::string& name, double bytes_per_s) {
  return zone->create_link(name, bytes_per_s)->set_latency(0)->seal();
}

// Each path joins two hosts of its own.
void make_platform(const std::vector<double>& capacities, std::vector<std::pair<s4u::Host*, s4u::Host*>>& ends) {
  auto* zone = s4u::create_full_zone("zone");
  std::vector<s4u::Link*> links;
  for (size_t i = 0; i < capacities.size(); i++)
    links.push_back(make_link(zone, "link" + std::to_string(i), capacities[i]));
  std::map<std::vector<int>, std::pair<s4u::Host*, s4u::Host*>> by_path;
  for (const auto& flow : flows) {
    auto [entry, is_new] = by_path.try_emplace(flow.path);
    if (is_new) {
      std::string name = std::to_string(by_path.size());
      auto* from = zone->create_host("from" + name, 1e9)->seal();
      auto* to = zone->create_host("to" + name, 1e9)->seal();
      std::vector<s4u::LinkInRoute> route;
      for (int link : flow.path)
        route.emplace_back(links[link]);
      zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      entry->second = {from, to};
    }
    ends.push_back(entry->second);
  }
  zone->seal();
}

void run_problem(s4u::Engine& engine, const char* file) {
  std::vector<std::pair<s4u::Host*, s4u::Host*>> ends;
  make_platform(read_problem(file), ends);
  std::vector<s4u::SemaphorePtr> done;
  for (size_t i = 0; i < flows.size(); i++)
    done.push_back(s4u::Semaphore::create(0));
  std::vector<int> followers(flows.size());
  for (const auto& flow : flows)
    for (int before : flow.waits_for)
      followers[before]++;
  for (size_t i = 0; i < flows.size(); i++)
    s4u::Actor::create("flow", ends[i].first, [i, &ends, &done, &followers] {
      auto& flow = flows[i];
      for (int before : flow.waits_for)
        done[before]->acquire();
      if (flow.delay_s > 0)
        s4u::this_actor::sleep_for(flow.delay_s);
      flow.start_s = s4u::Engine::get_clock();
      s4u::Comm::sendto(ends[i].first, ends[i].second, flow.bytes);
      flow.finish_s = s4u::Engine::get_clock();
      for (int follower = 0; follower < followers[i]; follower++)
        done[i]->release();
    });
  simulate(engine);
  for (size_t i = 0; i < flows.size(); i++)
    std::printf("%zu %.12f %.12f\n", i, flows[i].start_s, flows[i].finish_s);
}

// ---- many hosts on a switch that never is the bottleneck ------------------------------------

std::vector<s4u::Host*> make_hosts(int count) {
  auto* zone = s4u::create_full_zone("zone");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> up, down;
  for (int i = 0; i < count; i++) {
    std::string name = std::to_string(i);
    hosts.push_back(zone->create_host("host" + name, 1e9)->seal());
    up.push_back(make_link(zone, "up" + name, 100 * GBPS));
    down.push_back(make_link(zone, "down" + name, 100 * GBPS));
  }
  for (int a = 0; a < count; a++)
    for (int b = 0; b < count; b++)
      if (a != b)
        zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr,
                        {s4u::LinkInRoute(up[a]), s4u::LinkInRoute(down[b])}, false);
  zone->seal();
  return hosts;
}

void run_all_to_all(s4u::Engine& engine, int count) {
  auto hosts = make_hosts(count);
  s4u::Actor::create("all", hosts[0], [&hosts] {
    std::vector<s4u::CommPtr> sent;
    for (auto* from : hosts)
      for (auto* to : hosts)
        if (from != to)
          sent.push_back(s4u::Comm::sendto_async(from, to, 1e6));
    for (auto& comm : sent)
      comm->wait();
  });
  simulate(engine);
}

// In each step, every host sends what it has received in the step before.
void run_ring(s4u::Engine& engine, int count) {
  auto hosts = make_hosts(count);
  static char payload;
  for (int i = 0; i < count; i++)
    s4u::Actor::create("rank", hosts[i], [i, count] {
      auto* mine = s4u::Mailbox::by_name(std::to_string(i));
      auto* next = s4u::Mailbox::by_name(std::to_string((i + 1) % count));
      for (int step = 0; step < 2 * (count - 1); step++) {
        auto sent = next->put_async(&payload, 100000);
        mine->get<char>();
        sent->wait();
      }
    });
  simulate(engine);
}

} // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
                              "network/latency-factor:1", "network/bandwidth-factor:1", "network/weight-S:0"})
    s4u::Engine::set_config(setting);
  if (argc != 3)
    return 2;
  std::string mode = argv[1];
  if (mode == "raw") {
    // Otherwise starts are off by a nanosecond.
    s4u::Engine::set_config("surf/precision:1e-13");
    run_problem(engine, argv[2]);
  } else if (mode == "all-to-all") {
    run_all_to_all(engine, std::stoi(argv[2]));
  } else if (mode == "ring") {
    run_ring(engine, std::stoi(argv[2]));
  } else {
    return 2;
  }
  std::printf("# makespan_s %.12f\n# core_s %.6f\n", s4u::Engine::get_clock(), simulated_s);
  return 0;
}
