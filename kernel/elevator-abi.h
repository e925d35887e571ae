/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an I/O scheduler shares with the block layer.
 *
 * The kernel keeps these declarations in block/elevator.h, block/blk-mq.h and
 * block/blk-mq-debugfs.h, which header packages do not contain. Where the full
 * source is at hand, tests/check-abi compares; it does so too against the type
 * information (BTF) of a kernel image. The module checks itself once more when
 * it is loaded.
 *
 * What changed, and when:
 *   6.4   insert_requests takes flags instead of a bool
 *   6.10  zone write plugging: elevator_features is gone
 *   6.17  init_sched gets the elevator_queue, which has sched tags of its own
 *   6.18  depth_updated gets the queue
 *   6.19  alloc_sched_data and free_sched_data (also in later 6.18.y)
 */
#ifndef PRIO_DEADLINE_ELEVATOR_ABI_H
#define PRIO_DEADLINE_ELEVATOR_ABI_H

#include <linux/blk-mq.h>
#include <linux/kobject.h>
#include <linux/seq_file.h>
#include <linux/version.h>

#define PD_SINCE(major, minor) \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))

#define PD_HAS_INSERT_FLAGS	PD_SINCE(6, 4)
/* In the stable series of 6.1 and 6.6 earlier than that. */
#define PD_HAS_HCTX_AT_LIMIT	PD_SINCE(6, 9)
#define PD_HAS_FEATURES		(!PD_SINCE(6, 10))
#define PD_HAS_QUEUE_AT_INIT	PD_SINCE(6, 17)
#define PD_HAS_DEPTH_OF_QUEUE	PD_SINCE(6, 18)
/* Kbuild sets it where it can see the type information of the kernel. */
#ifndef PD_HAS_SCHED_DATA
#define PD_HAS_SCHED_DATA	PD_SINCE(6, 18)
#endif

/* The name changed with the sense in 7.0. */
#ifdef blk_queue_rot
#define pd_is_rotating(q)	blk_queue_rot(q)
#else
#define pd_is_rotating(q)	(!blk_queue_nonrot(q))
#endif

struct elevator_queue;
struct elevator_type;
struct io_cq;
struct module;

enum elv_merge {
	ELEVATOR_NO_MERGE	= 0,
	ELEVATOR_FRONT_MERGE	= 1,
	ELEVATOR_BACK_MERGE	= 2,
	ELEVATOR_DISCARD_MERGE	= 3,
};

#if PD_HAS_INSERT_FLAGS
/* blk_insert_t and BLK_MQ_INSERT_AT_HEAD of block/blk-mq.h */
#define pd_insert_t	unsigned int
#define pd_at_head(how)	((how) & 0x01)
#else
#define pd_insert_t	bool
#define pd_at_head(how)	(how)
#endif

#if PD_HAS_QUEUE_AT_INIT
#define pd_init_arg	struct elevator_queue
#else
#define pd_init_arg	struct elevator_type
#endif

#if PD_HAS_DEPTH_OF_QUEUE
#define pd_depth_arg	struct request_queue
#else
#define pd_depth_arg	struct blk_mq_hw_ctx
#endif

struct blk_mq_alloc_data {
	struct request_queue *q;
	blk_mq_req_flags_t flags;
	unsigned int shallow_depth;
	blk_opf_t cmd_flags;
	req_flags_t rq_flags;
	unsigned int nr_tags;
	void *cached_rqs;
	struct blk_mq_ctx *ctx;
	struct blk_mq_hw_ctx *hctx;
};

struct elevator_mq_ops {
	int (*init_sched)(struct request_queue *q, pd_init_arg *arg);
	void (*exit_sched)(struct elevator_queue *e);
	int (*init_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int index);
	void (*exit_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int index);
	void (*depth_updated)(pd_depth_arg *arg);
#if PD_HAS_SCHED_DATA
	void *(*alloc_sched_data)(struct request_queue *q);
	void (*free_sched_data)(void *data);
#endif
	bool (*allow_merge)(struct request_queue *q, struct request *rq,
			    struct bio *bio);
	bool (*bio_merge)(struct request_queue *q, struct bio *bio,
			  unsigned int nr_segs);
	int (*request_merge)(struct request_queue *q, struct request **rq,
			     struct bio *bio);
	void (*request_merged)(struct request_queue *q, struct request *rq,
			       enum elv_merge type);
	void (*requests_merged)(struct request_queue *q, struct request *rq,
				struct request *next);
	void (*limit_depth)(blk_opf_t opf, struct blk_mq_alloc_data *data);
	void (*prepare_request)(struct request *rq);
	void (*finish_request)(struct request *rq);
	void (*insert_requests)(struct blk_mq_hw_ctx *hctx,
				struct list_head *list, pd_insert_t how);
	struct request *(*dispatch_request)(struct blk_mq_hw_ctx *hctx);
	bool (*has_work)(struct blk_mq_hw_ctx *hctx);
	void (*completed_request)(struct request *rq, u64 now);
	void (*requeue_request)(struct request *rq);
	struct request *(*former_request)(struct request_queue *q,
					  struct request *rq);
	struct request *(*next_request)(struct request_queue *q,
					struct request *rq);
	void (*init_icq)(struct io_cq *icq);
	void (*exit_icq)(struct io_cq *icq);
};

#define ELV_NAME_MAX	16

struct elv_fs_entry {
	struct attribute attr;
	ssize_t (*show)(struct elevator_queue *e, char *page);
	ssize_t (*store)(struct elevator_queue *e, const char *page,
			 size_t count);
};

struct blk_mq_debugfs_attr {
	const char *name;
	umode_t mode;
	int (*show)(void *data, struct seq_file *m);
	ssize_t (*write)(void *data, const char __user *buf, size_t count,
			 loff_t *ppos);
	const struct seq_operations *seq_ops;
};

struct elevator_type {
	struct kmem_cache *icq_cache;
	struct elevator_mq_ops ops;
	size_t icq_size;
	size_t icq_align;
	const struct elv_fs_entry *elevator_attrs;
	const char *elevator_name;
	const char *elevator_alias;
#if PD_HAS_FEATURES
	unsigned int elevator_features;
#endif
	struct module *elevator_owner;
#ifdef CONFIG_BLK_DEBUG_FS
	const struct blk_mq_debugfs_attr *queue_debugfs_attrs;
	const struct blk_mq_debugfs_attr *hctx_debugfs_attrs;
#endif
	char icq_cache_name[ELV_NAME_MAX + 6];
	struct list_head list;
};

/* Only the beginning: the kernel allocates it, nothing further is used. */
struct elevator_queue {
	struct elevator_type *type;
#if PD_HAS_QUEUE_AT_INIT
	void *et;
#endif
	void *elevator_data;
	struct kobject kobj;
};

int elv_register(struct elevator_type *type);
void elv_unregister(struct elevator_type *type);
#if !PD_HAS_QUEUE_AT_INIT
struct elevator_queue *elevator_alloc(struct request_queue *q,
				      struct elevator_type *type);
#endif

void elv_rqhash_add(struct request_queue *q, struct request *rq);
void elv_rqhash_del(struct request_queue *q, struct request *rq);
void elv_rb_add(struct rb_root *root, struct request *rq);
void elv_rb_del(struct rb_root *root, struct request *rq);
struct request *elv_rb_find(struct rb_root *root, sector_t sector);
struct request *elv_rb_former_request(struct request_queue *q,
				      struct request *rq);
struct request *elv_rb_latter_request(struct request_queue *q,
				      struct request *rq);
bool elv_bio_merge_ok(struct request *rq, struct bio *bio);

bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio,
			    unsigned int nr_segs, struct request **merged);
bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq,
				   struct list_head *free);

#endif
