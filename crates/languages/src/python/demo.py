"""The server of `lancet demo`. It asks itself for pages. Three faults are in it, each at a line that is marked so."""
import os
import sys
import threading
import time


class Shop:
    def __init__(self):
        self.visits = []
        self.ledger, self.stock = threading.Lock(), threading.Lock()
        self.both = threading.Barrier(2)

    def serve(self, number):
        self.remember(number)
        return sum(self.orders(number))

    def remember(self, number):
        self.visits.append({"number": number, "page": f"/orders/{number}"})  # the leak

    def orders(self, number):
        time.sleep(0.02)  # the slow query
        return [(id * number) % 97 for id in range(20)]

    # Each has one lock when it wants the other.
    def pay(self):
        with self.ledger:
            self.both.wait()
            with self.stock:  # the lock
                return "paid"

    def ship(self):
        with self.stock:
            self.both.wait()
            with self.ledger:  # the lock
                return "shipped"


def end():
    sys.stdin.read()
    os._exit(0)


shop = Shop()
for work in end, shop.pay, shop.ship:
    threading.Thread(target=work, name=work.__name__, daemon=True).start()
print("ready", os.getpid(), flush=True)
number = 0
while True:
    number += 1
    shop.serve(number)
