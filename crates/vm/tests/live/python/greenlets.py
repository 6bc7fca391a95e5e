try:
    sys.path.append("/usr/lib/python3/dist-packages")
    import greenlet
except ImportError:
    greenlet = None
    say("none")
    ready()
import gc


class Special(greenlet.greenlet if greenlet else object):
    pass


def told(who, frame):
    while frame:
        say("frame", who, frame.f_code.co_filename, frame.f_lineno, name_of(frame.f_code))
        frame = frame.f_back


def deep(n):
    if n:
        return deep(n - 1) if n % 3 else list(map(deep, [n - 1]))
    main.switch()


def generates():
    yield deep(2)


if greenlet:
    main = greenlet.getcurrent()
    parked = [greenlet.greenlet(lambda n=n: deep(n)) for n in (0, 1, 7, 40)]
    parked.append(Special(lambda: [list(generates()) for _ in (1,)]))
    for one in parked:
        one.switch()
    gc.freeze()
    ended = greenlet.greenlet(lambda: 1)
    ended.switch()
    fresh = greenlet.greenlet(deep)
    for one in parked + [ended, fresh, main]:
        # Read once before: that may make frame objects.
        one.gr_frame
    for one in parked + [ended, fresh, main]:
        say("greenlet", id(one), one._stack_saved, int(bool(one)), int(one is main))
        if one is not main:
            told(id(one), one.gr_frame)
    ready()
