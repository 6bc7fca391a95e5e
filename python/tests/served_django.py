"""A Django application on MariaDB for a real WSGI server, which test_django.py starts with it as `served_django:traced`. DATABASE is the database's socket, TRACES names the
file that its traces go to, and beside it what the program itself has seen of each request, in TRACES.measured."""

import json
import os
import threading
import time

import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="a key of this test alone",
    # A connection for each thread, which is kept: what is asked to begin one is not asked again.
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.mysql",
            "NAME": "mysql",
            "USER": "root",
            "CONN_MAX_AGE": None,
            "OPTIONS": {"unix_socket": os.environ["DATABASE"]},
        }
    },
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

import lancet.wsgi  # noqa: E402

seen = threading.local()
lock = threading.Lock()


def work(request, number):
    """Asks the database so many questions."""
    del request
    for _ in range(number):
        began = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute("SELECT SLEEP(0.03)")
            cursor.fetchall()
        seen.asking += time.monotonic() - began
    return HttpResponse(str(os.getpid()))


urlpatterns = [path("work/<int:number>", work)]


def measured(environ, start_response):
    """Below the middleware: the wall clock of a request, and of its questions."""
    seen.asking = 0.0
    began = time.monotonic()
    body = list(application(environ, start_response))
    told = {"path": environ["PATH_INFO"], "time": time.monotonic() - began, "asking": seen.asking}
    with lock, open(os.environ["TRACES"] + ".measured", "a", encoding="ascii") as file:
        file.write(json.dumps(told) + "\n")
    return body


application = get_wsgi_application()
traced = lancet.wsgi.Middleware(measured, sample=1, log=None, file=os.environ["TRACES"])
