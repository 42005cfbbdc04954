/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A bounded queue of jobs between threads. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

enum { QUEUE_SIZE = 64 };

struct job {
	unsigned long order;
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct job jobs[QUEUE_SIZE];
	unsigned head, count;
};

/* Waits for a job. */
struct job queue_pop(struct queue *queue);
/* False when there is no room. */
bool queue_push(struct queue *queue, struct job job);
