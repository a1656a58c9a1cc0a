/* Calls of the C library that fail or kill on request, and a wall clock that jumps: loaded before it, with LD_PRELOAD.

Only paths below one folder are counted, in calls of this process and of those that it forks. The monotonic clock is
left alone. faulty_disk.py compiles and drives it. */

#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITES = 1, READS = 2 };

static struct shared {
    atomic_long seen, failed; /* calls counted; calls that failed */
    long number;              /* the first call that fails, from 1; 0: none */
    int error, lasting, halves, kinds; /* error 0: the call kills its process */
    char folder[PATH_MAX];
    atomic_ulong asked;       /* how often the clock was read */
    long every, reach;        /* the clock jumps every so many reads, by at most so many seconds; 0: never */
} *state;

__attribute__((constructor)) static void begin(void) {
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) abort();
}

/* What Python calls. */

void faulty_disk(const char *folder, int kinds, long number, int error, int lasting, int halves) {
    state->number = 0;
    state->seen = state->failed = 0;
    snprintf(state->folder, sizeof state->folder, "%s", folder);
    state->kinds = kinds, state->error = error, state->lasting = lasting, state->halves = halves;
    state->number = number;
}

long faulty_disk_seen(void) { return state->seen; }

void jumping_clock(long every, long reach) {
    state->asked = 0;
    state->every = every, state->reach = reach;
}

/* Which calls fail. */

static int below(const char *path) {
    size_t length = strlen(state->folder);
    return length && !strncmp(path, state->folder, length) && (path[length] == '/' || !path[length]);
}

static int of_handle(int handle, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return 1;
}

static int refused(int kind, const char *path) {
    if (!state || !(state->kinds & kind) || !path || !below(path)) return 0;
    long now = atomic_fetch_add(&state->seen, 1) + 1;
    if (!state->number || now < state->number || (now > state->number && !state->lasting)) return 0;
    atomic_fetch_add(&state->failed, 1);
    if (!state->error) kill(getpid(), SIGKILL);
    errno = state->error;
    return 1;
}

static int handle_refused(int kind, int handle) {
    char path[PATH_MAX];
    int before = errno;
    if (!state || !*state->folder || handle < 0 || !of_handle(handle, path)) return errno = before, 0;
    errno = before;
    return refused(kind, path);
}

static int refused_at(int kind, int folder, const char *path) {
    char whole[2 * PATH_MAX];
    if (!state || !*state->folder || !path) return 0;
    if (*path == '/' || folder == AT_FDCWD) return refused(kind, path);
    if (!of_handle(folder, whole)) return 0;
    strncat(whole, "/", sizeof whole - strlen(whole) - 1);
    strncat(whole, path, sizeof whole - strlen(whole) - 1);
    return refused(kind, whole);
}

#define REAL(result, name, ...)                          \
    static result (*real)(__VA_ARGS__);                  \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int opens_for(int flags) { return flags & (O_CREAT | O_WRONLY | O_RDWR) ? WRITES : READS; }

static mode_t mode_of(int flags, va_list more) {
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(more, int) : 0;
}

#define OPEN(name)                                                   \
    int name(const char *path, int flags, ...) {                     \
        REAL(int, #name, const char *, int, mode_t);                 \
        va_list more;                                                \
        va_start(more, flags);                                       \
        mode_t mode = mode_of(flags, more);                          \
        va_end(more);                                                \
        return refused(opens_for(flags), path) ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                 \
    int name(int folder, const char *path, int flags, ...) {         \
        REAL(int, #name, int, const char *, int, mode_t);            \
        va_list more;                                                \
        va_start(more, flags);                                       \
        mode_t mode = mode_of(flags, more);                          \
        va_end(more);                                                \
        return refused_at(opens_for(flags), folder, path) ? -1 : real(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

/* A refused write may first take half of what it was given, as a disk does that has become full. */

static size_t half(size_t size) { return state->halves && state->failed == 1 && size > 1 ? size / 2 : 0; }

ssize_t write(int handle, const void *bytes, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (!handle_refused(WRITES, handle)) return real(handle, bytes, size);
    size_t some = half(size);
    return some ? real(handle, bytes, some) : -1;
}

#define PWRITE(name, offset_type)                                    \
    ssize_t name(int handle, const void *bytes, size_t size, offset_type offset) { \
        REAL(ssize_t, #name, int, const void *, size_t, offset_type); \
        if (!handle_refused(WRITES, handle)) return real(handle, bytes, size, offset); \
        size_t some = half(size);                                    \
        return some ? real(handle, bytes, some, offset) : -1;        \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return handle_refused(WRITES, handle) ? -1 : real(handle, parts, count);
}

ssize_t read(int handle, void *bytes, size_t size) {
    REAL(ssize_t, "read", int, void *, size_t);
    return handle_refused(READS, handle) ? -1 : real(handle, bytes, size);
}

#define PREAD(name, offset_type)                                     \
    ssize_t name(int handle, void *bytes, size_t size, offset_type offset) { \
        REAL(ssize_t, #name, int, void *, size_t, offset_type);      \
        return handle_refused(READS, handle) ? -1 : real(handle, bytes, size, offset); \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

#define ON_HANDLE(name)                                              \
    int name(int handle) {                                           \
        REAL(int, #name, int);                                       \
        return handle_refused(WRITES, handle) ? -1 : real(handle);   \
    }
ON_HANDLE(fsync)
ON_HANDLE(fdatasync)

#define FTRUNCATE(name, offset_type)                                 \
    int name(int handle, offset_type size) {                         \
        REAL(int, #name, int, offset_type);                          \
        return handle_refused(WRITES, handle) ? -1 : real(handle, size); \
    }
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)

#define MMAP(name, offset_type)                                      \
    void *name(void *address, size_t size, int protection, int flags, int handle, offset_type offset) { \
        REAL(void *, #name, void *, size_t, int, int, int, offset_type); \
        if (handle >= 0 && handle_refused(WRITES, handle)) return MAP_FAILED; \
        return real(address, size, protection, flags, handle, offset); \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

#define ON_PATH(name)                                                \
    int name(const char *path) {                                     \
        REAL(int, #name, const char *);                              \
        return refused(WRITES, path) ? -1 : real(path);              \
    }
ON_PATH(unlink)
ON_PATH(rmdir)

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return refused(WRITES, path) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return refused(WRITES, from) ? -1 : real(from, to);
}

int unlinkat(int folder, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    return refused_at(WRITES, folder, path) ? -1 : real(folder, path, flags);
}

#define STAT(name, kind)                                             \
    int name(const char *path, struct kind *about) {                 \
        REAL(int, #name, const char *, struct kind *);               \
        return refused(READS, path) ? -1 : real(path, about);        \
    }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)

/* The clock on the wall. */

static long jump(void) {
    if (!state || !state->every) return 0;
    uint64_t turn = atomic_fetch_add(&state->asked, 1) / (unsigned long)state->every;
    uint64_t mixed = (turn + 1) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed ^= mixed >> 31;
    return turn ? (long)(mixed % (2 * (uint64_t)state->reach + 1)) - state->reach : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int result = real(clock, now);
    if (!result && clock == CLOCK_REALTIME) now->tv_sec += jump();
    return result;
}

time_t time(time_t *result) {
    REAL(time_t, "time", time_t *);
    time_t now = real(NULL) + jump();
    if (result) *result = now;
    return now;
}

int gettimeofday(struct timeval *now, void *zone) {
    REAL(int, "gettimeofday", struct timeval *, void *);
    int result = real(now, zone);
    if (!result) now->tv_sec += jump();
    return result;
}
