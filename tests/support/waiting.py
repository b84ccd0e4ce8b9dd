"""The wait of a test for what another process or thread does."""
import time


def eventually(condition, limit_s=60):
    """Whether the condition holds now or within this time. With a short time, a test shows that something does not happen."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)  # it polls
    return True
