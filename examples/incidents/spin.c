/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service with a processor at 100 %: all keys of a table fall into one bucket, and a lookup walks its
 * chain.
 */
#include "incident.h"

enum { KEYS = 20000, BUCKETS = 1024 };

struct entry {
	struct entry *next;
	unsigned key;
};

static struct entry entries[KEYS], *buckets[BUCKETS];
static volatile unsigned found;

static unsigned bucket_of(unsigned key)
{
	return key / KEYS % BUCKETS;
}

static __attribute__((noinline)) struct entry *find_price(unsigned key)
{
	struct entry *entry = buckets[bucket_of(key)];

	while (entry && entry->key != key)
		entry = entry->next;
	return entry;
}

static __attribute__((noinline)) void quote_prices(void)
{
	for (unsigned key = 0; key < KEYS; key++)
		found += find_price(key) != NULL;
}

static void *quote(void *argument)
{
	(void)argument;
	call_oneself("quoter");
	for (;;)
		quote_prices();
}

int main(void)
{
	for (unsigned key = 0; key < KEYS; key++) {
		entries[key] = (struct entry){ buckets[bucket_of(key)], key };
		buckets[bucket_of(key)] = &entries[key];
	}
	start(quote, NULL);
	while (found == 0)
		usleep(1000);
	return live();
}
