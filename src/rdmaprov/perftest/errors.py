"""The words of a test that gave no number: `PathResult.error` is one of them."""

NO_PERFTEST = "no-perftest"
NO_DEVICE = "no-device"
NO_GPU_MEMORY = "no-gpu-memory"
NO_MEMORY = "no-memory"
NO_SERVER = "no-server"
PORT_IN_USE = "port-in-use"
NO_ANSWER = "no-answer"
NO_PATH = "no-path"
COMPLETION = "completion"
SMALL_MTU = "small-mtu"
REFUSED = "refused"
NO_NUMBERS = "no-numbers"
NO_CLOCK = "no-clock"
TIMEOUT = "timeout"
KILLED = "killed"
NOT_RUN = "not-run"

# What each means; the end of a sentence about a test.
MEANINGS = {
    NO_PERFTEST: "perftest is not installed",
    NO_DEVICE: "the RDMA device, its port or its GID cannot be used",
    NO_GPU_MEMORY: "GPU memory could not be tested",
    NO_MEMORY: "memory could not be registered with the NIC",
    NO_SERVER: "the server ended before it listened",
    PORT_IN_USE: "the server's TCP port is in use",
    NO_ANSWER: "the client got no TCP connection to the server, which listened",
    NO_PATH: "the queue pairs could not be connected",
    COMPLETION: "a transfer ended with an error",
    SMALL_MTU: "its packets are smaller than the site's RDMA MTU",
    REFUSED: "perftest refused its options",
    NO_CLOCK: "the CPU's clock is not steady (clocksource, dmesg), so that perftest has no rate",
    NO_NUMBERS: "perftest ended without a result",
    TIMEOUT: "perftest did not end within its time limit",
    KILLED: "perftest was killed",
    NOT_RUN: "it was not run",
}
# What stopped the test itself, so that it says nothing of the path: not verified.
UNTESTED = frozenset(
    {
        NO_PERFTEST,
        NO_GPU_MEMORY,
        PORT_IN_USE,
        NO_ANSWER,
        REFUSED,
        NO_NUMBERS,
        NO_CLOCK,
        KILLED,
        NOT_RUN,
    }
)
