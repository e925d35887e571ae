// SPDX-License-Identifier: GPL-2.0
/*
 * prio-deadline: an I/O scheduler with five levels of priority.
 *
 * The scheduler of C. Hall and P. Bonnet, "Getting Priorities Straight:
 * Improving Linux Support for Database I/O" (VLDB 2005), section 4, for blk-mq:
 * a deadline by level, a FIFO per level, expired requests first, otherwise
 * position order; and allocation groups, so that requests of a low level never
 * use up what a higher level needs.
 *
 * Two modes say what happens while nothing has expired:
 *   position - the paper's: position order over the requests of all levels
 *   level - the highest level first; every level has a minimum share
 */
#define pr_fmt(fmt) "prio-deadline: " fmt

#include <linux/bio.h>
#include <linux/bitops.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/sbitmap.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include <trace/events/block.h>

#include "elevator-abi.h"

enum { PD_LEVELS = 5, PD_DIRS = 2 };

/* Levels 0 and 1 are urgent: somebody waits for the request. */
enum { PD_LOWER_FIRST = 2, PD_LEVEL_DEFAULT = 2, PD_LEVEL_LAST = 4 };
#define PD_URGENT_MASK	(BIT(PD_LOWER_FIRST) - 1)

enum pd_mode { PD_MODE_POSITION, PD_MODE_LEVEL };

static const char * const pd_mode_names[] = { "position", "level" };

/* Requests of one direction before the other is considered. */
static const u32 pd_batch_max = 16;
/* Batches of reads that may overtake waiting writes. */
static const u32 pd_writes_starved_max = 2;

/*
 * Time from submission to the latest dispatch, in microseconds. The paper gives
 * 0.25 s and 12 s; the levels between are spaced by equal factors.
 */
static const u32 pd_deadline_rotating_us[PD_LEVELS] = {
	250000, 658000, 1732000, 4559000, 12000000
};

/* A tenth of that where no head moves. */
static const u32 pd_deadline_flash_us[PD_LEVELS] = {
	25000, 65800, 173200, 455900, 1200000
};

/* Longest deadline that can be set: an hour. */
#define PD_DEADLINE_US_MAX	(3600U * 1000 * 1000)

/* Mode level: least share of the dispatched requests, in percent. */
static const u32 pd_floor_percent[PD_LEVELS] = { 0, 10, 5, 3, 2 };

/* What all floors together may not exceed: the rest is for the highest level. */
#define PD_FLOOR_PERCENT_SUM_MAX	90

/*
 * Allocation groups, in percent of nr_requests. What is reserved for a level
 * others cannot take; beyond that a level may use what is free, up to its
 * maximum.
 */
static const u32 pd_reserved_percent[PD_LEVELS] = { 15, 10, 5, 4, 4 };
#define PD_RESERVED_PERCENT_SUM_MAX	100

/*
 * While urgent requests are about, at most this many others are with the
 * device: they would be served before an urgent one that comes later. 0: no
 * bound of any kind. A disk serves one after the other, flash many at once.
 */
static const u32 pd_lower_depth_rotating = 1;
static const u32 pd_lower_depth_flash;
/* How long after the last urgent request the next one is expected. */
static const u32 pd_urgent_hold_rotating_us = 250000;
static const u32 pd_urgent_hold_flash_us = 20000;
#define PD_URGENT_HOLD_US_MAX	(10U * 1000 * 1000)

/*
 * For how long urgent requests may wait for others in the device, in percent of
 * the time that it works for them alone. 0: no bound. When that is used up, the
 * device rests for a while after an urgent request: the same reader's next one
 * comes sooner than a head has moved away and back.
 */
static const u32 pd_urgent_slowdown_percent_rotating = 10;
static const u32 pd_urgent_slowdown_percent_flash;
#define PD_URGENT_SLOWDOWN_PERCENT_MAX	1000
static const u32 pd_urgent_idle_us = 8000;
#define PD_URGENT_IDLE_US_MAX	(1000U * 1000)
/* What can be saved up: two requests of a disk; and how deep the debt can be. */
#define PD_BUDGET_NS_MAX	(20LL * NSEC_PER_MSEC)
#define PD_DEBT_NS_MAX		(200LL * NSEC_PER_MSEC)

/*
 * While urgent requests are about, a lower one does not grow beyond this by
 * merging: what the device has begun it ends. 0: no bound.
 */
static const u32 pd_lower_merge_kib_rotating = 64;
static const u32 pd_lower_merge_kib_flash;
#define PD_LOWER_MERGE_KIB_MAX	65536

/* A floor of 1 percent earns 1 credit per dispatch, a dispatch costs 100. */
#define PD_CREDIT_UNIT	100
#define PD_CREDIT_MAX	(2 * PD_CREDIT_UNIT)

/* Histograms: bucket n counts values from 2^(n-1) to 2^n - 1. */
#define PD_WAIT_BUCKETS		28
#define PD_DEPTH_BUCKETS	16

/* Tasks between the look at a bio and the allocation of its request. */
#define PD_TASK_SLOTS_SHIFT	8
#define PD_TASK_SLOTS		BIT(PD_TASK_SLOTS_SHIFT)
#define PD_TASK_LEVEL_MASK	7UL

/*
 * Priorities 0 to 7 of the best-effort class, which need no privileges. 4 is
 * what the kernel gives to a task that chose none, 5 to 7 what nice 5 to 19
 * become: they stay where such a task expects to be.
 */
static const u8 pd_level_of_be[IOPRIO_BE_NR] = { 0, 1, 1, 2, 2, 3, 3, 4 };

/* Position order over one or more levels: what the deadline scheduler does. */
struct pd_sweep {
	unsigned int batch;
	unsigned int starved;
	unsigned int dir;
	/* Where the last dispatched request of each direction ended. */
	sector_t position[PD_DIRS];
};

struct pd_stats {
	u64 inserted;
	u64 merged;
	u64 dispatched;
	u64 expired;
	u64 owed;
	u64 wait_us[PD_DIRS][PD_WAIT_BUCKETS];
	u64 depth[PD_DEPTH_BUCKETS];
	u64 wait_us_max[PD_DIRS];
};

struct pd_level {
	/* Both hold every queued request: by deadline and by position. */
	struct list_head fifo[PD_DIRS];
	struct rb_root sorted[PD_DIRS];
	unsigned int queued;
	/* Mode level: what the minimum share has earned. */
	unsigned int credit;
	struct pd_sweep sweep;
	struct pd_stats stats;
};

/* Settings of one level. */
struct pd_level_settings {
	u32 deadline_us[PD_DIRS];
	u32 floor_percent;
	u32 reserved_percent;
	u32 max_percent;
};

/* The allocation groups on one set of scheduler tags. */
struct pd_pool {
	atomic_t allocated[PD_LEVELS];
	atomic_t waiting;
	wait_queue_head_t wait[PD_LEVELS];
	struct pd_data *pd;
	struct list_head node;
};

struct pd_data {
	/* Protects the run-time data. */
	spinlock_t lock;
	struct pd_level levels[PD_LEVELS];
	struct pd_sweep sweep;
	/* Requests that came back, or have no priority: they go first. */
	struct list_head bypass;
	/* A bit for each level with queued requests. */
	unsigned int waiting;
	/* No queued request has an earlier deadline. */
	u64 expires_ns;
	u64 urgent_ns;
	struct list_head pools;

	/* Not under the lock: completions come in interrupts. */
	atomic_t in_flight[PD_LEVELS];
	bool held;
	struct pd_pool shared_pool;

	/* Protects what follows, also in interrupts; inside of the other lock. */
	spinlock_t budget_lock;
	/* Time that urgent requests may yet lose to others. */
	s64 budget_ns;
	u64 budget_at_ns;
	u64 urgent_done_ns;

	unsigned long task_level[PD_TASK_SLOTS];

	/* Settings. */
	struct request_queue *q;
	struct pd_level_settings set[PD_LEVELS];
	u32 mode;
	u32 batch_max;
	u32 writes_starved_max;
	u32 front_merges;
	u32 lower_depth;
	u32 urgent_hold_us;
	u32 urgent_slowdown_percent;
	u32 urgent_idle_us;
	u32 lower_merge_kib;
	/* From the settings and nr_requests, in requests. */
	unsigned int depth;
	unsigned int group_max[PD_LEVELS];
	unsigned int group_reserved[PD_LEVELS];
};

/*
 * Of a request the scheduler knows, in elv.priv[0]: the level in whose group it
 * was allocated, its level, and where it is.
 */
#define PD_RQ_GROUP		7UL
#define PD_RQ_LEVEL_SHIFT	3
#define PD_RQ_LEVEL		(7UL << PD_RQ_LEVEL_SHIFT)
#define PD_RQ_ALLOCATED		BIT(6)
#define PD_RQ_IN_FLIGHT		BIT(7)
/* Not to be joined to others before it is inserted. */
#define PD_RQ_APART		BIT(8)

static unsigned long pd_state(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[0];
}

static void pd_set_state(struct request *rq, unsigned long state)
{
	rq->elv.priv[0] = (void *)state;
}

static unsigned int pd_rq_level(const struct request *rq)
{
	return (pd_state(rq) & PD_RQ_LEVEL) >> PD_RQ_LEVEL_SHIFT;
}

static void pd_set_rq_level(struct request *rq, unsigned int level)
{
	pd_set_state(rq, (pd_state(rq) & ~PD_RQ_LEVEL) |
			 ((unsigned long)level << PD_RQ_LEVEL_SHIFT));
}

/* Whether prepare_request has seen it; flush requests are not shown to it. */
static bool pd_is_known(const struct request *rq)
{
#ifdef RQF_USE_SCHED
	return rq->rq_flags & RQF_USE_SCHED;
#else
	return rq->rq_flags & RQF_ELVPRIV;
#endif
}

static unsigned int pd_ioprio_level(u16 ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return 0;
	case IOPRIO_CLASS_BE:
		return pd_level_of_be[ioprio & (IOPRIO_BE_NR - 1)];
	case IOPRIO_CLASS_IDLE:
		return PD_LEVEL_LAST;
	default:
		return PD_LEVEL_DEFAULT;
	}
}

static unsigned int pd_in_flight(struct pd_data *pd, unsigned int first,
				 unsigned int last)
{
	unsigned int sum = 0;
	unsigned int i;

	for (i = first; i <= last; i++)
		sum += atomic_read(&pd->in_flight[i]);
	return sum;
}

static bool pd_urgent_queued(struct pd_data *pd)
{
	return READ_ONCE(pd->waiting) & PD_URGENT_MASK;
}

static noinline bool pd_urgent_is_about(struct pd_data *pd, u64 now_ns)
{
	u64 hold_ns = (u64)READ_ONCE(pd->urgent_hold_us) * NSEC_PER_USEC;

	return now_ns < pd->urgent_ns + hold_ns || pd_urgent_queued(pd) ||
	       pd_in_flight(pd, 0, PD_LOWER_FIRST - 1);
}

/* How large a request of a level may become by merging; no bound on flash. */
static inline unsigned int pd_merged_bytes_max(struct pd_data *pd,
					       unsigned int level)
{
	unsigned int kib = READ_ONCE(pd->lower_merge_kib);

	if (!kib || level < PD_LOWER_FIRST || !READ_ONCE(pd->lower_depth) ||
	    !pd_urgent_is_about(pd, ktime_get_ns()))
		return UINT_MAX;
	return kib * 1024;
}

/*
 * Allocation groups. A request is charged to its level's group from its
 * allocation to its end. The block layer asks for the limit before it shows the
 * bio's priority, so bio_merge, which sees each bio just before, leaves a note
 * for its task.
 */
static unsigned long *pd_task_slot(struct pd_data *pd)
{
	return &pd->task_level[hash_ptr(current, PD_TASK_SLOTS_SHIFT)];
}

static void pd_note_level(struct pd_data *pd, unsigned int level)
{
	WRITE_ONCE(*pd_task_slot(pd), (unsigned long)current | level);
}

/* The noted level; where another task has overwritten it, the task's own. */
static unsigned int pd_noted_level(struct pd_data *pd)
{
	unsigned long note = READ_ONCE(*pd_task_slot(pd));

	if ((note & ~PD_TASK_LEVEL_MASK) == (unsigned long)current)
		return note & PD_TASK_LEVEL_MASK;
	return pd_ioprio_level(get_current_ioprio());
}

static struct pd_pool *pd_pool_of(struct blk_mq_hw_ctx *hctx)
{
	return hctx->sched_data;
}

static struct pd_pool *pd_pool_of_allocation(struct blk_mq_alloc_data *data)
{
#if !PD_HAS_HCTX_AT_LIMIT
	struct blk_mq_queue_map *map = &data->q->tag_set->map[HCTX_TYPE_DEFAULT];

	if (!data->hctx)
		return pd_pool_of(xa_load(&data->q->hctx_table,
					  map->mq_map[raw_smp_processor_id()]));
#endif
	return pd_pool_of(data->hctx);
}

/*
 * Groups follow nr_requests. The block layer tells of a change before it has
 * made it (until 6.18), so it is looked for where it matters.
 */
static void pd_update_groups(struct pd_data *pd)
{
	unsigned int depth = READ_ONCE(pd->q->nr_requests);
	unsigned int i;

	for (i = 0; i < PD_LEVELS; i++) {
		unsigned int max_percent = READ_ONCE(pd->set[i].max_percent);
		unsigned int reserved = READ_ONCE(pd->set[i].reserved_percent);

		/* One at least, or the level could never do anything. */
		WRITE_ONCE(pd->group_max[i],
			   max(1U, depth * max_percent / 100));
		WRITE_ONCE(pd->group_reserved[i], depth * reserved / 100);
	}
	WRITE_ONCE(pd->depth, depth);
}

/* Several tasks may see the same room: what is in excess is their number. */
static bool pd_has_room(struct pd_data *pd, struct pd_pool *pool,
			unsigned int level)
{
	unsigned int own = atomic_read(&pool->allocated[level]);
	unsigned int needed = own + 1;
	unsigned int i;

	if (unlikely(READ_ONCE(pd->depth) != READ_ONCE(pd->q->nr_requests)))
		pd_update_groups(pd);
	if (own >= READ_ONCE(pd->group_max[level]))
		return false;
	if (own < READ_ONCE(pd->group_reserved[level]))
		return true;
	for (i = 0; i < PD_LEVELS; i++) {
		unsigned int used = atomic_read(&pool->allocated[i]);

		if (i != level)
			needed += max(used, READ_ONCE(pd->group_reserved[i]));
	}
	return needed <= READ_ONCE(pd->depth);
}

/*
 * Whether the block layer may allocate requests in advance for a task's plug.
 * Any level may come to use them, so all reserves stay untouched.
 */
static bool pd_has_room_for_plug(struct pd_data *pd, struct pd_pool *pool,
				 unsigned int count)
{
	unsigned int needed = count;
	unsigned int i;

	for (i = 0; i < PD_LEVELS; i++) {
		unsigned int used = atomic_read(&pool->allocated[i]);

		if (used + count > READ_ONCE(pd->group_max[i]))
			return false;
		needed += max(used, READ_ONCE(pd->group_reserved[i]));
	}
	return needed <= READ_ONCE(pd->depth);
}

static bool pd_is_first(wait_queue_head_t *head,
			struct wait_queue_entry *wait)
{
	bool first;

	spin_lock_irq(&head->lock);
	first = list_is_first(&wait->entry, &head->head);
	spin_unlock_irq(&head->lock);
	return first;
}

/*
 * Waits in turn: a task keeps its place until it is the first and has room,
 * who comes later gets behind it.
 */
static void pd_wait_for_room(struct pd_data *pd, struct pd_pool *pool,
			     unsigned int level)
{
	wait_queue_head_t *head = &pool->wait[level];
	DEFINE_WAIT_FUNC(wait, default_wake_function);

	atomic_inc(&pool->waiting);
	for (;;) {
		prepare_to_wait_exclusive(head, &wait, TASK_UNINTERRUPTIBLE);
		if (pd_is_first(head, &wait) && pd_has_room(pd, pool, level))
			break;
		/* Submits what the task has plugged, too. */
		io_schedule();
	}
	finish_wait(head, &wait);
	atomic_dec(&pool->waiting);
	/* The next one's turn; it may have been woken too early to see it. */
	if (waitqueue_active(head) && pd_has_room(pd, pool, level))
		wake_up(head);
}

static void pd_wake(struct pd_pool *pool, int number)
{
	unsigned int i;

	for (i = 0; i < PD_LEVELS; i++)
		wake_up_nr(&pool->wait[i], number);
}

static void pd_uncharge(struct pd_pool *pool, unsigned int group)
{
	atomic_dec(&pool->allocated[group]);
	/* Pairs with the barrier in prepare_to_wait_exclusive(). */
	smp_mb__after_atomic();
	if (atomic_read(&pool->waiting))
		pd_wake(pool, 1);
}

/*
 * Called before a request is allocated, by a task that may sleep unless it said
 * otherwise. Who may not sleep gets one tag per word of the bitmap to choose
 * from, the least that can be given, and is told to come again (-EAGAIN) when
 * those are taken.
 *
 * A depth, whatever it is, keeps the block layer from allocating requests in
 * advance.
 */
static void pd_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct pd_data *pd = data->q->elevator->elevator_data;
	struct pd_pool *pool = pd_pool_of_allocation(data);
	unsigned int level = pd_noted_level(pd);

	/* Who waits goes first; to miss one that just begins does no harm. */
	if (!waitqueue_active(&pool->wait[level]) &&
	    pd_has_room(pd, pool, level)) {
		if (data->nr_tags > 1 &&
		    (!pd_has_room_for_plug(pd, pool, data->nr_tags) ||
		     pd_merged_bytes_max(pd, level) != UINT_MAX))
			data->shallow_depth = UINT_MAX;
		return;
	}
	data->shallow_depth = UINT_MAX;
	if ((opf & REQ_NOWAIT) || (data->flags & BLK_MQ_REQ_NOWAIT))
		data->shallow_depth = 1;
	else
		pd_wait_for_room(pd, pool, level);
}

static void pd_prepare_request(struct request *rq)
{
	struct pd_data *pd = rq->q->elevator->elevator_data;
	unsigned int level = pd_noted_level(pd);

	atomic_inc(&pd_pool_of(rq->mq_hctx)->allocated[level]);
	pd_set_state(rq, PD_RQ_ALLOCATED | level);
	pd_set_rq_level(rq, level);
	/* In its task's plug the block layer joins without asking. */
	if (pd_merged_bytes_max(pd, level) != UINT_MAX &&
	    !(rq->cmd_flags & REQ_NOMERGE)) {
		rq->cmd_flags |= REQ_NOMERGE;
		pd_set_state(rq, pd_state(rq) | PD_RQ_APART);
	}
}

/* The note was another bio's: moves the charge to the right group. */
static void pd_recharge(struct request *rq, unsigned int level)
{
	unsigned int group = pd_state(rq) & PD_RQ_GROUP;
	struct pd_pool *pool;

	if (likely(group == level))
		return;
	pool = pd_pool_of(rq->mq_hctx);
	pd_set_rq_level(rq, level);
	atomic_inc(&pool->allocated[level]);
	pd_uncharge(pool, group);
	pd_set_state(rq, (pd_state(rq) & ~PD_RQ_GROUP) | level);
}

/*
 * The time since the last call, in which nothing has changed: called before
 * each change of what is queued or in flight. A change on another processor at
 * the same moment is off by that moment.
 */
static noinline void __pd_update_budget(struct pd_data *pd, u64 now_ns,
					u32 percent)
{
	bool urgent_served, lower_served;
	unsigned long flags;
	s64 passed_ns;

	urgent_served = pd_in_flight(pd, 0, PD_LOWER_FIRST - 1);
	lower_served = pd_in_flight(pd, PD_LOWER_FIRST, PD_LEVEL_LAST);

	spin_lock_irqsave(&pd->budget_lock, flags);
	/* Longer ago there was nothing, or the bound was off. */
	passed_ns = clamp_t(s64, now_ns - pd->budget_at_ns, 0, PD_DEBT_NS_MAX);
	/* Another processor may have a later time already. */
	pd->budget_at_ns = max(pd->budget_at_ns, now_ns);
	if (lower_served && (urgent_served || pd_urgent_queued(pd)))
		pd->budget_ns -= passed_ns;
	else if (urgent_served)
		pd->budget_ns += div_u64((u64)passed_ns * percent, 100);
	pd->budget_ns = clamp_t(s64, pd->budget_ns, -PD_DEBT_NS_MAX,
				PD_BUDGET_NS_MAX);
	spin_unlock_irqrestore(&pd->budget_lock, flags);
}

static inline void pd_update_budget(struct pd_data *pd, u64 now_ns)
{
	u32 percent = READ_ONCE(pd->urgent_slowdown_percent);

	if (percent && READ_ONCE(pd->lower_depth))
		__pd_update_budget(pd, now_ns, percent);
}

/* The lock is not taken: this may be an interrupt. */
static void pd_leave_device(struct pd_data *pd, struct request *rq)
{
	if (!(pd_state(rq) & PD_RQ_IN_FLIGHT))
		return;
	if (READ_ONCE(pd->lower_depth)) {
		u64 now_ns = ktime_get_ns();

		pd_update_budget(pd, now_ns);
		if (pd_rq_level(rq) < PD_LOWER_FIRST)
			WRITE_ONCE(pd->urgent_done_ns, now_ns);
	}
	pd_set_state(rq, pd_state(rq) & ~PD_RQ_IN_FLIGHT);
	atomic_dec(&pd->in_flight[pd_rq_level(rq)]);
	/* Pairs with the barrier in pd_hold(). */
	smp_mb__after_atomic();
	if (READ_ONCE(pd->held)) {
		WRITE_ONCE(pd->held, false);
		blk_mq_run_hw_queues(rq->q, true);
	}
}

static void pd_finish_request(struct request *rq)
{
	struct pd_data *pd = rq->q->elevator->elevator_data;
	unsigned long state = pd_state(rq);

	if (!(state & PD_RQ_ALLOCATED))
		return;
	pd_leave_device(pd, rq);
	pd_uncharge(pd_pool_of(rq->mq_hctx), state & PD_RQ_GROUP);
	pd_set_state(rq, 0);
}

static void pd_requeue_request(struct request *rq)
{
	pd_leave_device(rq->q->elevator->elevator_data, rq);
}

/* The queue: per level a FIFO and a tree for each direction. */
static void pd_sort(struct pd_data *pd, struct request *rq)
{
	struct pd_level *level = &pd->levels[pd_rq_level(rq)];

	elv_rb_add(&level->sorted[rq_data_dir(rq)], rq);
}

static void pd_unsort(struct pd_data *pd, struct request *rq)
{
	struct pd_level *level = &pd->levels[pd_rq_level(rq)];

	elv_rb_del(&level->sorted[rq_data_dir(rq)], rq);
}

/* has_work and completions look at what waits without the lock. */
static void pd_count_in(struct pd_data *pd, unsigned int level)
{
	if (!pd->levels[level].queued++)
		WRITE_ONCE(pd->waiting, pd->waiting | BIT(level));
}

static void pd_count_out(struct pd_data *pd, unsigned int level)
{
	if (!--pd->levels[level].queued)
		WRITE_ONCE(pd->waiting, pd->waiting & ~BIT(level));
}

static inline void pd_remove(struct pd_data *pd, struct request *rq)
{
	struct request_queue *q = rq->q;

	lockdep_assert_held(&pd->lock);

	list_del_init(&rq->queuelist);
	pd_unsort(pd, rq);
	elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
	pd_count_out(pd, pd_rq_level(rq));
}

static struct request *pd_oldest(struct pd_level *level, unsigned int dir)
{
	return list_first_entry_or_null(&level->fifo[dir], struct request,
					queuelist);
}

/* The first request at or after a position, or NULL. */
static struct request *pd_at_or_after(struct rb_root *root, sector_t position)
{
	struct rb_node *node = root->rb_node;
	struct request *found = NULL;

	while (node) {
		struct request *rq = rb_entry(node, struct request, rb_node);

		if (blk_rq_pos(rq) >= position) {
			found = rq;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

/* The same over several levels; at equal positions the higher level's. */
static struct request *pd_next_over(struct pd_data *pd, unsigned int first,
				    unsigned int last, unsigned int dir,
				    sector_t position)
{
	struct request *found = NULL;
	unsigned int i;

	for (i = first; i <= last; i++) {
		struct request *rq;

		if (!pd->levels[i].queued)
			continue;
		rq = pd_at_or_after(&pd->levels[i].sorted[dir], position);
		if (rq && (!found || blk_rq_pos(rq) < blk_rq_pos(found)))
			found = rq;
	}
	return found;
}

static bool pd_any(struct pd_data *pd, unsigned int first, unsigned int last,
		   unsigned int dir)
{
	unsigned int i;

	for (i = first; i <= last; i++)
		if (!list_empty(&pd->levels[i].fifo[dir]))
			return true;
	return false;
}

/* Reads go before writes, but not for ever. */
static unsigned int pd_choose_dir(struct pd_data *pd, struct pd_sweep *sweep,
				  unsigned int first, unsigned int last)
{
	bool reads = pd_any(pd, first, last, READ);
	bool writes = pd_any(pd, first, last, WRITE);

	if (reads && writes &&
	    sweep->starved < READ_ONCE(pd->writes_starved_max)) {
		sweep->starved++;
		return READ;
	}
	if (reads && !writes)
		return READ;
	sweep->starved = 0;
	return WRITE;
}

/*
 * The next request of some levels, one of which has one. Where no head moves,
 * the oldest of a level: @sorted is false then, and @first is @last.
 */
static struct request *pd_sweep_pick(struct pd_data *pd, struct pd_sweep *sweep,
				     unsigned int first, unsigned int last,
				     bool sorted)
{
	struct request *rq = NULL;

	lockdep_assert_held(&pd->lock);

	if (sweep->batch && sweep->batch < READ_ONCE(pd->batch_max)) {
		if (sorted)
			rq = pd_next_over(pd, first, last, sweep->dir,
					  sweep->position[sweep->dir]);
		else
			rq = pd_oldest(&pd->levels[first], sweep->dir);
		if (rq)
			return rq;
	}
	sweep->dir = pd_choose_dir(pd, sweep, first, last);
	sweep->batch = 0;
	if (!sorted)
		return pd_oldest(&pd->levels[first], sweep->dir);
	rq = pd_next_over(pd, first, last, sweep->dir,
			  sweep->position[sweep->dir]);
	return rq ?: pd_next_over(pd, first, last, sweep->dir, 0);
}

static void pd_sweep_dispatched(struct pd_sweep *sweep, struct request *rq)
{
	unsigned int dir = rq_data_dir(rq);

	if (sweep->dir == dir) {
		sweep->batch++;
	} else {
		sweep->dir = dir;
		sweep->batch = 1;
	}
	sweep->position[dir] = blk_rq_pos(rq) + blk_rq_sectors(rq);
}

/* Looks for it where the bound has passed, and makes the bound exact. */
static noinline struct request *__pd_expired(struct pd_data *pd, u64 now_ns)
{
	struct request *first = NULL;
	unsigned int i, dir;

	for (i = 0; i < PD_LEVELS; i++) {
		for (dir = 0; dir < PD_DIRS; dir++) {
			struct request *rq = pd_oldest(&pd->levels[i], dir);

			if (rq && (!first || rq->fifo_time < first->fifo_time))
				first = rq;
		}
	}
	pd->expires_ns = first ? first->fifo_time : U64_MAX;
	return now_ns < pd->expires_ns ? NULL : first;
}

/* Of the requests whose deadline has passed the one that waits longest. */
static inline struct request *pd_expired(struct pd_data *pd, u64 now_ns)
{
	return now_ns < pd->expires_ns ? NULL : __pd_expired(pd, now_ns);
}

/* The level whose minimum share is most in arrears, or PD_LEVELS. */
static unsigned int pd_owed(struct pd_data *pd)
{
	unsigned int found = PD_LEVELS;
	unsigned int credit = PD_CREDIT_UNIT - 1;
	unsigned long rest = pd->waiting;

	for (; rest; rest &= rest - 1) {
		unsigned int i = __ffs(rest);

		if (pd->levels[i].credit > credit) {
			credit = pd->levels[i].credit;
			found = i;
		}
	}
	return found;
}

/*
 * A dispatch of @served: all levels that wait beside it earn. It pays, also
 * where it is alone for the moment: otherwise what it earned beside a reader
 * that waits for each request would be owed to it for ever.
 */
static void pd_settle(struct pd_data *pd, unsigned int served)
{
	unsigned long rest = pd->waiting;

	if (rest == BIT(served))
		rest = 0;
	for (; rest; rest &= rest - 1) {
		unsigned int i = __ffs(rest);
		struct pd_level *level = &pd->levels[i];

		level->credit += READ_ONCE(pd->set[i].floor_percent);
		level->credit = min_t(unsigned int, level->credit,
				      PD_CREDIT_MAX);
	}
	pd->levels[served].credit -= min_t(unsigned int, PD_CREDIT_UNIT,
					   pd->levels[served].credit);
}

static bool pd_in_debt(struct pd_data *pd)
{
	unsigned long flags;
	bool debt;

	if (!READ_ONCE(pd->urgent_slowdown_percent))
		return false;
	spin_lock_irqsave(&pd->budget_lock, flags);
	debt = pd->budget_ns < 0;
	spin_unlock_irqrestore(&pd->budget_lock, flags);
	return debt;
}

/* Whether urgent requests, that are about, keep the lower levels waiting. */
static bool pd_lower_must_wait(struct pd_data *pd, u64 now_ns)
{
	u64 idle_ns = (u64)READ_ONCE(pd->urgent_idle_us) * NSEC_PER_USEC;

	if (pd_in_flight(pd, PD_LOWER_FIRST, PD_LEVEL_LAST) >=
	    READ_ONCE(pd->lower_depth))
		return true;
	if (!pd_in_debt(pd))
		return false;
	return pd_urgent_queued(pd) ||
	       pd_in_flight(pd, 0, PD_LOWER_FIRST - 1) ||
	       now_ns < READ_ONCE(pd->urgent_done_ns) + idle_ns;
}

/*
 * The same with what ends the wait: the next completion runs the queue. Where
 * none is to come and the device rests, the block layer does, which asks again
 * after 3 ms while there is work (BLK_MQ_BUDGET_DELAY in block/blk-mq-sched.c).
 */
static noinline bool __pd_hold(struct pd_data *pd, u64 now_ns)
{
	if (!pd_urgent_is_about(pd, now_ns) || !pd_lower_must_wait(pd, now_ns))
		return false;
	WRITE_ONCE(pd->held, true);
	/* Pairs with the barrier in pd_leave_device(). */
	smp_mb();
	if (pd_lower_must_wait(pd, now_ns))
		return true;
	WRITE_ONCE(pd->held, false);
	return false;
}

static inline bool pd_hold(struct pd_data *pd, u64 now_ns)
{
	return READ_ONCE(pd->lower_depth) && __pd_hold(pd, now_ns);
}

static struct request *pd_pick_by_position(struct pd_data *pd, u64 now_ns)
{
	unsigned int last = PD_LEVEL_LAST;

	if (pd_hold(pd, now_ns)) {
		if (!pd_urgent_queued(pd))
			return NULL;
		last = PD_LOWER_FIRST - 1;
	}
	return pd_sweep_pick(pd, &pd->sweep, 0, last, true);
}

static struct request *pd_pick_by_level(struct pd_data *pd, u64 now_ns)
{
	bool sorted = pd_is_rotating(pd->q);
	unsigned int i = pd_owed(pd);

	if (i < PD_LEVELS) {
		pd->levels[i].stats.owed++;
	} else {
		i = __ffs(pd->waiting);
		if (i >= PD_LOWER_FIRST && pd_hold(pd, now_ns))
			return NULL;
	}
	return pd_sweep_pick(pd, &pd->levels[i].sweep, i, i, sorted);
}

static unsigned int pd_bucket(u64 value, unsigned int buckets)
{
	return min_t(unsigned int, fls64(value), buckets - 1);
}

static void pd_count_wait(struct pd_stats *stats, struct request *rq,
			  u64 now_ns)
{
	unsigned int dir = rq_data_dir(rq);
	u64 wait_us = 0;

	if (now_ns > rq->start_time_ns)
		wait_us = div_u64(now_ns - rq->start_time_ns, NSEC_PER_USEC);
	stats->wait_us[dir][pd_bucket(wait_us, PD_WAIT_BUCKETS)]++;
	if (wait_us > stats->wait_us_max[dir])
		stats->wait_us_max[dir] = wait_us;
}

/* Takes a request out of the queue, for the device. */
static void pd_depart(struct pd_data *pd, struct request *rq, u64 now_ns)
{
	unsigned int i = pd_rq_level(rq);
	struct pd_level *level = &pd->levels[i];

	if (READ_ONCE(pd->mode) == PD_MODE_POSITION) {
		pd_sweep_dispatched(&pd->sweep, rq);
	} else {
		pd_sweep_dispatched(&level->sweep, rq);
		pd_settle(pd, i);
	}
	pd_remove(pd, rq);
	pd_count_wait(&level->stats, rq, now_ns);
	if (i < PD_LOWER_FIRST)
		pd->urgent_ns = now_ns;
}

static struct request *__pd_dispatch_request(struct pd_data *pd, u64 now_ns)
{
	struct request *rq;

	lockdep_assert_held(&pd->lock);

	rq = list_first_entry_or_null(&pd->bypass, struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
		goto started;
	}
	if (!pd->waiting)
		return NULL;

	pd_update_budget(pd, now_ns);
	rq = pd_expired(pd, now_ns);
	if (rq)
		pd->levels[pd_rq_level(rq)].stats.expired++;
	else if (READ_ONCE(pd->mode) == PD_MODE_POSITION)
		rq = pd_pick_by_position(pd, now_ns);
	else
		rq = pd_pick_by_level(pd, now_ns);
	if (!rq)
		return NULL;
	pd_depart(pd, rq, now_ns);
started:
	if (pd_is_known(rq)) {
		atomic_inc(&pd->in_flight[pd_rq_level(rq)]);
		pd_set_state(rq, pd_state(rq) | PD_RQ_IN_FLIGHT);
		pd->levels[pd_rq_level(rq)].stats.dispatched++;
	}
	/* No more merging. */
	rq->rq_flags |= RQF_STARTED;
	return rq;
}

static bool pd_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct pd_data *pd = hctx->queue->elevator->elevator_data;

	return READ_ONCE(pd->waiting) || !list_empty_careful(&pd->bypass);
}

/* May return a request of another hardware queue: the order is the device's. */
static struct request *pd_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct pd_data *pd = hctx->queue->elevator->elevator_data;
	u64 now_ns = ktime_get_ns();
	struct request *rq;

	spin_lock(&pd->lock);
	rq = __pd_dispatch_request(pd, now_ns);
	spin_unlock(&pd->lock);
	return rq;
}

/* Deadlines of a FIFO never fall, also when the setting was lowered. */
static u64 pd_deadline_ns(struct pd_data *pd, struct request *rq)
{
	unsigned int level = pd_rq_level(rq);
	unsigned int dir = rq_data_dir(rq);
	struct list_head *fifo = &pd->levels[level].fifo[dir];
	u64 start_ns = rq->start_time_ns ?: ktime_get_ns();
	u64 deadline_ns = start_ns + (u64)NSEC_PER_USEC *
			  READ_ONCE(pd->set[level].deadline_us[dir]);

	if (!list_empty(fifo))
		deadline_ns = max(deadline_ns,
				  list_last_entry(fifo, struct request,
						  queuelist)->fifo_time);
	return deadline_ns;
}

/* What rq_mergeable() of block/blk.h lets through and has a place. */
static bool pd_is_mergeable(const struct request *rq)
{
	if ((rq->cmd_flags & REQ_NOMERGE_FLAGS) ||
	    (rq->rq_flags & RQF_NOMERGE_FLAGS))
		return false;
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE ||
	       req_op(rq) == REQ_OP_DISCARD;
}

static void pd_enqueue(struct pd_data *pd, struct request *rq)
{
	struct request_queue *q = rq->q;
	unsigned int i = pd_rq_level(rq);
	struct pd_level *level = &pd->levels[i];

	pd_sort(pd, rq);
	if (pd_is_mergeable(rq)) {
		elv_rqhash_add(q, rq);
		if (!q->last_merge)
			q->last_merge = rq;
	}
	rq->fifo_time = pd_deadline_ns(pd, rq);
	pd->expires_ns = min(pd->expires_ns, rq->fifo_time);
	list_add_tail(&rq->queuelist, &level->fifo[rq_data_dir(rq)]);
	level->stats.depth[pd_bucket(level->queued, PD_DEPTH_BUCKETS)]++;
	level->stats.inserted++;
	if (i < PD_LOWER_FIRST) {
		pd->urgent_ns = max(pd->urgent_ns, rq->start_time_ns);
		if (READ_ONCE(pd->lower_depth))
			pd_update_budget(pd, ktime_get_ns());
	}
	pd_count_in(pd, i);
}

/* The queued request of @rq's level that ends where @rq begins, or NULL. */
static struct request *pd_ends_at(struct pd_data *pd, struct request *rq)
{
	struct pd_level *level = &pd->levels[pd_rq_level(rq)];
	struct rb_node *node = level->sorted[rq_data_dir(rq)].rb_node;
	struct request *found = NULL;

	while (node) {
		struct request *other = rb_entry(node, struct request, rb_node);

		if (blk_rq_pos(other) < blk_rq_pos(rq)) {
			found = other;
			node = node->rb_right;
		} else {
			node = node->rb_left;
		}
	}
	if (!found ||
	    blk_rq_pos(found) + blk_rq_sectors(found) != blk_rq_pos(rq))
		return NULL;
	return found;
}

/* Whether @rq has become part of a queued one. */
static bool pd_joined(struct pd_data *pd, struct request *rq,
		      struct list_head *free)
{
	unsigned int most = pd_merged_bytes_max(pd, pd_rq_level(rq));

	if (pd_state(rq) & PD_RQ_APART) {
		rq->cmd_flags &= ~REQ_NOMERGE;
		/* Should it come back, a later mark is the block layer's. */
		pd_set_state(rq, pd_state(rq) & ~PD_RQ_APART);
	}
	if (most != UINT_MAX) {
		struct request *other = pd_ends_at(pd, rq);

		if (!other || blk_rq_bytes(other) + blk_rq_bytes(rq) > most)
			return false;
		/* Tried first, and what it becomes is joined to no other. */
		rq->q->last_merge = other;
	}
	return blk_mq_sched_try_insert_merge(rq->q, rq, free);
}

static void pd_insert_request(struct pd_data *pd, struct request *rq,
			      bool at_head, struct list_head *free)
{
	lockdep_assert_held(&pd->lock);

	if (!pd_is_known(rq)) {
		list_add_tail(&rq->queuelist, &pd->bypass);
		return;
	}
	pd_recharge(rq, pd_ioprio_level(req_get_ioprio(rq)));
	if (pd_joined(pd, rq, free))
		return;
	trace_block_rq_insert(rq);
	if (at_head)
		list_add(&rq->queuelist, &pd->bypass);
	else
		pd_enqueue(pd, rq);
}

static void pd_insert_requests(struct blk_mq_hw_ctx *hctx,
			       struct list_head *list, pd_insert_t how)
{
	struct pd_data *pd = hctx->queue->elevator->elevator_data;
	struct request *rq;
	LIST_HEAD(free);

	spin_lock(&pd->lock);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		pd_insert_request(pd, rq, pd_at_head(how), &free);
	}
	spin_unlock(&pd->lock);

	while (!list_empty(&free)) {
		rq = list_first_entry(&free, struct request, queuelist);
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/*
 * Merging. The block layer merges only what has the same ioprio, so front
 * merges are looked for at the bio's own level.
 */
static bool pd_bio_merge(struct request_queue *q, struct bio *bio,
			 unsigned int nr_segs)
{
	struct pd_data *pd = q->elevator->elevator_data;
	unsigned int level = pd_ioprio_level(bio->bi_ioprio);
	struct request *free = NULL;
	bool merged;

	pd_note_level(pd, level);
	if (!READ_ONCE(pd->waiting))
		return false;

	spin_lock(&pd->lock);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	if (merged)
		pd->levels[level].stats.merged++;
	spin_unlock(&pd->lock);

	if (free)
		blk_mq_free_request(free);
	return merged;
}

static bool pd_allow_merge(struct request_queue *q, struct request *rq,
			   struct bio *bio)
{
	struct pd_data *pd = q->elevator->elevator_data;
	unsigned int level = pd_ioprio_level(bio->bi_ioprio);

	return blk_rq_bytes(rq) + bio->bi_iter.bi_size <=
	       pd_merged_bytes_max(pd, level);
}

/* A neighbour of @rq in its tree, unless both together are too large. */
static struct request *pd_if_joinable(struct request *rq,
				      struct request *neighbour)
{
	struct pd_data *pd = rq->q->elevator->elevator_data;

	if (neighbour && blk_rq_bytes(rq) + blk_rq_bytes(neighbour) >
			 pd_merged_bytes_max(pd, pd_rq_level(rq)))
		return NULL;
	return neighbour;
}

static struct request *pd_former_request(struct request_queue *q,
					 struct request *rq)
{
	return pd_if_joinable(rq, elv_rb_former_request(q, rq));
}

static struct request *pd_next_request(struct request_queue *q,
				       struct request *rq)
{
	return pd_if_joinable(rq, elv_rb_latter_request(q, rq));
}

static int pd_request_merge(struct request_queue *q, struct request **found,
			    struct bio *bio)
{
	struct pd_data *pd = q->elevator->elevator_data;
	struct pd_level *level = &pd->levels[pd_ioprio_level(bio->bi_ioprio)];
	struct request *rq;

	if (!READ_ONCE(pd->front_merges) || bio_op(bio) == REQ_OP_DISCARD)
		return ELEVATOR_NO_MERGE;
	rq = elv_rb_find(&level->sorted[bio_data_dir(bio)],
			 bio_end_sector(bio));
	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*found = rq;
	return ELEVATOR_FRONT_MERGE;
}

static void pd_request_merged(struct request_queue *q, struct request *rq,
			      enum elv_merge type)
{
	struct pd_data *pd = q->elevator->elevator_data;

	if (type == ELEVATOR_FRONT_MERGE) {
		pd_unsort(pd, rq);
		pd_sort(pd, rq);
	}
}

/* @next has become part of @rq, which gets the earlier deadline of the two. */
static void pd_requests_merged(struct request_queue *q, struct request *rq,
			       struct request *next)
{
	struct pd_data *pd = q->elevator->elevator_data;
	unsigned int level = pd_rq_level(next);

	lockdep_assert_held(&pd->lock);

	pd->levels[level].stats.merged++;
	/* One that is just being inserted is in no list yet. */
	if (list_empty(&next->queuelist))
		return;
	if (!list_empty(&rq->queuelist)) {
		bool more_urgent = level < pd_rq_level(rq);

		if (more_urgent) {
			pd_unsort(pd, rq);
			pd_count_out(pd, pd_rq_level(rq));
			pd_set_rq_level(rq, level);
			pd_count_in(pd, level);
			pd_sort(pd, rq);
		}
		if (more_urgent || next->fifo_time < rq->fifo_time) {
			list_move(&rq->queuelist, &next->queuelist);
			rq->fifo_time = next->fifo_time;
		}
	}
	pd_remove(pd, next);
}

/* Setting up and taking down. */
static void pd_settings_changed(struct pd_data *pd)
{
	struct pd_pool *pool;

	pd_update_groups(pd);
	spin_lock(&pd->lock);
	list_for_each_entry(pool, &pd->pools, node)
		pd_wake(pool, INT_MAX);
	spin_unlock(&pd->lock);
}

/* Called when nr_requests has changed, with the queue frozen. */
static void pd_limit_tags(struct blk_mq_hw_ctx *hctx)
{
	/* pd_limit_depth() may ask for one tag per word. */
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
}

#if PD_HAS_DEPTH_OF_QUEUE
static void pd_depth_updated(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		pd_limit_tags(hctx);
}
#else
static void pd_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	pd_limit_tags(hctx);
}
#endif

static void pd_init_pool(struct pd_data *pd, struct pd_pool *pool)
{
	unsigned int i;

	for (i = 0; i < PD_LEVELS; i++) {
		atomic_set(&pool->allocated[i], 0);
		init_waitqueue_head(&pool->wait[i]);
	}
	atomic_set(&pool->waiting, 0);
	pool->pd = pd;
	spin_lock(&pd->lock);
	list_add_tail(&pool->node, &pd->pools);
	spin_unlock(&pd->lock);
}

static int pd_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct pd_data *pd = hctx->queue->elevator->elevator_data;
	struct pd_pool *pool = &pd->shared_pool;

	if (!(hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED)) {
		pool = kzalloc_node(sizeof(*pool), GFP_KERNEL,
				    hctx->numa_node);
		if (!pool)
			return -ENOMEM;
		pd_init_pool(pd, pool);
	}
	hctx->sched_data = pool;
	pd_limit_tags(hctx);
	return 0;
}

static void pd_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct pd_pool *pool = pd_pool_of(hctx);
	unsigned int i;

	hctx->sched_data = NULL;
	if (!pool || pool == &pool->pd->shared_pool)
		return;
	for (i = 0; i < PD_LEVELS; i++)
		WARN_ON_ONCE(atomic_read(&pool->allocated[i]));
	spin_lock(&pool->pd->lock);
	list_del(&pool->node);
	spin_unlock(&pool->pd->lock);
	kfree(pool);
}

static void pd_defaults(struct pd_data *pd)
{
	bool rotating = pd_is_rotating(pd->q);
	const u32 *deadline_us = rotating ? pd_deadline_rotating_us :
					    pd_deadline_flash_us;
	unsigned int i;

	for (i = 0; i < PD_LEVELS; i++) {
		pd->set[i].deadline_us[READ] = deadline_us[i];
		pd->set[i].deadline_us[WRITE] = deadline_us[i];
		pd->set[i].floor_percent = pd_floor_percent[i];
		pd->set[i].reserved_percent = pd_reserved_percent[i];
		pd->set[i].max_percent = 100;
	}
	pd->mode = rotating ? PD_MODE_POSITION : PD_MODE_LEVEL;
	pd->batch_max = pd_batch_max;
	pd->writes_starved_max = pd_writes_starved_max;
	pd->front_merges = 1;
	pd->lower_depth = rotating ? pd_lower_depth_rotating :
				     pd_lower_depth_flash;
	pd->urgent_hold_us = rotating ? pd_urgent_hold_rotating_us :
					pd_urgent_hold_flash_us;
	pd->urgent_slowdown_percent = rotating ?
				      pd_urgent_slowdown_percent_rotating :
				      pd_urgent_slowdown_percent_flash;
	pd->urgent_idle_us = pd_urgent_idle_us;
	pd->lower_merge_kib = rotating ? pd_lower_merge_kib_rotating :
					 pd_lower_merge_kib_flash;
}

static struct pd_data *pd_alloc(struct request_queue *q)
{
	struct pd_data *pd = kzalloc_node(sizeof(*pd), GFP_KERNEL, q->node);
	unsigned int i, dir;

	if (!pd)
		return NULL;
	spin_lock_init(&pd->lock);
	spin_lock_init(&pd->budget_lock);
	INIT_LIST_HEAD(&pd->bypass);
	INIT_LIST_HEAD(&pd->pools);
	for (i = 0; i < PD_LEVELS; i++) {
		for (dir = 0; dir < PD_DIRS; dir++) {
			INIT_LIST_HEAD(&pd->levels[i].fifo[dir]);
			pd->levels[i].sorted[dir] = RB_ROOT;
		}
		atomic_set(&pd->in_flight[i], 0);
	}
	pd->q = q;
	pd_init_pool(pd, &pd->shared_pool);
	pd_defaults(pd);
	pd_update_groups(pd);
	return pd;
}

static int pd_init_sched(struct request_queue *q, pd_init_arg *arg)
{
	struct elevator_queue *eq;
	struct pd_data *pd;

#if PD_HAS_FEATURES
	/* Before zone write plugging the order of zone writes was the scheduler's. */
	if (blk_queue_is_zoned(q)) {
		pr_warn("zoned devices need Linux 6.10; use mq-deadline\n");
		return -EOPNOTSUPP;
	}
#endif
	pd = pd_alloc(q);
	if (!pd)
		return -ENOMEM;
#if PD_HAS_QUEUE_AT_INIT
	eq = arg;
#else
	eq = elevator_alloc(q, arg);
	if (!eq) {
		kfree(pd);
		return -ENOMEM;
	}
#endif
	eq->elevator_data = pd;
	/* One order for the device, not one per hardware queue. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	q->elevator = eq;
	return 0;
}

static void pd_exit_sched(struct elevator_queue *e)
{
	struct pd_data *pd = e->elevator_data;

	WARN_ON_ONCE(pd->waiting);
	WARN_ON_ONCE(!list_empty(&pd->bypass));
	WARN_ON_ONCE(pd_in_flight(pd, 0, PD_LEVEL_LAST));
	kfree(pd);
}

/* sysfs: /sys/block/DISK/queue/iosched */
static ssize_t pd_store_u32(struct pd_data *pd, const char *page, size_t count,
			    u32 *field, u32 least, u32 most)
{
	u32 value;
	int ret = kstrtou32(page, 0, &value);

	if (ret)
		return ret;
	if (value < least || value > most)
		return -EINVAL;
	WRITE_ONCE(*field, value);
	pd_settings_changed(pd);
	return count;
}

/* @field is one of five; the sum of all five is bounded, too. */
static ssize_t pd_store_share(struct pd_data *pd, const char *page,
			      size_t count, u32 *field, size_t offset, u32 most)
{
	u32 sum = 0;
	u32 value;
	unsigned int i;
	int ret = kstrtou32(page, 0, &value);

	if (ret)
		return ret;
	for (i = 0; i < PD_LEVELS; i++) {
		u32 *other = (void *)&pd->set[i] + offset;

		sum += other == field ? 0 : *other;
	}
	if (value > most || sum + value > most)
		return -EINVAL;
	WRITE_ONCE(*field, value);
	pd_settings_changed(pd);
	return count;
}

#define PD_SHOW(_name, _field)						\
static ssize_t pd_##_name##_show(struct elevator_queue *e, char *page)	\
{									\
	struct pd_data *pd = e->elevator_data;				\
									\
	return sysfs_emit(page, "%u\n", READ_ONCE(pd->_field));		\
}

#define PD_SETTING(_name, _field, _least, _most)			\
PD_SHOW(_name, _field)							\
static ssize_t pd_##_name##_store(struct elevator_queue *e,		\
				  const char *page, size_t count)	\
{									\
	struct pd_data *pd = e->elevator_data;				\
									\
	return pd_store_u32(pd, page, count, &pd->_field, _least, _most); \
}

#define PD_SHARE(_level, _name, _most)					\
PD_SHOW(level##_level##_##_name, set[_level]._name)			\
static ssize_t pd_level##_level##_##_name##_store(			\
	struct elevator_queue *e, const char *page, size_t count)	\
{									\
	struct pd_data *pd = e->elevator_data;				\
									\
	return pd_store_share(pd, page, count, &pd->set[_level]._name,	\
			      offsetof(struct pd_level_settings, _name), \
			      _most);					\
}

PD_SETTING(level0_read_deadline_us, set[0].deadline_us[READ], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level0_write_deadline_us, set[0].deadline_us[WRITE], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level0_max_percent, set[0].max_percent, 1, 100)
PD_SHARE(0, floor_percent, PD_FLOOR_PERCENT_SUM_MAX)
PD_SHARE(0, reserved_percent, PD_RESERVED_PERCENT_SUM_MAX)
PD_SETTING(level1_read_deadline_us, set[1].deadline_us[READ], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level1_write_deadline_us, set[1].deadline_us[WRITE], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level1_max_percent, set[1].max_percent, 1, 100)
PD_SHARE(1, floor_percent, PD_FLOOR_PERCENT_SUM_MAX)
PD_SHARE(1, reserved_percent, PD_RESERVED_PERCENT_SUM_MAX)
PD_SETTING(level2_read_deadline_us, set[2].deadline_us[READ], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level2_write_deadline_us, set[2].deadline_us[WRITE], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level2_max_percent, set[2].max_percent, 1, 100)
PD_SHARE(2, floor_percent, PD_FLOOR_PERCENT_SUM_MAX)
PD_SHARE(2, reserved_percent, PD_RESERVED_PERCENT_SUM_MAX)
PD_SETTING(level3_read_deadline_us, set[3].deadline_us[READ], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level3_write_deadline_us, set[3].deadline_us[WRITE], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level3_max_percent, set[3].max_percent, 1, 100)
PD_SHARE(3, floor_percent, PD_FLOOR_PERCENT_SUM_MAX)
PD_SHARE(3, reserved_percent, PD_RESERVED_PERCENT_SUM_MAX)
PD_SETTING(level4_read_deadline_us, set[4].deadline_us[READ], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level4_write_deadline_us, set[4].deadline_us[WRITE], 0,
	   PD_DEADLINE_US_MAX)
PD_SETTING(level4_max_percent, set[4].max_percent, 1, 100)
PD_SHARE(4, floor_percent, PD_FLOOR_PERCENT_SUM_MAX)
PD_SHARE(4, reserved_percent, PD_RESERVED_PERCENT_SUM_MAX)
PD_SETTING(batch_max, batch_max, 1, 1024)
PD_SETTING(writes_starved_max, writes_starved_max, 0, 1024)
PD_SETTING(front_merges, front_merges, 0, 1)
PD_SETTING(lower_depth, lower_depth, 0, 65536)
PD_SETTING(urgent_hold_us, urgent_hold_us, 0, PD_URGENT_HOLD_US_MAX)
PD_SETTING(urgent_slowdown_percent, urgent_slowdown_percent, 0,
	   PD_URGENT_SLOWDOWN_PERCENT_MAX)
PD_SETTING(urgent_idle_us, urgent_idle_us, 0, PD_URGENT_IDLE_US_MAX)
PD_SETTING(lower_merge_kib, lower_merge_kib, 0, PD_LOWER_MERGE_KIB_MAX)

static ssize_t pd_mode_show(struct elevator_queue *e, char *page)
{
	struct pd_data *pd = e->elevator_data;

	if (READ_ONCE(pd->mode) == PD_MODE_POSITION)
		return sysfs_emit(page, "[position] level\n");
	return sysfs_emit(page, "position [level]\n");
}

static ssize_t pd_mode_store(struct elevator_queue *e, const char *page,
			     size_t count)
{
	struct pd_data *pd = e->elevator_data;
	int mode = sysfs_match_string(pd_mode_names, page);

	if (mode < 0)
		return mode;
	WRITE_ONCE(pd->mode, mode);
	return count;
}

#define PD_ATTR(_name)							\
	__ATTR(_name, 0644, pd_##_name##_show, pd_##_name##_store)

static const struct elv_fs_entry pd_attrs[] = {
	PD_ATTR(mode),
	PD_ATTR(level0_read_deadline_us),
	PD_ATTR(level0_write_deadline_us),
	PD_ATTR(level0_floor_percent),
	PD_ATTR(level0_reserved_percent),
	PD_ATTR(level0_max_percent),
	PD_ATTR(level1_read_deadline_us),
	PD_ATTR(level1_write_deadline_us),
	PD_ATTR(level1_floor_percent),
	PD_ATTR(level1_reserved_percent),
	PD_ATTR(level1_max_percent),
	PD_ATTR(level2_read_deadline_us),
	PD_ATTR(level2_write_deadline_us),
	PD_ATTR(level2_floor_percent),
	PD_ATTR(level2_reserved_percent),
	PD_ATTR(level2_max_percent),
	PD_ATTR(level3_read_deadline_us),
	PD_ATTR(level3_write_deadline_us),
	PD_ATTR(level3_floor_percent),
	PD_ATTR(level3_reserved_percent),
	PD_ATTR(level3_max_percent),
	PD_ATTR(level4_read_deadline_us),
	PD_ATTR(level4_write_deadline_us),
	PD_ATTR(level4_floor_percent),
	PD_ATTR(level4_reserved_percent),
	PD_ATTR(level4_max_percent),
	PD_ATTR(batch_max),
	PD_ATTR(writes_starved_max),
	PD_ATTR(front_merges),
	PD_ATTR(lower_depth),
	PD_ATTR(urgent_hold_us),
	PD_ATTR(urgent_slowdown_percent),
	PD_ATTR(urgent_idle_us),
	PD_ATTR(lower_merge_kib),
	__ATTR_NULL
};

/* debugfs: /sys/kernel/debug/block/DISK/sched */
#ifdef CONFIG_BLK_DEBUG_FS
static unsigned int pd_allocated(struct pd_data *pd, unsigned int level)
{
	unsigned int sum = 0;
	struct pd_pool *pool;

	lockdep_assert_held(&pd->lock);

	list_for_each_entry(pool, &pd->pools, node)
		sum += atomic_read(&pool->allocated[level]);
	return sum;
}

static int pd_levels_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct pd_data *pd = q->elevator->elevator_data;
	unsigned int i;

	seq_puts(m, "level queued in_flight allocated group_max inserted merged dispatched expired owed read_wait_us_max write_wait_us_max\n");
	spin_lock(&pd->lock);
	for (i = 0; i < PD_LEVELS; i++) {
		struct pd_level *level = &pd->levels[i];
		struct pd_stats *stats = &level->stats;

		seq_printf(m, "%u %u %d %u %u %llu %llu %llu %llu %llu %llu %llu\n",
			   i, level->queued, atomic_read(&pd->in_flight[i]),
			   pd_allocated(pd, i), pd->group_max[i],
			   stats->inserted, stats->merged, stats->dispatched,
			   stats->expired, stats->owed,
			   stats->wait_us_max[READ], stats->wait_us_max[WRITE]);
	}
	spin_unlock(&pd->lock);
	return 0;
}

static void pd_show_histogram(struct seq_file *m, const u64 *buckets,
			      unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (buckets[i])
			seq_printf(m, " %llu:%llu", i ? 1ULL << (i - 1) : 0,
				   buckets[i]);
	seq_putc(m, '\n');
}

/* Time from submission to the device; each bucket by its least value. */
static int pd_wait_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct pd_data *pd = q->elevator->elevator_data;
	unsigned int i;

	spin_lock(&pd->lock);
	for (i = 0; i < PD_LEVELS; i++) {
		seq_printf(m, "%u read", i);
		pd_show_histogram(m, pd->levels[i].stats.wait_us[READ],
				  PD_WAIT_BUCKETS);
		seq_printf(m, "%u write", i);
		pd_show_histogram(m, pd->levels[i].stats.wait_us[WRITE],
				  PD_WAIT_BUCKETS);
	}
	spin_unlock(&pd->lock);
	return 0;
}

/* Requests of the level that a new one found in the queue. */
static int pd_depth_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct pd_data *pd = q->elevator->elevator_data;
	unsigned int i;

	spin_lock(&pd->lock);
	for (i = 0; i < PD_LEVELS; i++) {
		seq_printf(m, "%u", i);
		pd_show_histogram(m, pd->levels[i].stats.depth,
				  PD_DEPTH_BUCKETS);
	}
	spin_unlock(&pd->lock);
	return 0;
}

static const struct blk_mq_debugfs_attr pd_debugfs_attrs[] = {
	{ "levels", 0400, .show = pd_levels_show },
	{ "wait_us_histogram", 0400, .show = pd_wait_show },
	{ "depth_histogram", 0400, .show = pd_depth_show },
	{},
};
#endif

/*
 * The kernel links the type into its list. Where its idea of the type differs
 * from ours, the link is elsewhere: there is room for it, and
 * pd_check_layout() sees it.
 */
static union {
	struct elevator_type type;
	char room[sizeof(struct elevator_type) + 128];
} pd_elevator = {
	.type = {
		.ops = {
			.init_sched		= pd_init_sched,
			.exit_sched		= pd_exit_sched,
			.init_hctx		= pd_init_hctx,
			.exit_hctx		= pd_exit_hctx,
			.depth_updated		= pd_depth_updated,
			.allow_merge		= pd_allow_merge,
			.bio_merge		= pd_bio_merge,
			.request_merge		= pd_request_merge,
			.request_merged		= pd_request_merged,
			.requests_merged	= pd_requests_merged,
			.limit_depth		= pd_limit_depth,
			.prepare_request	= pd_prepare_request,
			.finish_request		= pd_finish_request,
			.insert_requests	= pd_insert_requests,
			.dispatch_request	= pd_dispatch_request,
			.has_work		= pd_has_work,
			.requeue_request	= pd_requeue_request,
			.former_request		= pd_former_request,
			.next_request		= pd_next_request,
		},
		.elevator_attrs	= pd_attrs,
		.elevator_name	= "prio-deadline",
		.elevator_owner	= THIS_MODULE,
#ifdef CONFIG_BLK_DEBUG_FS
		.queue_debugfs_attrs = pd_debugfs_attrs,
#endif
	},
};

static bool pd_check_layout(void)
{
	struct list_head *link = &pd_elevator.type.list;

	return link->next && link->prev && link->prev->next == link;
}

static int __init pd_init(void)
{
	int ret = elv_register(&pd_elevator.type);

	if (ret)
		return ret;
	if (!pd_check_layout()) {
		elv_unregister(&pd_elevator.type);
		pr_err("built for another elevator interface than this kernel's: build it for this kernel, see README.md\n");
		return -ENOEXEC;
	}
	return 0;
}

static void __exit pd_exit(void)
{
	elv_unregister(&pd_elevator.type);
}

module_init(pd_init);
module_exit(pd_exit);

MODULE_DESCRIPTION("I/O scheduler with five levels of priority and deadlines");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.2.0");
MODULE_ALIAS("prio-deadline-iosched");
