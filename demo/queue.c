/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A bounded queue of jobs between threads: see queue.h. */
#include "queue.h"

struct job queue_pop(struct queue *queue)
{
	struct job job;

	pthread_mutex_lock(&queue->lock);
	while (queue->count == 0)
		pthread_cond_wait(&queue->filled, &queue->lock);
	job = queue->jobs[queue->head];
	queue->head = (queue->head + 1) % QUEUE_SIZE;
	queue->count--;
	pthread_mutex_unlock(&queue->lock);
	return job;
}

bool queue_push(struct queue *queue, struct job job)
{
	bool room;

	pthread_mutex_lock(&queue->lock);
	room = queue->count < QUEUE_SIZE;
	if (room)
		queue->jobs[(queue->head + queue->count++) % QUEUE_SIZE] = job;
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
	return room;
}
