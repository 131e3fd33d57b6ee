/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sched.c - whose turn is it?
 *
 * A schedule is the order in which the threads of a scenario take their steps; a
 * step is one operation that others can see.  Before each the running thread calls
 * sched_point(), and there, and only there, another may go on instead.
 *
 *   random   The present thread goes on, or, one time in 2, 4, 8 or 32 (drawn anew
 *            for each schedule), any other.
 *   PCT      Each thread has a random priority, the highest runs; at depth - 1 random
 *            steps whoever runs falls below all others (S. Burckhardt et al., "A
 *            randomized scheduler with probabilistic guarantees of finding bugs",
 *            ASPLOS 2010).  Finds what needs few but far switches.
 *   DFS      All schedules in which at most `depth` times something else than the
 *            usual happens: the running thread is stopped although it could go on,
 *            or a load returns an older value than the latest (M. Musuvathi and S.
 *            Qadeer, "Iterative context bounding", PLDI 2007).  When a thread stops
 *            by itself, all others are tried, at no charge; when it yields, the next
 *            in turn.
 *
 * Threads.  They are contexts on stacks of their own, run in turn by the one real
 * thread of the program; _setjmp and _longjmp switch (no system call).  What belongs
 * to a thread is exchanged at a switch: the program's thread-local data (it is known
 * from the program header), errno, and thread-specific data (runtime.c).  So
 * pthread_self(), the C library's own thread-local data and signals are NOT a
 * thread's own; the library uses none of them.
 *
 * Every schedule begins from the same state: the static data of the subject lie
 * between two marks (edge.c) and are copied back, its thread-local data begin as
 * the program header says, the heap is empty.  A schedule is thus given by its plan
 * alone and can be run again.
 *
 * NOT simulated: two steps at the same instant (memory.c simulates what that could
 * make visible); a step that is cut in two by the hardware, such as an unaligned
 * access; signal handlers; a thread that never gets a turn.
 *
 * A schedule fails by a report from anywhere, by deadlock (nobody can go on, some
 * are not done: a lost wake-up, as a rule), or after too many steps (nobody gets
 * anywhere).  A failure jumps straight back to sched_run().
 */
#include "engine.h"

#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#define STACK_SIZE ((size_t)256 * 1024)
#define GUARD ((size_t)4096)
#define TLS_MAX 4096
#define STEPS_MAX 20000
#define QUIET_MAX 1000000
#define CHOICES_MAX 65536
#define CHANGES_MAX 16

enum fiber_state { CAN_RUN, ASLEEP, BLOCKED, DONE };

struct fiber {
	jmp_buf at;     /* where it stopped */
	jmp_buf bottom; /* where explore_leave() goes */
	ucontext_t start;
	bool begun;
	enum fiber_state state;
	int64_t priority;
	void (*body)(void);
	const void *sleeps_on;
	bool has_deadline;
	enum wake_cause cause;
	bool (*ready)(unsigned thread);
	uintptr_t base; /* frame of fiber_main() */
	int saved_errno;
	unsigned char tls[TLS_MAX] __attribute__((aligned(64)));
};

/* Marks around the subject's static data; see edge.c. */
extern char subject_data_begin[], subject_data_end[], subject_bss_begin[], subject_bss_end[];

unsigned current = MAIN;
bool serial = true;
struct plan plan;

static struct fiber fibers[THREADS + 1];
static unsigned char *stacks;
static unsigned threads; /* of the present scenario */
static uint64_t steps;
static uint64_t quiet; /* those that are no scheduling points */
static uint64_t alone; /* turns of waiting loops while serial */
static uint64_t random_state;
static unsigned stickiness; /* random: one switch in 2^this points */
static uint64_t change_at[CHANGES_MAX];
static unsigned changes;
static int64_t lowest;
static jmp_buf failed;
static bool in_schedule;
static char failure[512];
static const struct scenario *scene;

static unsigned char *data_image;
static size_t data_size, bss_size;
static unsigned char *tls;
static size_t tls_size;
static unsigned char tls_image[TLS_MAX];

/* DFS: the choices of this schedule: those of the last one up to a point, then the usual. */
static struct {
	uint16_t chosen, of;
} choice[CHOICES_MAX];
static uint32_t choices, position;
static unsigned deviations;
static bool stale; /* a load has returned an old value in this schedule */

static uint64_t random_next(void)
{
	/* xorshift64* (S. Vigna, 2014) */
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint32_t random_below(uint32_t n)
{
	return (uint32_t)((random_next() >> 32) * n >> 32);
}

/* ---- choices ---- */

static unsigned dfs_choose(unsigned n, bool charged)
{
	unsigned chosen = 0;

	if (n < 2 || (charged && deviations >= plan.depth))
		return 0;
	if (position < choices) {
		chosen = choice[position].chosen;
		if (choice[position].of != n)
			explore_fail("the explorer itself: schedules are not deterministic");
	} else {
		if (choices == CHOICES_MAX)
			return 0;
		choice[position].chosen = 0;
		choice[position].of = (uint16_t)n;
		choices = position + 1;
	}
	position++;
	deviations += charged && chosen != 0;
	return chosen;
}

unsigned sched_choose_stale(unsigned n)
{
	unsigned chosen;

	if (n < 2 || serial || plan.strong)
		return 0;
	if (plan.mode == MODE_DFS)
		chosen = dfs_choose(n, true);
	else
		chosen = random_below(4) == 0 ? random_below(n) : 0;
	stale |= chosen != 0;
	return chosen;
}

bool explore_stale(void)
{
	return stale && !serial;
}

unsigned sched_choose_any(unsigned n)
{
	if (n < 2 || serial)
		return 0;
	return plan.mode == MODE_DFS ? dfs_choose(n, false) : random_below(n);
}

bool sched_chance(unsigned n)
{
	return !serial && plan.mode != MODE_DFS && random_below(n) == 0;
}

void sched_dfs_begin(void)
{
	choices = position = 0;
}

bool sched_dfs_next(void)
{
	choices = position;
	while (choices != 0 && choice[choices - 1].chosen + 1 >= choice[choices - 1].of)
		choices--;
	if (choices == 0)
		return false;
	choice[choices - 1].chosen++;
	return true;
}

/* ---- contexts ---- */

static void leave_thread(void)
{
	memcpy(fibers[current].tls, tls, tls_size);
	fibers[current].saved_errno = errno;
}

static void enter_thread(unsigned thread)
{
	current = thread;
	memcpy(tls, fibers[thread].tls, tls_size);
	errno = fibers[thread].saved_errno;
}

static void switch_to(unsigned next)
{
	struct fiber *from = &fibers[current], *to = &fibers[next];

	if (from == to)
		return;
	leave_thread();
	enter_thread(next);
	if (_setjmp(from->at) != 0)
		return;
	if (to->begun)
		_longjmp(to->at, 1);
	to->begun = true;
	setcontext(&to->start);
}

static bool can_run(unsigned t)
{
	struct fiber *f = &fibers[t];

	if (f->state == BLOCKED && f->ready(t))
		f->state = CAN_RUN;
	if (f->state == ASLEEP && f->has_deadline && sched_chance(16)) {
		f->cause = WAKE_TIMEOUT;
		f->state = CAN_RUN;
	}
	return f->state == CAN_RUN;
}

/* Who goes on?  leaving: the present thread would rather not.  MAIN: nobody can. */
static unsigned pick(bool leaving)
{
	unsigned able[THREADS], n = 0, best;
	bool present = false;

	if (plan.mode == MODE_RANDOM && !leaving && fibers[current].state == CAN_RUN &&
	    (random_next() >> 40 & ((1u << stickiness) - 1)) != 0)
		return current;
	/* In turn, so that threads which wait in loops that yield do not keep the rest out. */
	for (unsigned i = 1; i <= threads; i++) {
		unsigned t = (current + i) % threads;

		if (!can_run(t))
			continue;
		if (t == current)
			present = true;
		else
			able[n++] = t;
	}
	if (n == 0)
		return present ? current : MAIN;
	switch (plan.mode) {
	case MODE_DFS: {
		unsigned chosen;

		if (!present || leaving)
			return able[dfs_choose(n, present)]; /* a loop that yields must not open up a tree */
		chosen = dfs_choose(n + 1, true);
		return chosen == 0 ? current : able[chosen - 1];
	}
	case MODE_PCT:
		if (leaving && present)
			fibers[current].priority = --lowest;
		for (unsigned i = 0; i < changes; i++)
			if (change_at[i] == steps && present)
				fibers[current].priority = --lowest;
		best = present ? current : able[0];
		for (unsigned i = 0; i < n; i++)
			if (fibers[able[i]].priority > fibers[best].priority)
				best = able[i];
		return best;
	default:
		return able[random_below(n)];
	}
}

static void nobody_can(void)
{
	char text[256];
	size_t n = 0;
	bool done = true;

	text[0] = '\0';
	for (unsigned t = 0; t < threads; t++) {
		char name[64];

		if (fibers[t].state == DONE)
			continue;
		done = false;
		n += (size_t)snprintf(text + n, sizeof(text) - n, " T%u %s", t,
				      fibers[t].state == ASLEEP ? heap_name(fibers[t].sleeps_on, name, sizeof(name))
								: "blocked");
	}
	if (!done)
		explore_fail("deadlock:%s", text);
}

/* The present thread cannot go on, or has ended. */
static void others(void)
{
	unsigned next = pick(false);

	if (next == MAIN) {
		/* Deadlines pass when nothing else can happen. */
		for (unsigned t = 0; t < threads && next == MAIN; t++) {
			if (fibers[t].state != ASLEEP || !fibers[t].has_deadline)
				continue;
			fibers[t].cause = WAKE_TIMEOUT;
			fibers[t].state = CAN_RUN;
			next = t;
		}
		if (next == MAIN)
			nobody_can();
	}
	switch_to(next);
}

void sched_point(void)
{
	if (serial)
		return;
	if (++steps > STEPS_MAX)
		explore_fail("no end after %d steps", STEPS_MAX);
	switch_to(pick(false));
	runtime_deliver();
}

void sched_quiet_step(void)
{
	if (!serial && ++quiet > QUIET_MAX)
		explore_fail("no end after %d steps", QUIET_MAX);
}

void sched_yield_turn(void)
{
	if (serial) {
		if (++alone > STEPS_MAX)
			explore_fail("a single thread waits for ever");
		return;
	}
	if (++steps > STEPS_MAX)
		explore_fail("no end after %d steps", STEPS_MAX);
	switch_to(pick(true));
	runtime_deliver();
}

void sched_block(bool (*ready)(unsigned thread))
{
	if (serial) {
		if (!ready(current))
			explore_fail("deadlock of a single thread");
		return;
	}
	fibers[current].ready = ready;
	fibers[current].state = BLOCKED;
	others();
}

enum wake_cause sched_sleep(const void *address, bool has_deadline)
{
	struct fiber *f = &fibers[current];

	if (serial)
		explore_fail("a single thread sleeps");
	f->sleeps_on = address;
	f->has_deadline = has_deadline;
	f->state = ASLEEP;
	f->cause = WAKE_CALLED;
	others();
	return f->cause;
}

int sched_wake(const void *address, int count)
{
	int woken = 0;

	while (!serial && woken < count) {
		unsigned sleeper[THREADS], n = 0;

		for (unsigned t = 0; t < threads; t++)
			if (fibers[t].state == ASLEEP && fibers[t].sleeps_on == address)
				sleeper[n++] = t;
		if (n == 0)
			break;
		fibers[sleeper[sched_choose_any(n)]].state = CAN_RUN;
		woken++;
	}
	return woken;
}

uint64_t sched_steps(void)
{
	return steps;
}

/* ---- the life of a thread ---- */

__attribute__((noinline)) static void run_body(struct fiber *f)
{
	if (_setjmp(f->bottom) == 0)
		f->body();
}

static void fiber_main(void)
{
	for (;;) {
		struct fiber *f = &fibers[current];

		f->base = (uintptr_t)__builtin_frame_address(0);
		run_body(f);
		runtime_thread_check(current);
		if (scene->ending)
			runtime_thread_end();
		f->state = DONE;
		others();
	}
}

static _Unwind_Reason_Code stop_at_bottom(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
					  struct _Unwind_Exception *exception, struct _Unwind_Context *context,
					  void *arg)
{
	struct fiber *f = arg;

	(void)version;
	(void)class;
	(void)exception;
	if ((actions & _UA_END_OF_STACK) != 0 || _Unwind_GetCFA(context) >= f->base)
		_longjmp(f->bottom, 1);
	return _URC_NO_REASON;
}

_Noreturn void explore_leave(void)
{
	static struct _Unwind_Exception exception[THREADS + 1];

	memset(&exception[current], 0, sizeof(exception[current]));
	_Unwind_ForcedUnwind(&exception[current], stop_at_bottom, &fibers[current]);
	explore_fail("unwinding failed");
}

static void fiber_make(unsigned thread)
{
	struct fiber *f = &fibers[thread];

	f->begun = false;
	getcontext(&f->start);
	f->start.uc_stack.ss_sp = stacks + thread * (STACK_SIZE + GUARD) + GUARD;
	f->start.uc_stack.ss_size = STACK_SIZE;
	f->start.uc_link = NULL;
	makecontext(&f->start, fiber_main, 0);
}

/* ---- failing ---- */

_Noreturn void explore_fail(const char *format, ...)
{
	va_list list;
	int n;

	n = snprintf(failure, sizeof(failure), current == MAIN ? "main: " : "T%u: ", current);
	va_start(list, format);
	vsnprintf(failure + n, sizeof(failure) - (size_t)n, format, list);
	va_end(list);
	_longjmp(failed, 1);
}

static void crashed(int number, siginfo_t *info, void *context)
{
	sigset_t set;

	(void)context;
	if (!in_schedule) {
		signal(number, SIG_DFL);
		return;
	}
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	explore_fail("%s at address %p", strsignal(number), info->si_addr);
}

/* ---- a schedule ---- */

static int find_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_TLS)
			continue;
		tls = info->dlpi_tls_data;
		tls_size = ph->p_memsz;
		if (tls_size > TLS_MAX)
			tls = NULL;
		else
			memcpy(tls_image, (const void *)(info->dlpi_addr + ph->p_vaddr), ph->p_filesz);
	}
	return 1; /* the first is the program itself */
}

void sched_setup(void)
{
	static unsigned char alternative[65536];
	stack_t stack = { .ss_sp = alternative, .ss_size = sizeof(alternative) };
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };

	dl_iterate_phdr(find_tls, NULL);
	if (tls == NULL) {
		fprintf(stderr, "explore: the program's thread-local data were not found\n");
		exit(2);
	}
	data_size = (size_t)(subject_data_end - subject_data_begin);
	bss_size = (size_t)(subject_bss_end - subject_bss_begin);
	data_image = malloc(data_size + 1);
	stacks = mmap(NULL, THREADS * (STACK_SIZE + GUARD), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data_image == NULL || stacks == MAP_FAILED) {
		fprintf(stderr, "explore: no memory\n");
		exit(2);
	}
	memcpy(data_image, subject_data_begin, data_size);
	for (unsigned t = 0; t < THREADS; t++) {
		mprotect(stacks + t * (STACK_SIZE + GUARD), GUARD, PROT_NONE);
		fiber_make(t);
	}
	fibers[MAIN].begun = true;
	sigaltstack(&stack, NULL);
	action.sa_sigaction = crashed;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	sigaction(SIGILL, &action, NULL);
}

static void reset(const struct scenario *scenario, const struct plan *p)
{
	plan = *p;
	scene = scenario;
	threads = scenario->threads;
	steps = quiet = alone = 0;
	serial = true;
	stale = false;
	current = MAIN;
	lowest = 0;
	deviations = 0;
	position = 0;
	random_state = (p->seed * UINT64_C(0x9e3779b97f4a7c15)) ^ (p->number * UINT64_C(0xd1342543de82ef95)) ^
		       ((uint64_t)p->mode << 60);
	if (random_state == 0)
		random_state = 1;
	for (int i = 0; i < 4; i++)
		(void)random_next();
	stickiness = "\1\2\3\5"[random_below(4)];
	changes = p->mode == MODE_PCT && p->depth > 1 ? p->depth - 1 : 0;
	if (changes > CHANGES_MAX)
		changes = CHANGES_MAX;
	for (unsigned i = 0; i < changes; i++)
		change_at[i] = 1 + random_below((uint32_t)p->length + 1);
	memcpy(subject_data_begin, data_image, data_size);
	memset(subject_bss_begin, 0, bss_size);
	memcpy(tls, tls_image, tls_size);
	for (unsigned t = 0; t <= THREADS; t++) {
		struct fiber *f = &fibers[t];

		f->state = t < threads ? CAN_RUN : DONE;
		f->priority = (int64_t)(random_next() >> 2) + 1;
		f->saved_errno = 0;
		memcpy(f->tls, tls_image, tls_size);
		f->body = t < THREADS ? scenario->body[t] : NULL;
	}
	memory_begin();
	runtime_begin();
	oracle_begin();
	trace_begin();
}

/* Run a function in a thread's name while nothing else runs. */
static void in_name_of(unsigned thread, void (*function)(void))
{
	leave_thread();
	enter_thread(thread);
	function();
	leave_thread();
	enter_thread(MAIN);
}

void sched_run(const struct scenario *scenario, const struct plan *p, struct run_result *result)
{
	reset(scenario, p);
	in_schedule = true;
	if (_setjmp(failed) == 0) {
		if (scenario->prepare != NULL)
			scenario->prepare();
		for (unsigned t = 0; t < threads && scenario->enter != NULL && !scenario->cold; t++)
			in_name_of(t, scenario->enter);
		memory_threads_begin();
		serial = false;
		switch_to(pick(false));
		serial = true;
		for (unsigned t = 0; t < threads && !scenario->ending; t++)
			in_name_of(t, runtime_thread_end);
		if (scenario->finish != NULL)
			scenario->finish();
		result->ok = true;
		result->message[0] = '\0';
	} else {
		/* Some threads stopped midway: begin their stacks anew next time. */
		for (unsigned t = 0; t < THREADS; t++)
			fiber_make(t);
		current = MAIN;
		serial = true;
		result->ok = false;
		memcpy(result->message, failure, sizeof(result->message));
	}
	in_schedule = false;
	result->steps = steps;
}
