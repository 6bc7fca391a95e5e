# Makes the image that tests/image reads: threads that are each in other functions, one of which has run in all of them.
import threading


class Job:
    def run(self, lock):
        with lock:
            for _ in steps(self.end):
                pass

    def end(self):
        wait("run")


def steps(then):
    yield then()


def deep(n, name):
    return deep(n - 1, name) if n else wait(name)


def wait(name):
    said.release()
    over.acquire()


def wants(lock):
    said.release()
    lock.acquire()


said, over, lock = threading.Semaphore(0), threading.Lock(), threading.Lock()
over.acquire()
jobs = [
    ("runs", lambda: Job().run(lock)),
    ("deep", lambda: deep(20, "deep")),
    ("wants", lambda: wants(lock)),
    ("é€𝄞", lambda: list(map(wait, ["map"]))),
]
for name, job in jobs:
    threading.Thread(target=job, name=name, daemon=True).start()
    said.acquire()
ready()
