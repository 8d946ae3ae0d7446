// cores N COMMAND...: runs a command for which the system reports N processors, whatever the machine has.
//
// A filter in the kernel (seccomp) stops each sched_getaffinity(2) of the command and of its children, and this process
// answers it. So it holds for every program, however it makes the call; a library that is preloaded would see only the
// calls that go through the C library. Needs the right to supervise (root, as a rule); exits with 125 if it has none.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 1024

static void cannot(const char *what) {
    fprintf(stderr, "cores: cannot %s: %s\n", what, strerror(errno));
    exit(125);
}

// Asks for a listener that is told of each sched_getaffinity of this process and its children.
static int listen_to_self(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_getaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

union one_fd {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int socket, int fd) {
    char byte = 0;
    struct iovec part = {&byte, 1};
    union one_fd control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(socket, &message, 0) != 1) cannot("hand over the listener");
}

static int receive_fd(int socket) {
    char byte;
    int fd = -1;
    struct iovec part = {&byte, 1};
    union one_fd control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header) memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

// Answers one call as a kernel with `nr` processors would: a mask of whole words, its size in bytes as the result.
static void answer(int listener, unsigned nr) {
    struct seccomp_notif call;
    memset(&call, 0, sizeof call);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) return; // The caller was killed.
    uint64_t mask[MOST / 64] = {0};
    for (unsigned cpu = 0; cpu < nr; cpu++) mask[cpu / 64] |= UINT64_C(1) << cpu % 64;
    size_t bytes = (nr + 63) / 64 * 8;
    struct seccomp_notif_resp reply = {.id = call.id};
    if (call.data.args[1] < bytes || call.data.args[1] % 8) {
        reply.error = -EINVAL;
    } else {
        struct iovec from = {mask, bytes}, to = {(void *)(uintptr_t)call.data.args[2], bytes};
        if (process_vm_writev(call.pid, &from, 1, &to, 1, 0) == (ssize_t)bytes) reply.val = bytes;
        else reply.error = -EFAULT;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply); // Fails if the caller was killed meanwhile.
}

int main(int argc, char **argv) {
    unsigned nr = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
    if (nr < 1 || nr > MOST) {
        fprintf(stderr, "usage: cores N COMMAND..., N from 1 to %d\n", MOST);
        return 125;
    }
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)) cannot("make a socket");
    pid_t child = fork();
    if (child < 0) cannot("fork");
    if (child == 0) {
        close(sockets[0]);
        int listener = listen_to_self();
        if (listener < 0) {
            // Without privileges a filter is allowed only to processes that can gain none.
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || (listener = listen_to_self()) < 0) cannot("filter calls");
        }
        send_fd(sockets[1], listener);
        close(listener);
        execvp(argv[2], argv + 2);
        cannot("run the command");
    }
    close(sockets[1]);
    int listener = receive_fd(sockets[0]);
    for (;;) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        struct pollfd ready = {listener, POLLIN, 0};
        if (poll(&ready, 1, 50) > 0 && ready.revents & POLLIN) answer(listener, nr);
    }
}
