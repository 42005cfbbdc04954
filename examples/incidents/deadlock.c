/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A bank. A transfer takes the accounts and then writes the journal; an audit takes the journal and
 * then reads the accounts. One day they meet, and each later thread waits behind them.
 */
#include "incident.h"

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t journal = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t bad_luck;
static long balance[2] = { 100, 100 };
static FILE *book;

static void write_journal(const char *what, long sum)
{
	pthread_mutex_lock(&journal);
	fprintf(book, "%s %ld\n", what, sum);
	pthread_mutex_unlock(&journal);
}

static void *transfer(void *unused)
{
	call_oneself("transfer");
	pthread_mutex_lock(&accounts);
	balance[0] -= 10;
	balance[1] += 10;
	pthread_barrier_wait(&bad_luck);
	write_journal("transfer", 10);
	pthread_mutex_unlock(&accounts);
	return unused;
}

static long sum_of_accounts(void)
{
	long sum;

	pthread_mutex_lock(&accounts);
	sum = balance[0] + balance[1];
	pthread_mutex_unlock(&accounts);
	return sum;
}

static void *audit(void *unused)
{
	call_oneself("audit");
	pthread_mutex_lock(&journal);
	pthread_barrier_wait(&bad_luck);
	fprintf(book, "audit %ld\n", sum_of_accounts());
	pthread_mutex_unlock(&journal);
	return unused;
}

static void *show_balance(void *unused)
{
	call_oneself("customer");
	sum_of_accounts();
	return unused;
}

int main(void)
{
	book = fopen("/dev/null", "w");
	pthread_barrier_init(&bad_luck, NULL, 2);
	start(transfer, NULL);
	start(audit, NULL);
	until_asleep(2, SYS_futex, -1);
	for (int i = 0; i < 3; i++)
		start(show_balance, NULL);
	until_asleep(5, SYS_futex, -1);
	return live();
}
