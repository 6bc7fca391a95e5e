"""An application for a real ASGI server, which test_server.py starts with it as `served:traced`: HTTP, streams, web sockets, and what servers tell of their
beginning and end. TRACES names the file that its traces go to."""

import asyncio
import json
import os

import lancet.asgi

# Reads of the application's own. The server reads in steps of its own, and writes in those of the application, when it is sent something.
ZERO = os.open("/dev/zero", os.O_RDONLY)
started = []


async def app(scope, receive, send):
    """One connection."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    if scope["type"] == "websocket":
        return await websocket(receive, send)
    _, way, number = scope["path"].split("/")
    if way == "stream":
        return await stream(int(number), send)
    return await work(int(number), receive, send)


async def lifespan(receive, send):
    """The beginning and the end of the server."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            started.append(True)
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return


async def websocket(receive, send):
    """Says loudly what it hears."""
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        os.read(ZERO, 7)
        await send({"type": "websocket.send", "text": message["text"].upper()})


async def work(number, receive, send):
    """Reads so many times as many bytes, in steps between those of others; answers how much it was sent."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    for _ in range(number):
        os.read(ZERO, number)
        await asyncio.sleep(0.001)
    answer = json.dumps({"started": len(started), "number": number, "length": length}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]})
    await send({"type": "http.response.body", "body": answer})


async def stream(number, send):
    """Answers in so many parts, and reads before each."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in range(number):
        os.read(ZERO, number)
        await send({"type": "http.response.body", "body": b"part %d\n" % part, "more_body": True})
        await asyncio.sleep(0.005)
    await send({"type": "http.response.body", "body": b""})


traced = lancet.asgi.Middleware(app, sample=1, log=None, file=os.environ["TRACES"], secret=os.environ["SECRET"])
