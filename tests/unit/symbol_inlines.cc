// SPDX-License-Identifier: LGPL-2.1-or-later
// A program full of inlined functions, whose names and lines test_symbol_inlines asks for: of
// templates, lambdas, anonymous namespaces, local classes, and of C inside of C++.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

extern "C" {
int outside(int value);
static inline __attribute__((always_inline)) int plain_c(int value)
{
	return outside(value) + 1;
}
}

namespace shop
{
namespace
{
struct Item {
	std::string name;
	int price;
	inline __attribute__((always_inline)) int taxed(int percent) const
	{
		return plain_c(price * percent / 100) + price;
	}
};
}

template <typename T, int Depth> struct Nest {
	static inline __attribute__((always_inline)) int down(const T &value)
	{
		return Nest<T, Depth - 1>::down(value) + outside(Depth);
	}
};

template <typename T> struct Nest<T, 0> {
	static inline __attribute__((always_inline)) int down(const T &value)
	{
		return value.taxed(7) + outside(0);
	}
};

class Cart
{
      public:
	explicit Cart(int count)
	{
		for (int i = 0; i < count; i++)
			items.push_back(Item{ std::to_string(outside(i)), i });
	}
	virtual ~Cart()
	{
		outside(static_cast<int>(items.size()));
	}
	virtual int total() const;
	int cheapest() const;
	std::map<std::string, int> index() const;

      private:
	std::vector<Item> items;
};

__attribute__((noinline)) int Cart::total() const
{
	int sum = 0;

	std::for_each(items.begin(), items.end(), [&sum](const Item &item) {
		auto twice = [&](int value) { return outside(value) * 2; };
		sum += twice(Nest<Item, 5>::down(item));
	});
	return sum;
}

__attribute__((noinline)) int Cart::cheapest() const
{
	struct Local {
		static inline int price(const Item &item)
		{
			return item.taxed(19);
		}
	};
	auto least = std::min_element(items.begin(), items.end(), [](auto &a, auto &b) {
		return Local::price(a) < Local::price(b);
	});
	if (least == items.end())
		throw outside(-1);
	return least->price;
}

__attribute__((noinline)) std::map<std::string, int> Cart::index() const
{
	std::map<std::string, int> map;

	for (const auto &item : items)
		map[item.name + "!"] += item.price;
	return map;
}
}

extern "C" __attribute__((noinline)) int outside(int value)
{
	static volatile int sink;

	sink = sink + value;
	return sink;
}

int main(int argc, char **)
{
	shop::Cart cart(argc);

	try {
		return cart.total() + cart.cheapest() + static_cast<int>(cart.index().size());
	} catch (int code) {
		return outside(code);
	}
}
