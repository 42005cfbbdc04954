// SPDX-License-Identifier: LGPL-2.1-or-later
// C++ with templates, lambdas and functions that are always inlined, blocked in read().
#include "victim.h"

#include <functional>
#include <string>
#include <vector>

namespace demo
{

template <typename T> class Ring
{
public:
	__attribute__((noinline)) T turn(const std::vector<T> &items, const std::string &name)
	{
		T sum{};

		for (const T &item : items)
			sum += step(item, name);
		return sum;
	}

private:
	__attribute__((always_inline)) inline T step(const T &item, const std::string &name)
	{
		return inner(item, [&](T value) { return value + static_cast<T>(name.size()); });
	}

	template <typename F>
	__attribute__((always_inline)) inline T inner(const T &item, F function)
	{
		return function(hold(item));
	}

	__attribute__((noinline)) T hold(const T &item)
	{
		victim_ready("hold");
		victim_hold();
		return item;
	}
};

__attribute__((noinline)) int run(const std::function<int(int)> &function)
{
	return function(3) + 1;
}

} // namespace demo

int main(int argc, char **)
{
	demo::Ring<int> ring;
	std::vector<int> items(3, argc);

	return demo::run([&](int value) { return ring.turn(items, "ring") + value; });
}
