#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""gen_big.py OUTDIR NTU - write NTU C++ units with much template DWARF and inlining,
a main.cc that runs 100 threads blocked through them, and a Makefile."""
import sys, os
out, n = sys.argv[1], int(sys.argv[2])
os.makedirs(out, exist_ok=True)
TU = r'''
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
#include "big.h"
namespace unit@ {
template <int N> struct Node {
  std::map<std::string, std::vector<std::tuple<int, double, std::string>>> m;
  std::unordered_map<int, std::variant<int, std::string, std::vector<double>>> u;
  static inline int hop(Blocker &b, std::vector<int> &v, std::function<int(int)> f) {
    int r = 0;
    std::for_each(v.begin(), v.end(), [&](int x) { r += step(b, v, f, x); });
    return r;
  }
  static __attribute__((always_inline)) inline int step(Blocker &b, std::vector<int> &v, std::function<int(int)> &f, int x) {
    if constexpr (N == 0) {
      return f(x) + b.block();
    } else {
      std::vector<int> w(1, x + N);
      return deep(b, w, f) + (int)v.size();
    }
  }
  static __attribute__((noinline)) int deep(Blocker &b, std::vector<int> &w, std::function<int(int)> &f) {
    return Node<N - 1>::hop(b, w, f) + N;
  }
};
template <> __attribute__((noinline)) int Node<0>::deep(Blocker &b, std::vector<int> &w, std::function<int(int)> &f) {
  return f(w[0]) + b.block();
}
int use(const std::string &s) {
  std::regex re("([a-z]+)@([0-9]+)");
  std::smatch sm;
  std::map<std::string, std::vector<std::tuple<int, double, std::string>>> m;
  std::unordered_map<int, std::variant<int, std::string, std::vector<double>>> u;
  if (std::regex_match(s, sm, re)) {
    m[sm[1].str()].emplace_back(std::stoi(sm[2].str()), 1.0, s);
    u[@] = s;
  }
  auto fut = std::async(std::launch::deferred, [&] { return (int)m.size() + (int)u.size(); });
  std::mt19937 g(@);
  std::vector<double> v(100);
  std::generate(v.begin(), v.end(), [&] { return std::normal_distribution<>()(g); });
  std::sort(v.begin(), v.end(), [](double a, double b) { return a > b; });
  std::ostringstream os;
  for (auto &[k, w] : m) os << k << w.size();
  return fut.get() + (int)std::accumulate(v.begin(), v.end(), 0.0) + (int)os.str().size();
}
int enter(Blocker &b, int) {
  std::vector<int> v(1, @);
  return Node<12>::hop(b, v, [](int x) { return x * 2; }) + use("abc@12");
}
}
'''
open(f"{out}/big.h", "w").write('''#pragma once
#include <mutex>
#include <condition_variable>
struct Blocker {
  std::mutex m; std::condition_variable c; bool never = false; std::atomic<int> *ready;
  int block();
};
''')
decl = "".join(f"namespace unit{i} {{ int enter(Blocker &, int); }}\n" for i in range(n))
tab = ",".join(f"unit{i}::enter" for i in range(n))
open(f"{out}/main.cc", "w").write('''#include <atomic>
#include <thread>
#include <vector>
#include <unistd.h>
#include "big.h"
extern "C" {
#include "hb_c.h"
}
''' + decl + '''
using Fn = int (*)(Blocker &, int);
static Fn tab[] = {''' + tab + '''};
int Blocker::block() {
  std::unique_lock<std::mutex> l(m);
  ++*ready;
  c.wait(l, [this] { return never; });
  return 1;
}
int main(int argc, char **argv) {
  int n = atoi(argv[1]);
  std::atomic<int> ready{0};
  Blocker b; b.ready = &ready;
  void *hb = hbc_open(argv[2]);
  hbc_start(hb, 0);
  std::vector<std::thread> ts;
  for (int i = 0; i < n; i++) ts.emplace_back([&, i] { tab[i % (sizeof tab / sizeof *tab)](b, i); });
  while (ready < n) usleep(1000);
  hbc_start(hb, 1);
  usleep(10000);
  hbc_ready(hb);
  for (;;) pause();
}
''')
open(f"{out}/hb_c.h", "w").write("void *hbc_open(const char *); void hbc_start(void *, int); void hbc_ready(void *);\n")
open(f"{out}/hb_c.c", "w").write('''#define _GNU_SOURCE
#include "hb.h"
void *hbc_open(const char *p) { return hb_map(p, 1); }
void hbc_start(void *h, int w) { hb_start((struct hb_file *)h, w, NULL); }
void hbc_ready(void *h) { struct hb_file *f = h; f->pid = getpid(); f->ready = 1; }
''')
for i in range(n):
    open(f"{out}/u{i}.cc", "w").write("#include <atomic>\n" + TU.replace("@", str(i)).replace("([a-z]+)%d([0-9]+)" % i, "([a-z]+)@([0-9]+)"))
objs = " ".join(f"u{i}.o" for i in range(n))
open(f"{out}/Makefile", "w").write(f'''CXXFLAGS = -O2 -g -std=c++17 -w
OBJS = {objs} main.o hb_c.o
big: $(OBJS)
\tg++ -o $@ $(OBJS) -pthread
main.o: main.cc
\tg++ $(CXXFLAGS) -include atomic -c $< -o $@
hb_c.o: hb_c.c
\tgcc -O2 -g -I$(HBDIR) -c $< -o $@
%.o: %.cc
\tg++ $(CXXFLAGS) -c $< -o $@
''')
